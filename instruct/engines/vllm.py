"""A model in vLLM on this machine."""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Iterable, Iterator
from typing import Any

from instruct.engines.base import EngineOptions, Failure, Reply, Request
from instruct.engines.local import LocalEngine
from instruct.errors import InputError

# Prompts that a stream works on at once, vLLM's default but for the largest GPUs; and how many more wait inside vLLM,
# so that it is full while replies are kept here.
SLOTS, WAITING = 256, 64

GREEDY = "decoded greedily with the repetition penalty; its authors use {beams} beams, which vLLM has not"


class VLLMEngine(LocalEngine):
    """A model in vLLM on this machine, started with the first request that fits its context.

    With `options.batch`, requests are asked in whole batches of that size without a prefix cache: near-tied
    log-probabilities then depend neither on their neighbours nor on what was asked before. Without it they are asked in
    a stream with a prefix cache, and each reply is given as it is finished.

    Raises:
        InputError: when the first request is looked at: the weights cannot be had or do not fit, a label is not one
            token, vLLM is not installed.
    """

    kind = "vllm"

    def __init__(self, options: EngineOptions) -> None:
        super().__init__(options)
        if (beams := options.decoding.beams) > 1:
            self.identity["beams"] = 1
            self.notes.append(GREEDY.format(beams=beams))
        self._client: Any = None
        self._numbers = itertools.count()  # vLLM's own of the prompts in its streams

    def _load_tokenizer(self) -> None:
        super()._load_tokenizer()
        if importlib.util.find_spec("vllm") is None:
            raise InputError(
                f"{self._options.subject}: vLLM is not installed; `pip install 'emo-instruct[vllm]'`, --base-url, or "
                "--engine transformers"
            )

    def _start(self) -> None:
        from instruct.engines.pickles import safetensors_folder
        from instruct.engines.vllm_client import VLLMClient

        model, revision = self._model, self._revision
        if self._pickled:
            model, revision = str(safetensors_folder(model, revision, self.identity["model"])), None
        self._client = VLLMClient(
            {
                "model": model,
                "revision": revision,
                "max_model_len": self._options.context_length,
                "max_num_seqs": self.batch or SLOTS,
                "enable_prefix_caching": self.batch is None,
                # a schema is followed in the tokenizer's words
                "skip_tokenizer_init": self._options.response_schema is None,
            }
        )

    def complete(self, requests: Iterable[Request]) -> Iterator[list[tuple[Request, Reply]]]:
        waiting = iter(requests)
        return self._in_batches(waiting, self.batch) if self.batch else self._in_a_stream(waiting)

    def _in_batches(self, waiting: Iterator[Request], size: int) -> Iterator[list[tuple[Request, Reply]]]:
        while batch := list(itertools.islice(waiting, size)):
            ids = [self._token_ids(request.prompt) for request in batch]
            long = [self._too_long(prompt) for prompt in ids]
            fitting = [prompt for prompt, failure in zip(ids, long, strict=True) if not failure]
            replies: Iterator[Reply] = iter(())
            if fitting:
                done = self._started().ask(self._asked(fitting))
                logprobs = done.get("logprobs") or [None] * len(fitting)
                replies = map(self._completion, fitting, done["tokens"], logprobs)
            yield [(request, failure or next(replies)) for request, failure in zip(batch, long, strict=True)]

    def _in_a_stream(self, waiting: Iterator[Request]) -> Iterator[list[tuple[Request, Reply]]]:
        under_way: dict[int, tuple[Request, list[int]]] = {}
        while True:
            sent: list[tuple[Request, list[int]]] = []
            failed: list[tuple[Request, Reply]] = []
            for request in itertools.islice(waiting, SLOTS + WAITING - len(under_way)):
                ids = self._token_ids(request.prompt)
                failure = self._too_long(ids)
                if failure:
                    failed.append((request, failure))
                else:
                    sent.append((request, ids))
            if sent:
                self._started().send({**self._asked([ids for _, ids in sent]), "stream": True})
                under_way |= dict(zip(itertools.islice(self._numbers, len(sent)), sent, strict=True))
            if failed:
                yield failed
            elif not under_way:
                return
            else:
                yield self._finished(self._client.receive()["finished"], under_way)

    def _finished(
        self, finished: list[tuple[int, list[int], str]], under_way: dict[int, tuple[Request, list[int]]]
    ) -> list[tuple[Request, Reply]]:
        portion: list[tuple[Request, Reply]] = []
        for number, answer, reason in finished:
            if number not in under_way:  # of an earlier stream, that was not heard to its end
                continue
            request, prompt = under_way.pop(number)
            failed = reason not in ("stop", "length")
            portion.append((request, Failure("vLLM gave it up") if failed else self._completion(prompt, answer)))
        return portion

    def _started(self) -> Any:
        if self._client is None:
            self._start()
        return self._client

    def _asked(self, prompts: list[list[int]]) -> dict[str, Any]:
        decoding = self._options.decoding
        return {
            "prompts": prompts,
            "limits": [decoding.max_tokens] * len(prompts),
            "seeds": [0] * len(prompts),
            "temperature": decoding.temperature,
            "top_p": decoding.top_p,
            "repetition_penalty": decoding.repetition_penalty,
            "logprob_token_ids": list(self._labels.values()) or None,
            "schema": self._options.response_schema,
            "stop_ids": self._stops,
            "adapter": None,
        }

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
