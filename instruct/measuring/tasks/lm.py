"""lm-eval's own models of a run's systems, and what they lack: OpenICL's rule, resuming, what a server leaves unsaid.

Imports lm-eval, which may not be installed.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
from collections.abc import Iterator, Sequence
from functools import partial
from importlib import metadata
from math import isfinite
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from lm_eval.api.model import LM, CachingLM
from lm_eval.models.api_models import JsonChatStr
from lm_eval.models.huggingface import HFLM
from lm_eval.models.openai_completions import LocalChatCompletion, LocalCompletionsAPI
from lm_eval.models.utils import has_bos_prefix, postprocess_generated_text

from instruct.base.errors import InputError, InstructError, StoppedError, one_line
from instruct.base.files import open_to_write
from instruct.base.output import progress
from instruct.base.replies import ScoredCompletion
from instruct.engines.server import CONCURRENCY, TIMEOUT
from instruct.engines.vllm import ARGUMENTS, ENVIRONMENT, VLLMEngine
from instruct.engines.vllm_process import for_platform
from instruct.measuring.tasks.cards import Rule

# Prompts that transformers computes together; and batches whose replies are kept together under the rule openicl.
BATCH, BATCHES = 8, 8

# It prints the headers of a request that failed, and with them the key.
logging.getLogger("lm_eval.models.api_models").setLevel(logging.CRITICAL + 1)


class ReplyFile(dict[str, Any]):
    """Replies by lm-eval's keys of requests, a line each in a file that is appended to.

    It takes the place of the database of lm-eval's cache, which unpickles what it reads.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        path.parent.mkdir(parents=True, exist_ok=True)
        before = path.read_bytes() if path.is_file() else b""
        for line in before.splitlines():
            try:
                key, reply = json.loads(line)
            except ValueError:  # the line that was being written when the run was killed
                continue
            super().__setitem__(key, tuple(reply) if isinstance(reply, list) else reply)
        self._path = path
        if before and not before.endswith(b"\n"):
            with open_to_write(path) as file:
                file.write(b"\n")

    def __setitem__(self, key: str, reply: Any) -> None:
        if self.get(key) != reply:
            super().__setitem__(key, reply)
            with open_to_write(self._path) as file:
                file.write(json.dumps([key, reply]).encode() + b"\n")

    def commit(self) -> None:
        """Called by lm-eval; every reply is in the file already."""


@LM.register
class Resumed(CachingLM):
    """A model that is not asked again what is in a file of its replies, unless the reply is sampled: lm-eval's cache.

    lm-eval knows a reply by its request alone, so that a file belongs to one model with one rule.
    """

    def __init__(self, lm: Any, path: Path) -> None:
        self.lm, self.cache_db, self.dbdict = lm, str(path), ReplyFile(path)
        lm.set_cache_hook(self.get_cache_hook())


class OpenICL(HFLM):
    """A log-likelihood is that of all tokens but the first, for which there is no prediction, divided by the number of
    all tokens, as in OpenICL's PPLInferencer (Wu et al., 2023)."""

    def _loglikelihood_tokens(
        self, requests: Sequence[tuple[Any, list[int], list[int]]], disable_tqdm: bool = False, **more: Any
    ) -> list[tuple[float, bool]]:
        texts = [(before + after)[-(self.max_length + 1) :] for _, before, after in requests]
        order = sorted(range(len(texts)), key=lambda place: (-len(texts[place]), texts[place]))
        values: dict[int, tuple[float, bool]] = {}
        with progress("tasks under the rule openicl", len(texts)) as advance:
            for begin in range(0, len(order), BATCH * BATCHES):
                places = order[begin : begin + BATCH * BATCHES]
                # Without a name: what lm-eval would keep under it is not divided yet.
                whole = [(None, texts[place][:1], texts[place][1:]) for place in places]
                for place, (total, greedy) in zip(
                    places, super()._loglikelihood_tokens(whole, disable_tqdm=True), strict=True
                ):
                    values[place] = total / len(texts[place]), greedy
                    self.cache_hook.add_partial("loglikelihood", requests[place][0], values[place])
                advance(len(places))
        return [values[place] for place in range(len(texts))]


@contextlib.contextmanager
def in_transformers(network: Any, tokenizer: Any, rule: Rule, context: int, stops: Sequence[int]) -> Iterator[HFLM]:
    """lm-eval's model around a network that is loaded, and stays as it is.

    Args:
        tokenizer: is given a padding token if it has none.
        context: in tokens.
        stops: ids of the tokens that end a reply.
    """
    from transformers import GenerationConfig

    before = network.generation_config
    # lm-eval names no token that ends a reply: of a row that ends before others of its batch, it would keep the rest.
    network.generation_config = GenerationConfig(eos_token_id=list(stops) or None)
    try:
        # lm-eval ties the embeddings if the config says so, also of a network that was trained with two.
        with mock.patch.object(network, "tie_weights"):
            yield (OpenICL if rule == "openicl" else HFLM)(
                pretrained=network,
                tokenizer=tokenizer,
                batch_size=BATCH,
                max_length=context,
                softmax_dtype="float32",
            )
    finally:
        network.generation_config = before


@contextlib.contextmanager
def in_vllm(engine: VLLMEngine, tokenizer: str) -> Iterator[Any]:
    """lm-eval's model in vLLM, which loads it itself, with one adapter at most.

    Args:
        engine: is not started; it knows the model, the adapter and vLLM's arguments.
        tokenizer: a folder or hub id.

    Raises:
        InputError: vLLM cannot load the model or the adapter; when given text is to be scored with an adapter.
    """
    subject, adapters = engine.options.subject, engine.options.adapters
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    import vllm

    # On a CPU, vLLM's distribution has another name than the one whose version lm-eval looks up.
    def version(name: str, look_up: Any = metadata.version) -> str:
        return vllm.__version__ if name == "vllm" else str(look_up(name))

    with mock.patch("importlib.metadata.version", version):
        from lm_eval.models.vllm_causallms import VLLM

    # Ends of a text as the model's own generation config has them; stop texts are looked for in the tokenizer's words.
    more = {"skip_tokenizer_init": False, "generation_config": "auto"}
    arguments = for_platform(ARGUMENTS | engine.arguments() | more)
    try:
        lm = VLLM(
            pretrained=arguments.pop("model"),
            tokenizer=tokenizer,
            lora_local_path=str(adapters[0]) if adapters else None,
            **arguments,
        )
    except InstructError:
        raise
    except Exception as error:  # vLLM and its process raise their own
        reason = one_line(f"{type(error).__name__}: {error}", 200)
        raise InputError(f"{subject}: vLLM cannot load it ({reason}); leave the engine out") from error
    lm._max_length = None  # as long as vLLM has memory for
    lm.tokenizer = engine.tokenizer
    lm.modify_gen_kwargs = _ending(VLLM.modify_gen_kwargs, engine.stops)
    if adapters:

        def refuse(requests: Any, **more: Any) -> Any:
            raise InputError(
                f"{subject}: vLLM with adapters answers, but does not score given text; leave the engine out for tasks "
                "that score it"
            )

        lm._loglikelihood_tokens = refuse
    try:
        yield lm
    finally:
        lm.model.llm_engine.engine_core.shutdown()


def _ending(normalize: Any, stops: Sequence[int]) -> Any:
    """vLLM's parameters as lm-eval has them, with the tokens that end a reply."""

    def normalized(*arguments: Any, **more: Any) -> Any:
        parameters, *rest = normalize(*arguments, **more)
        return {"stop_token_ids": list(stops), **parameters}, *rest

    return normalized


def vllm_scores(lm: Any, ids: list[int], start: int, adapter: str | None) -> list[float]:
    """The log-probabilities, natural, that vLLM gives the tokens of a text from `start` on; None: those of the base.

    Raises:
        InputError: several tokens with an adapter; with LoRA layers, vLLM scores no prompts, but what it replies.
    """
    from vllm import SamplingParams

    if lm.lora_request is None:
        (output,) = lm._model_generate([ids])
        return [known[token].logprob for token, known in zip(ids[start:], output.prompt_logprobs[start:], strict=True)]
    if len(ids) - start > 1:
        raise InputError("vLLM with an adapter scores one token at a time")
    asked = SamplingParams(temperature=0, max_tokens=1, logprob_token_ids=[ids[-1]], detokenize=False)
    with mock.patch.object(lm, "lora_request", lm.lora_request if adapter else None):
        (output,) = lm._model_generate([ids[:-1]], generate=True, sampling_params=[asked])
    return [output.outputs[0].logprobs[0][ids[-1]].logprob]


class CanaryEngine:
    """What a canary asks of an engine: the scores of one text at a time, from a function.

    Args:
        scores: gives those of ids from a first place on, with an adapter or None.
    """

    def __init__(self, scores: Any) -> None:
        self._scores = scores

    def complete(self, requests: Sequence[Any]) -> Iterator[list[Any]]:
        """See `Engine`."""
        for request in requests:
            values = self._scores(list(request.prompt), request.scored, request.adapter)
            yield [(request, ScoredCompletion("", token_logprobs=tuple(map(float, values))))]


async def _refuse_redirect(response: Any) -> None:
    if 300 <= response.status < 400:
        raise InputError(f"the server redirects requests ({response.status}); give the address that it redirects to")


class _Served:
    """What lm-eval's two models of servers lack.

    A tokenizer that is on this machine turns prompts into ids; without it, no given text can be scored.
    """

    cache_hook: Any

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

    async def amodel_call(
        self, session: Any, *, generate: bool = True, cache_keys: Any = None, gen_kwargs: Any = None, **more: Any
    ) -> Any:
        """Called by lm-eval for each request: its replies, which end where the task says and are kept."""
        # A redirect is an error: another server would be sent the prompts.
        here = SimpleNamespace(post=partial(session.post, allow_redirects=False, raise_for_status=_refuse_redirect))
        try:
            replies: Any = await super().amodel_call(  # type: ignore[misc]
                session=here, generate=generate, gen_kwargs=gen_kwargs, **more
            )
        except InstructError:
            raise
        except Exception as error:
            reason = one_line(f"{type(error).__name__}: {error}", 200)
            raise StoppedError(
                f"{self.subject}: a request had no reply ({reason}); the others are kept, so rerun the command to ask "
                "again"
            ) from None
        if generate:
            replies = [postprocess_generated_text(reply, gen_kwargs.get("until"), None) for reply in replies]
        for key, reply in zip(cache_keys or (), replies, strict=False):
            if key is not None:  # that of a window of a longer text
                self.cache_hook.add_partial("generate_until" if generate else "loglikelihood", key, reply)
        return replies

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

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> Any:
        if not add_generation_prompt:
            raise InputError(
                f"{self.subject}: a task begins the reply (gen_prefix), which a server's chat cannot continue; set "
                "evaluation.tasks.chat: false, or model.name to a folder or hub id with the tokenizer"
            )
        return JsonChatStr(json.dumps(chat_history))

    def parse_generations(self, outputs: Any, **more: Any) -> list[str]:
        """Called by lm-eval, which would take a reply that cannot be read for an empty one."""
        texts = []
        for choice in outputs["choices"]:
            text = choice["message"]["content"]
            if text is None and choice.get("finish_reason") != "length":  # it thought until the limit, and would again
                raise ValueError("malformed reply: no text")
            texts.append(text or "")
        return texts
