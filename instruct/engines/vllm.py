"""A model in vLLM on this machine, with LoRA adapters served unmerged."""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

from instruct.base.errors import InputError
from instruct.base.replies import Failure, Reply
from instruct.engines.base import EngineOptions, Request
from instruct.engines.local import Asked, LocalEngine, scored
from instruct.engines.thinking import marks_of

# Prompts that a stream works on at once, vLLM's default except on the largest GPUs; and how many more wait inside vLLM,
# so that it stays full while replies are stored here.
SLOTS, WAITING = 256, 64
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

            self._client = VLLMClient(self.arguments(), self._options.adapters)
            self.context = self._client.context
        return str(self._client.name)

    def _prepare(self) -> None:
        super()._prepare()
        if importlib.util.find_spec("vllm") is None:
            raise InputError(
                f"{self._options.subject}: vLLM is not installed; `pip install 'emo-instruct[vllm]'`, --base-url, or "
                "--engine transformers"
            )

    def arguments(self) -> dict[str, Any]:
        """The arguments of `vllm.LLM` that follow from the options."""
        self._prepare()
        model, revision = self._safetensors()
        arguments: dict[str, Any] = {"model": model, "revision": revision}
        for name, default in (("dtype", None), ("tensor_parallel_size", 1), ("gpu_memory_utilization", None)):
            if (value := getattr(self._options, name)) != default:
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
        self._numbers = itertools.count()  # vLLM's own numbers of the prompts in its streams

    def arguments(self) -> dict[str, Any]:
        from instruct.engines.weights import lora_rank

        options = self._options
        arguments = super().arguments() | {
            "max_model_len": options.context_length,
            "max_num_seqs": self.batch or SLOTS,
            "enable_prefix_caching": self.batch is None,
            # schemas and stop texts are followed in the tokenizer's words
            "skip_tokenizer_init": options.response_schema is None and self._budget is None and not options.stop_texts,
        }
        if self._budget is not None and (marks := marks_of(self._tokenizer.chat_template)):
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
        if self._options.context_length < 0:
            self.start()
        return self._in_batches(requests, self.batch) if self.batch else self._in_a_stream(iter(requests))

    def _ask(self, request: Request) -> Asked | Failure:
        if request.scored is not None and self._options.adapters:  # another layer computes them then: fails on a CPU
            raise InputError(
                f"{self._options.subject}: vLLM with adapters answers, but does not score given text; leave the engine "
                "out for tasks that score it"
            )
        return super()._ask(request)

    def _answered(self, asked: list[Asked]) -> Iterable[Reply]:
        self.start()
        done = self._client.ask(self._message(asked))
        logprobs = done.get("logprobs") or [None] * len(asked)
        return map(self._reply, asked, done["tokens"], done["prompts"], logprobs)

    def _reply(self, asked: Asked, answer: list[int], prompt: Any, logprobs: Any = None) -> Reply:
        if asked.scored is not None:
            return scored(asked, prompt[asked.scored - 1 :])
        return self._completion(asked.ids, answer, logprobs)

    def _in_a_stream(self, waiting: Iterator[Request]) -> Iterator[list[tuple[Request, Reply]]]:
        running: dict[int, tuple[Request, Asked]] = {}
        while True:
            sent: list[tuple[Request, Asked]] = []
            failed: list[tuple[Request, Reply]] = []
            for request in itertools.islice(waiting, SLOTS + WAITING - len(running)):
                asked = self._ask(request)
                if isinstance(asked, Failure):
                    failed.append((request, asked))
                else:
                    sent.append((request, asked))
            if sent:
                self.start()
                self._client.send({**self._message([asked for _, asked in sent]), "stream": True})
                running |= {next(self._numbers): (request, asked) for request, asked in sent}
            if failed:
                yield failed
            elif not running:
                return
            else:
                yield self._finished(self._client.receive()["finished"], running)

    def _finished(
        self, finished: list[tuple[int, list[int], str, Any]], running: dict[int, tuple[Request, Asked]]
    ) -> list[tuple[Request, Reply]]:
        portion: list[tuple[Request, Reply]] = []
        for number, answer, reason, scores in finished:
            if number not in running:  # of an earlier stream whose reader left early
                continue
            request, asked = running.pop(number)
            if reason not in ("stop", "length"):
                portion.append((request, Failure("vLLM gave it up")))
            else:
                portion.append((request, self._reply(asked, answer, scores)))
        return portion

    def _message(self, asked: list[Asked]) -> dict[str, Any]:
        """A request of `vllm_process.py`."""
        decoding = self._options.decoding
        return {
            "rows": [vars(row) for row in asked],
            "thinking_budget": None if self._budget is None else self._budget.tokens,
            "top_p": decoding.top_p,
            "repetition_penalty": decoding.repetition_penalty,
            "logprob_token_ids": list(self._labels.values()) or None,
            "schema": self._options.response_schema,
            "stop_ids": self._stops,
        }


def _served_rank(adapter: Path, rank: int) -> int:
    """The smallest rank that vLLM can be set to and that holds the adapter."""
    served = next((allowed for allowed in _RANKS if allowed >= rank), None)
    if served is None:
        raise InputError(f"{adapter}: rank {rank}, vLLM serves up to {_RANKS[-1]}; merge it into its base")
    return served
