"""A model in vLLM on this machine, with LoRA adapters served unmerged."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

from instruct.base.errors import InputError
from instruct.base.replies import Failure, Reply
from instruct.engines.base import EngineOptions, Request
from instruct.engines.local import LocalEngine, scored
from instruct.engines.network import TextRow
from instruct.engines.rewards import RewardEngine
from instruct.engines.thinking import marks_of
from instruct.engines.weights import lora_rank

# Prompts that a stream works on at once, vLLM's default except on the largest GPUs; and how many more wait inside vLLM,
# so that it stays full while replies are stored here.
SLOTS, WAITING = 256, 64
# Texts that vLLM's pooling runner is given at a time; it batches them itself.
TEXTS = 256
# What vLLM is sent of a request.
ROW = ("prompt", "max_tokens", "adapter", "seed", "min_tokens", "temperature", "stop", "scored")
_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)  # vllm.config.lora.MaxLoRARanks

GREEDY = "decoded greedily with the repetition penalty; its authors use {beams} beams, which vLLM has not"


class InVLLM(LocalEngine):
    """What every model in vLLM shares: its process, started when it is first needed."""

    kind: Literal["vllm", "transformers"] = "vllm"
    _client: Any = None

    def start(self) -> str:
        """Start vLLM if it is not running; returns its version and device."""
        if self._client is None:
            from instruct.engines.vllm_client import VLLMClient

            self._client = VLLMClient(self.arguments(), self.options.adapters)
            self.context = self._client.context
        return str(self._client.name)

    def arguments(self) -> dict[str, Any]:
        """The arguments of `vllm.LLM` that follow from the options."""
        _ = self.labels  # those that are not one token are refused before anything is loaded
        model, revision, pickled = self._weights_to_load()
        arguments: dict[str, Any] = {"model": model, "revision": revision}
        if pickled:
            arguments["load_format"] = "hf"  # with torch's unpickler for tensors alone
        for name, default in (("dtype", None), ("tensor_parallel_size", 1), ("gpu_memory_utilization", None)):
            if (value := getattr(self.options, name)) != default:
                arguments[name] = value
        return arguments

    def close(self) -> None:
        """End vLLM's process."""
        if self._client is not None:
            self._client.close()


class VLLMEngine(InVLLM):
    """A model in vLLM on this machine, started with the first request that fits its context.

    With `options.batch`, requests are computed in whole batches of that size without a prefix cache: near-tied
    log-probabilities then depend neither on their neighbors nor on what was asked before. Without it they are computed
    as a stream with a prefix cache, and each reply is yielded when it is finished.

    Raises:
        InputError: `quantization` is set, which vLLM does not support; when the first request is looked at: vLLM is
            not installed, the weights cannot be loaded or do not fit, a label is not one token.
        InstructError: vLLM failed for another reason.
    """

    def __init__(self, options: EngineOptions) -> None:
        super().__init__(options)
        if options.quantization:
            raise InputError(
                f"{options.subject}: vLLM cannot quantize a model to {options.quantization} (it dropped bitsandbytes); "
                "set the engine to transformers"
            )
        if (beams := options.decoding.beams) > 1:
            self.identity["beams"] = 1
            self.notes.append(GREEDY.format(beams=beams))

    def arguments(self) -> dict[str, Any]:
        options = self.options
        arguments = super().arguments() | {
            "max_model_len": options.context_length,
            "max_num_seqs": self.batch or SLOTS,
            "enable_prefix_caching": self.batch is None,
            # schemas and stop texts are followed in the tokenizer's words
            "skip_tokenizer_init": options.response_schema is None and self.budget is None and not options.stop_texts,
        }
        if self.budget is not None and (marks := marks_of(self.tokenizer.chat_template)):
            arguments["reasoning_config"] = {"reasoning_start_str": marks.begin, "reasoning_end_str": marks.end}
        if options.adapters:
            arguments |= {
                "enable_lora": True,
                "max_lora_rank": max(_served_rank(adapter, lora_rank(adapter)) for adapter in options.adapters),
                "max_loras": 1,
                "max_cpu_loras": len(options.adapters),
            }
        return arguments

    def complete(self, requests: Iterable[Request]) -> Iterator[list[tuple[Request, Reply]]]:
        """See `Engine`. Each request has a seed of its own: a sample does not depend on its batch."""
        if self.options.context_length < 0:
            self.start()
        return self._in_batches(requests, self.batch) if self.batch else self._in_a_stream(iter(requests))

    def _resolved(self, request: Request) -> Request | Failure:
        if request.scored is not None and self.options.adapters:  # another layer computes them then: fails on a CPU
            raise InputError(
                f"{self.options.subject}: vLLM with adapters answers, but does not score given text; leave the engine "
                "out for tasks that score it"
            )
        return super()._resolved(request)

    def _answered(self, rows: list[Request]) -> Iterable[Reply]:
        sent = self._sent(rows)
        replies: dict[int, Reply] = {}
        while len(replies) < len(sent):
            replies |= self._finished(sent)
        return [replies[number] for number in sent]

    def _in_a_stream(self, waiting: Iterator[Request]) -> Iterator[list[tuple[Request, Reply]]]:
        original: dict[int, Request] = {}  # the requests in flight, by vLLM's numbers of them, and as they are sent
        running: dict[int, Request] = {}
        while True:
            failed: list[tuple[Request, Reply]] = []
            fitting: list[tuple[Request, Request]] = []
            for request in itertools.islice(waiting, SLOTS + WAITING - len(running)):
                row = self._resolved(request)
                if isinstance(row, Failure):
                    failed.append((request, row))
                else:
                    fitting.append((request, row))
            if fitting:
                sent = self._sent([row for _, row in fitting])
                running |= sent
                original |= dict(zip(sent, (request for request, _ in fitting), strict=True))
            if failed:
                yield failed
            elif not running:
                return
            else:
                finished = self._finished(running)
                running = {number: row for number, row in running.items() if number not in finished}
                yield [(original.pop(number), reply) for number, reply in finished.items()]

    def _sent(self, rows: list[Request]) -> dict[int, Request]:
        """Send resolved requests; returns them by vLLM's numbers of them."""
        self.start()
        decoding = self.options.decoding
        first = self._client.send_rows(
            {
                "rows": [{name: getattr(row, name) for name in ROW} for row in rows],
                "thinking_budget": None if self.budget is None else self.budget.tokens,
                "top_p": decoding.top_p,
                "repetition_penalty": decoding.repetition_penalty,
                "logprob_token_ids": list(self.labels.values()) or None,
                "schema": self.options.response_schema,
                "stop_ids": self.stops,
            }
        )
        return dict(enumerate(rows, first))

    def _finished(self, running: dict[int, Request]) -> dict[int, Reply]:
        """Wait until some of these are finished; their replies."""
        replies: dict[int, Reply] = {}
        for number, answer, reason, scores, logprobs in self._client.receive()["finished"]:
            row = running.get(number)
            if row is None:  # of an earlier stream whose reader left early
                continue
            prompt: Any = row.prompt
            if reason not in ("stop", "length"):
                replies[number] = Failure("vLLM gave it up")
            elif row.scored is not None:
                replies[number] = scored(row, scores[row.scored - 1 :])
            else:
                replies[number] = self._completion(prompt, answer, logprobs)
        return replies


class VLLMRewardEngine(InVLLM, RewardEngine):
    """A sequence-classification model with one label in vLLM; its logit, without an activation, is the score.

    Raises:
        InputError: as `RewardEngine`.
        InstructError: vLLM failed for another reason.
    """

    def arguments(self) -> dict[str, Any]:
        return super().arguments() | {
            "runner": "pooling",
            "max_model_len": self.longest,
            "max_num_seqs": TEXTS,
            "skip_tokenizer_init": False,  # the pooling runner wants it
        }

    def _batches(self, lengths: list[int], device: str) -> list[list[int]]:
        by_length = sorted(range(len(lengths)), key=lambda place: lengths[place], reverse=True)
        return [by_length[first : first + TEXTS] for first in range(0, len(lengths), TEXTS)]

    def _scores(self, texts: list[TextRow]) -> list[float]:
        return self._client.ask({"classify": [text.ids for text in texts]})["scores"]


def _served_rank(adapter: Path, rank: int) -> int:
    """The smallest rank that vLLM can be set to and that holds the adapter."""
    served = next((allowed for allowed in _RANKS if allowed >= rank), None)
    if served is None:
        raise InputError(f"{adapter}: rank {rank}, vLLM serves up to {_RANKS[-1]}; merge it into its base")
    return served
