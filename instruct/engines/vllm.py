"""A model in vLLM, here or on a cluster: vLLM's own server, with LoRA adapters as layers beside its weights."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from instruct.base.errors import InputError
from instruct.base.machine import has_gpu_device
from instruct.base.networks import check_adapter
from instruct.base.replies import Completion, Failure, Reply
from instruct.engines.base import EngineOptions, Request
from instruct.engines.cluster import Replicas, Where
from instruct.engines.local import LocalEngine, scored
from instruct.engines.rewards import RewardEngine, score_reply
from instruct.engines.server import ServerEngine
from instruct.engines.server_replies import parsed
from instruct.engines.vllm_server import VLLMServer
from instruct.engines.weights import adapted_modules, lora_rank

# Prompts that vLLM works on at once, its default except on the largest GPUs.
SLOTS = 256
# Seconds for a reply; while the server runs, it is worked on.
TIMEOUT = 86_400.0
_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)  # vllm.config.lora.MaxLoRARanks
GREEDY = "decoded greedily with the repetition penalty; its authors use {beams} beams, which vLLM has not"


class InVLLM(LocalEngine):
    """What every model in vLLM shares: its server, started when it is first needed, and asked with token ids."""

    kind: Literal["vllm", "transformers"] = "vllm"

    def __init__(self, options: EngineOptions, where: Where = None) -> None:
        super().__init__(options)
        self._where = where
        self._served: VLLMServer | Replicas | None = None
        self._asked: ServerEngine | None = None

    def start(self) -> str:
        """Start vLLM if it is not running; returns its version and device."""
        if self._served is None:
            _ = self.labels  # those that are not one token are refused before anything is loaded
            served: VLLMServer | Replicas
            if self._where is None:
                served = VLLMServer(self.options.subject, self.arguments())
            else:
                served = Replicas(self._where, self.options, self.arguments())
            self._served, self.context = served, served.context
            self._asked = self._client(served)
        return self._served.version

    def arguments(self) -> list[str]:
        """The arguments of `vllm serve` that follow from the options."""
        options, (model, revision, pickled) = self.options, self.weights
        arguments = {
            "model": model,
            "revision": revision,
            "dtype": self.dtype,
            "load-format": "hf" if pickled else "safetensors",  # hf: of .bin files, read with weights_only=True
            "generation-config": "vllm",  # decoding is this project's configuration and nothing else
            "tensor-parallel-size": options.tensor_parallel_size,
            "gpu-memory-utilization": options.gpu_memory_utilization,
            "max-num-seqs": options.batch or SLOTS,
        }
        folder = Path(model)  # a fine-tuned model may have been saved without its tokenizer
        if folder.is_dir() and not (folder / "tokenizer_config.json").is_file():
            arguments["tokenizer"] = getattr(options.tokenizer, "name_or_path", None)
        return [f"--{name}={value}" for name, value in arguments.items() if value is not None]

    def _client(self, served: VLLMServer | Replicas) -> ServerEngine:
        """What asks the server."""
        raise NotImplementedError

    def _replies(self, rows: Iterable[Request]) -> Iterator[list[tuple[Request, Reply]]]:
        """The server's replies to rows of token ids; it is started for the first one."""
        rows = iter(rows)
        for first in itertools.islice(rows, 1):
            self.start()
            assert self._asked
            yield from self._asked.complete(itertools.chain([first], rows))

    def close(self) -> None:
        """End vLLM's server."""
        if self._served is not None:
            self._served.close()


class VLLMEngine(InVLLM):
    """A model in vLLM, started with the first request that fits its context.

    Raises:
        InputError: `quantization` is set, which vLLM does not support; when the first request is looked at: vLLM is
            not installed, the weights cannot be loaded or do not fit, a label is not one token.
        InstructError: vLLM failed for another reason.
    """

    def __init__(self, options: EngineOptions, where: Where = None) -> None:
        super().__init__(options, where)
        if options.quantization:
            raise InputError(
                f"{options.subject}: vLLM cannot quantize a model to {options.quantization} (it dropped bitsandbytes); "
                "set the engine to transformers"
            )
        if (beams := options.decoding.beams) > 1:
            self.identity["beams"] = 1
            self.notes.append(GREEDY.format(beams=beams))
        self.served_names = {str(folder): f"adapter{number}" for number, folder in enumerate(options.adapters)}

    def arguments(self) -> list[str]:
        arguments, adapters = super().arguments(), self.options.adapters
        arguments.append(f"--max-model-len={self.options.context_length}")
        if adapters:
            model, revision, _ = self.weights
            for adapter in adapters:  # vLLM itself says nothing of a tensor that has no place
                check_adapter(model, revision, adapter)
            modules = [{"name": name, "path": str(Path(path).resolve())} for path, name in self.served_names.items()]
            arguments += [
                "--enable-lora",
                f"--max-lora-rank={max(map(served_rank, adapters))}",
                # On a CPU, a request without an adapter is answered with the last of these, which so is none.
                f"--max-loras={len(adapters) + 1}",
                # Else the head is wrapped as well, and scoring several texts at once ends the engine.
                "--lora-target-modules",
                *sorted(self._adapted),
                "--lora-modules",
                *map(json.dumps, modules),
            ]
        return arguments

    @cached_property
    def _adapted(self) -> set[str]:
        """The modules that the adapters have layers for."""
        return {name for adapter in self.options.adapters for name in adapted_modules(adapter)}

    def complete(self, requests: Iterable[Request]) -> Iterator[list[tuple[Request, Reply]]]:
        """See `Engine`. Each request has a seed of its own: a sample does not depend on its batch."""
        refused: list[tuple[Request, Reply]] = []
        asked: dict[int, Request] = {}  # by the row that is sent

        def rows() -> Iterator[Request]:
            for request in requests:
                row = self._resolved(request)
                if isinstance(row, Failure):
                    refused.append((request, row))
                else:
                    asked[id(row)] = request
                    yield row

        for portion in self._replies(rows()):
            yield [(asked.pop(id(row)), reply) for row, reply in portion]
        if refused:
            yield refused

    def _resolved(self, request: Request) -> Request | Failure:
        row = super()._resolved(request)
        several = request.scored is not None and len(row.prompt) - request.scored > 1 if isinstance(row, Request) else 0
        on_gpu = self._where is not None or has_gpu_device()  # where scoring beside adapters was never tried
        if several and self.options.adapters and (on_gpu or "lm_head" in self._adapted):
            raise InputError(
                f"{self.options.subject}: vLLM with adapters answers, but does not score given text; leave the "
                "engine out for tasks that score it"
            )
        return row

    def _client(self, served: VLLMServer | Replicas) -> ServerEngine:
        return _Completions(self, served)


class _Served(ServerEngine):
    """What asks vLLM's server on behalf of an engine."""

    def __init__(self, engine: Any, served: VLLMServer | Replicas, path: str = "") -> None:
        self._engine = engine
        addresses = [url + path for url in served.urls]

        def look() -> list[str]:
            served.check()
            return [url + path for url in served.urls]

        super().__init__(engine.options, addresses[0], SLOTS, TIMEOUT, addresses[1:], look)


class _Completions(_Served):
    """Sends token ids, and reads those of the reply."""

    def __init__(self, engine: VLLMEngine, served: VLLMServer | Replicas) -> None:
        super().__init__(engine, served, "/v1")

    def _body(self, request: Request) -> tuple[str, dict[str, Any]]:
        options, engine = self._options, self._engine
        body: dict[str, Any] = {
            "model": engine.served_names.get(str(request.adapter), engine.weights.model),
            "prompt": list(request.prompt),
            "max_tokens": request.max_tokens,
            "min_tokens": request.min_tokens,
            "temperature": request.temperature,
            "top_p": options.decoding.top_p,
            "repetition_penalty": options.decoding.repetition_penalty or 1.0,
            "seed": request.seed,
            "stop_token_ids": engine.stops,
            "return_token_ids": True,
        }
        if request.scored is not None and request.scored < len(request.prompt) - 1:
            body["prompt_logprobs"] = 0
        elif labels := _labels(engine, request):
            body |= {"logprobs": 0, "logprob_token_ids": labels, "return_tokens_as_token_ids": True}
        if request.scored is not None and "prompt_logprobs" not in body:  # one token, as the reply to those before it
            body["prompt"].pop()
        if options.response_schema is not None:
            schema = {"name": "reply", "schema": options.response_schema}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        return "/completions", body

    def _completion(self, data: bytes, request: Request) -> Completion:
        choice = parsed(data)["choices"][0]
        if choice["finish_reason"] not in ("stop", "length"):
            raise ValueError("it was given up")
        labels, scores = _labels(self._engine, request), choice.get("prompt_logprobs")
        if scores is not None:
            places = zip(scores[request.scored :], request.prompt[request.scored :], strict=True)
            return scored(request, [place[str(token)]["logprob"] for place, token in places])
        logprobs: Sequence[float] | None = None
        if labels:
            first = choice["logprobs"]["top_logprobs"][0]
            logprobs = [first[f"token_id:{token}"] for token in labels]
        if request.scored is not None and logprobs:
            return scored(request, logprobs)
        return self._engine._completion(request.prompt, choice["token_ids"], logprobs)


def _labels(engine: VLLMEngine, request: Request) -> list[int]:
    """The tokens whose log-probabilities as the first of a reply are wanted."""
    ids: Any = request.prompt
    return [ids[-1]] if request.scored is not None else list(engine.labels.values())


class VLLMRewardEngine(InVLLM, RewardEngine):
    """A sequence-classification model with one label in vLLM; its logit, without an activation, is the score.

    Raises:
        InputError: as `RewardEngine`.
        InstructError: vLLM failed for another reason.
    """

    def arguments(self) -> list[str]:
        return [*super().arguments(), "--runner=pooling", f"--max-model-len={self.longest}"]

    def complete(self, requests: Iterable[Request]) -> Iterator[list[tuple[Request, Reply]]]:
        """See `Engine`. A text that exceeds the context is a failure; nothing is cut."""
        failed, fitting = self._fitting(list(requests))
        if failed:
            yield failed
        self.texts = {request.key: text for request, text in fitting}
        yield from self._replies(request for request, _ in fitting)

    def _client(self, served: VLLMServer | Replicas) -> ServerEngine:
        return _Scores(self, served)


class _Scores(_Served):
    """Sends texts, and reads their scores."""

    def _body(self, request: Request) -> tuple[str, dict[str, Any]]:
        ids = self._engine.texts[request.key].ids
        # A reward model's logit; `reward`, the task of that name, is for token-wise models.
        return "/classify", {"model": self._engine.weights.model, "input": [ids], "use_activation": False}

    def _completion(self, data: bytes, request: Request) -> Completion:
        (score,) = parsed(data)["data"][0]["probs"]
        return score_reply(self._engine.texts[request.key], score)


def served_rank(adapter: Path) -> int:
    """The smallest rank that vLLM can be set to and that holds the adapter."""
    rank = lora_rank(adapter)
    served = next((allowed for allowed in _RANKS if allowed >= rank), None)
    if served is None:
        raise InputError(f"{adapter}: rank {rank}, vLLM serves up to {_RANKS[-1]}; merge it into its base")
    return served
