"""A judge in vLLM on this machine."""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from instruct.errors import InputError, one_line
from instruct.judging.cards import JudgeCard
from instruct.judging.engines.base import Failure, Reply, Request
from instruct.judging.prompts import JudgePrompt
from instruct.judging.store import Completion
from instruct.models import resolve_model

# Prompts that vLLM is given, and completions that are committed, together.
BATCH = 64


class VLLMJudge:
    """A judge in vLLM on this machine, started with the first request that fits its context.

    Batches are the same for the same requests, and there is no prefix cache: near-tied log-probabilities depend on
    neither what was asked before nor where an earlier run stopped, as long as whole batches are asked.

    Raises:
        InputError: the weights cannot be had or do not fit, or a label is not one token.
    """

    def __init__(self, card: JudgeCard) -> None:
        self._card = card
        self.identity: dict[str, Any] = {"model": card.model, "revision": card.revision}
        self.notes: list[str] = []
        self.batch: int | None = BATCH
        self._client: Any = None
        self._tokenizer: Any = None
        self._model = card.model
        self._labels: dict[str, int] = {}

    def _load_tokenizer(self) -> None:
        card = self._card
        self._model = local_model(card)
        if importlib.util.find_spec("vllm") is None:
            raise InputError(
                f"judge {card.name}: vLLM is not installed; `pip install 'emo-instruct[vllm]'`, or --base-url"
            )
        from transformers import AutoTokenizer

        self._tokenizer = AutoTokenizer.from_pretrained(self._model, revision=self._revision())
        labels = card.verdict.labels
        for label in (labels.first, labels.second) if labels else ():
            ids = self._tokenizer(label, add_special_tokens=False)["input_ids"]
            if len(ids) != 1:
                raise InputError(
                    f"judge {card.name}: the label {label!r} is {len(ids)} tokens of its tokenizer; use one"
                )
            self._labels[label] = ids[0]

    def _revision(self) -> str | None:
        return self._card.revision if self._model == self._card.model else None

    def _start(self) -> None:
        from instruct.vllm_client import VLLMClient

        self._client = VLLMClient(
            {
                "model": self._model,
                "revision": self._revision(),
                "max_model_len": self._card.context_length,
                "max_num_seqs": BATCH,
            }
        )

    def tokens(self, prompt: JudgePrompt) -> int:
        if self._tokenizer is None:
            self._load_tokenizer()
        return len(self._token_ids(prompt))

    def complete(self, requests: Iterable[Request]) -> Iterator[list[tuple[Request, Reply]]]:
        if self._tokenizer is None:
            self._load_tokenizer()
        waiting = iter(requests)
        decoding = self._card.decoding
        stops = [self._tokenizer.eos_token_id] if self._tokenizer.eos_token_id is not None else []
        while batch := list(itertools.islice(waiting, BATCH)):
            ids = [self._token_ids(request.prompt) for request in batch]
            long = [len(prompt) + decoding.max_tokens > self._card.context_length for prompt in ids]
            fitting = [prompt for prompt, too_long in zip(ids, long, strict=True) if not too_long]
            replies = iter(self._ask(fitting, stops) if fitting else [])
            yield [
                (request, self._too_long(len(prompt)) if too_long else next(replies))
                for request, prompt, too_long in zip(batch, ids, long, strict=True)
            ]

    def _ask(self, prompts: list[list[int]], stops: list[int]) -> list[Completion]:
        if self._client is None:
            self._start()
        decoding = self._card.decoding
        reply = self._client.ask(
            {
                "prompts": prompts,
                "limits": [decoding.max_tokens] * len(prompts),
                "seeds": [0] * len(prompts),
                "temperature": decoding.temperature,
                "top_p": decoding.top_p,
                "repetition_penalty": decoding.repetition_penalty,
                "logprob_token_ids": list(self._labels.values()) or None,
                "stop_ids": stops,
                "adapter": None,
            }
        )
        completions = []
        for index, (prompt, ids) in enumerate(zip(prompts, reply["tokens"], strict=True)):
            ended = bool(ids) and ids[-1] in stops
            text = self._tokenizer.decode(ids[:-1] if ended else ids, skip_special_tokens=True)
            logprobs = None
            if self._labels:
                logprobs = dict(zip(self._labels, reply["logprobs"][index], strict=True))
            completions.append(Completion(text, logprobs, "stop" if ended else "length", len(prompt), len(ids)))
        return completions

    def _token_ids(self, prompt: JudgePrompt) -> list[int]:
        if isinstance(prompt, str):
            return list(self._tokenizer(prompt)["input_ids"])
        if not self._tokenizer.chat_template:
            raise InputError(f"judge {self._card.name}: its tokenizer has no chat template; set prompt_form: text")
        text = self._tokenizer.apply_chat_template(prompt, tokenize=False, add_generation_prompt=True)
        return list(self._tokenizer(text, add_special_tokens=False)["input_ids"])

    def _too_long(self, tokens: int) -> Failure:
        card = self._card
        return Failure(
            f"too long: {tokens} tokens and {card.decoding.max_tokens} to answer exceed {card.context_length}"
        )

    def close(self) -> None:
        if self._client is not None:
            self._client.close()


def local_model(card: JudgeCard) -> str:
    """The folder or hub id of a local judge, its presence checked.

    Raises:
        InputError: its weights are not here and cannot be fetched.
    """
    model = resolve_model(card.model)
    if Path(model).is_dir():
        return model
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        snapshot_download(model, revision=card.revision, allow_patterns=["config.json"])
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as error:
        raise InputError(
            f"judge {card.name}: {model} is not here and the hub does not give it ({one_line(type(error).__name__)}); "
            f"it needs {card.needs or 'its weights'}, or --base-url of a server that serves it"
        ) from None
    _check_gpu(card)
    return model


def _check_gpu(card: JudgeCard) -> None:
    import torch

    if card.needs and not torch.cuda.is_available():
        raise InputError(
            f"judge {card.name}: needs {card.needs}, and this machine has no GPU; "
            "give --base-url of a server that serves it"
        )
