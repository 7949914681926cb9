"""lm-eval's own models of a run's systems: around a network that is loaded, or of a server.

Imports lm-eval, which may not be installed.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import isfinite
from types import SimpleNamespace
from typing import Any
from unittest import mock

from lm_eval.models.huggingface import HFLM
from lm_eval.models.openai_completions import LocalChatCompletion, LocalCompletionsAPI
from lm_eval.models.utils import has_bos_prefix

from instruct.base.errors import InputError
from instruct.engines.server import CONCURRENCY, TIMEOUT

# Prompts that transformers computes together.
BATCH = 8

# It prints the headers of a request that failed, and with them the key.
logging.getLogger("lm_eval.models.api_models").setLevel(logging.CRITICAL + 1)


@contextlib.contextmanager
def in_transformers(
    network: Any, tokenizer: Any, context: int, stops: Sequence[int], make: Callable[..., HFLM] | None = None
) -> Iterator[HFLM]:
    """lm-eval's model around a network that is loaded, and stays as it is.

    Args:
        tokenizer: is given a padding token if it has none.
        context: in tokens.
        stops: ids of the tokens that end a reply.
        make: the model, of HFLM's arguments; None: HFLM.
    """
    from transformers import GenerationConfig

    before = network.generation_config
    # lm-eval names no token that ends a reply: of a row that ends before others of its batch, it would keep the rest.
    network.generation_config = GenerationConfig(eos_token_id=list(stops) or None)
    try:
        # lm-eval ties the embeddings if the config says so, also of a network that was trained with two.
        with mock.patch.object(network, "tie_weights"):
            yield (make or HFLM)(
                pretrained=network,
                tokenizer=tokenizer,
                batch_size=BATCH,
                max_length=context,
                softmax_dtype="float32",
            )
    finally:
        network.generation_config = before


async def _refuse_redirect(response: Any) -> None:
    if 300 <= response.status < 400:
        raise InputError(f"the server redirects requests ({response.status}); give the address that it redirects to")


class _Served:
    """What lm-eval's two models of servers lack: a tokenizer that is on this machine turns prompts into ids."""

    def __init__(self, subject: str, model: str, url: str, tokenizer: Any) -> None:
        super().__init__(  # type: ignore[call-arg]
            model=model,
            base_url=url,
            tokenizer_backend="none",
            num_concurrent=CONCURRENCY,
            timeout=int(TIMEOUT),
            max_length=1 << 30,  # only the server knows
        )
        self.subject, self.tokenizer, self.add_bos_token = subject, tokenizer, None
        if tokenizer is not None:
            self.tokenizer_backend, self.tokenized_requests = "huggingface", True

    @property
    def api_key(self) -> str:
        """What the requests are signed with."""
        return os.environ.get("OPENAI_API_KEY", "").strip()

    async def amodel_call(self, session: Any, **more: Any) -> Any:
        """Called by lm-eval for each request. A redirect is an error: another server would be sent the prompts."""
        here = SimpleNamespace(post=partial(session.post, allow_redirects=False, raise_for_status=_refuse_redirect))
        return await super().amodel_call(session=here, **more)  # type: ignore[misc]

    def loglikelihood(self, requests: list[Any], **more: Any) -> Any:
        self._check_tokenizer(requests)
        return super().loglikelihood(requests, **more)  # type: ignore[misc]

    def loglikelihood_rolling(self, requests: list[Any], **more: Any) -> Any:
        self._check_tokenizer(requests)
        return super().loglikelihood_rolling(requests, **more)  # type: ignore[misc]

    def _check_tokenizer(self, requests: list[Any]) -> None:
        if self.tokenizer is None:
            raise InputError(
                f"{self.subject}: the task {requests[0].task_name} scores given text, which needs the model's "
                "tokenizer on this machine; set model.name to a folder or hub id that has it, or choose tasks with "
                "generated replies"
            )


class Completions(_Served, LocalCompletionsAPI):
    """A server that is sent texts, or token ids, which it can score if it returns the prompt's log-probabilities."""

    def tok_encode(self, string: Any, add_special_tokens: bool | None = None, **more: Any) -> Any:
        """Ids as in transformers: with the token that begins a text, unless it is there."""
        if self.tokenizer is None:
            return [string]
        if not isinstance(string, str):
            return [self.tok_encode(text, add_special_tokens) for text in string]
        if add_special_tokens is None:
            add_special_tokens = not has_bos_prefix(string, self.tokenizer.decode(self.prefix_token_id))
        return self.tokenizer.encode(string, add_special_tokens=add_special_tokens)

    def parse_logprobs(self, outputs: Any, tokens: Any = None, ctxlens: Any = None, **more: Any) -> Any:
        """Called by lm-eval, for which a prompt without log-probabilities is as likely as can be."""
        for choice, ids in zip(outputs["choices"], tokens, strict=True):
            logprobs = choice.get("logprobs") or {}
            scores, tops = logprobs.get("token_logprobs") or [], logprobs.get("top_logprobs") or []
            numbers = [value for value in scores[1 : len(ids)] if isinstance(value, int | float) and isfinite(value)]
            if min(len(scores), len(tops)) <= len(ids) or len(numbers) < len(ids) - 1:
                raise InputError(
                    f"{self.subject}: the server does not score given text (echo with logprobs on /v1/completions); "
                    "choose tasks with generated replies, or leave the engine out"
                )
        return super().parse_logprobs(outputs, tokens=tokens, ctxlens=ctxlens)


class Chats(_Served, LocalChatCompletion):
    """A server that is sent chats, and renders them itself."""

    def parse_generations(self, outputs: Any, **more: Any) -> list[str]:
        """Called by lm-eval, which would take a reply that cannot be read for an empty one."""
        texts = []
        for choice in outputs["choices"]:
            text = choice["message"]["content"]
            if text is None and choice.get("finish_reason") != "length":  # it thought until the limit, and would again
                raise ValueError("malformed reply: no text")
            texts.append(text or "")
        return texts
