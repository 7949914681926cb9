"""Who is asked: vLLM on this machine, or any OpenAI-compatible server."""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from instruct.errors import InputError, one_line
from instruct.judging.cards import JudgeCard
from instruct.judging.prompts import JudgePrompt
from instruct.judging.store import Completion
from instruct.models import resolve_model

# Prompts that vLLM is given, and completions that are committed, together.
BATCH = 64
# Requests under way at a server.
CONCURRENCY = 8


@dataclass(frozen=True)
class Request:
    """One prompt to ask, and the key that its completion is stored under."""

    key: str
    prompt: JudgePrompt


@dataclass(frozen=True)
class Failure:
    """Why there is no reply."""

    reason: str


Reply = Completion | Failure


class Engine(Protocol):
    """`identity` is what of the engine could change a reply: part of every request's key."""

    identity: dict[str, Any]

    def complete(self, requests: Sequence[Request]) -> Iterator[list[tuple[Request, Reply]]]:
        """Replies, as they arrive, in portions that belong together."""
        ...

    def close(self) -> None: ...


class VLLMJudge:
    """A judge in vLLM on this machine, started with the first request that fits its context.

    Batches are the same for the same requests, and there is no prefix cache: near-tied log-probabilities depend on
    neither what was asked before nor where an earlier run stopped, as long as whole batches are asked.

    Raises:
        InputError: the weights cannot be had or do not fit, or a label is not one token.
    """

    def __init__(self, card: JudgeCard) -> None:
        self._card = card
        self.identity = {"model": card.model, "revision": card.revision}
        self._client: Any = None
        self._tokenizer: Any = None
        self._model = card.model
        self._labels: dict[str, int] = {}

    def _load_tokenizer(self) -> None:
        card = self._card
        self._model = _local_model(card)
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

    def complete(self, requests: Sequence[Request]) -> Iterator[list[tuple[Request, Reply]]]:
        if self._tokenizer is None:
            self._load_tokenizer()
        decoding = self._card.decoding
        stops = [self._tokenizer.eos_token_id] if self._tokenizer.eos_token_id is not None else []
        for start in range(0, len(requests), BATCH):
            batch = requests[start : start + BATCH]
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


class ServerJudge:
    """A judge behind an OpenAI-compatible server. The key is taken from OPENAI_API_KEY and kept nowhere.

    A request that fails for itself is a Failure with the reason; one that shows that none can succeed (no access, no
    such model) ends the work.
    """

    def __init__(self, card: JudgeCard, base_url: str | None) -> None:
        import openai

        key = os.environ.get("OPENAI_API_KEY")
        if key is None and base_url is None:
            raise InputError(f"judge {card.name}: needs {card.needs}")
        self._card = card
        self.identity = {"endpoint": base_url or "api.openai.com", "model": card.model}
        self._client = openai.OpenAI(api_key=key or "none", base_url=base_url, max_retries=4, timeout=120)

    def complete(self, requests: Sequence[Request]) -> Iterator[list[tuple[Request, Reply]]]:
        waiting = iter(requests)
        with ThreadPoolExecutor(CONCURRENCY) as pool:
            under_way = {pool.submit(self._ask, request): request for request in itertools.islice(waiting, CONCURRENCY)}
            while under_way:
                done, _ = wait(under_way, return_when=FIRST_COMPLETED)
                yield [(under_way.pop(future), future.result()) for future in done]
                # Only now that the caller has kept those: a kill loses no more than is under way.
                for request in itertools.islice(waiting, len(done)):
                    under_way[pool.submit(self._ask, request)] = request

    def _ask(self, request: Request) -> Reply:
        import openai

        try:
            return self._completion(request.prompt)
        except (openai.AuthenticationError, openai.PermissionDeniedError, openai.NotFoundError) as error:
            raise InputError(
                f"judge {self._card.name}: {self.identity['endpoint']} refuses model {self._card.model} "
                f"(HTTP {error.status_code}); check OPENAI_API_KEY, --base-url and the card's model"
            ) from None
        except openai.APIStatusError as error:
            # The server's own words may repeat the key or the prompt: the status alone is told.
            return Failure(f"HTTP {error.status_code}")
        except openai.APITimeoutError:
            return Failure("timed out")
        except openai.APIConnectionError:
            return Failure("no connection")
        except (openai.OpenAIError, LookupError, TypeError, ValueError, AttributeError) as error:
            return Failure(f"malformed reply ({type(error).__name__})")

    def _completion(self, prompt: JudgePrompt) -> Completion:
        decoding = self._card.decoding
        labels = self._card.verdict.labels
        arguments: dict[str, Any] = {
            "model": self._card.model,
            "temperature": decoding.temperature,
            "top_p": decoding.top_p,
            "max_tokens": decoding.max_tokens,
        }
        if decoding.repetition_penalty is not None:
            arguments["extra_body"] = {"repetition_penalty": decoding.repetition_penalty}
        top: dict[str, float] = {}
        if isinstance(prompt, str):
            if labels:
                arguments["logprobs"] = 5  # the most that OpenAI's own endpoint gives
            text_reply = self._client.completions.create(prompt=prompt, **arguments)
            choice: Any = text_reply.choices[0]
            text, usage = choice.text, text_reply.usage
            if labels:
                top = choice.logprobs.top_logprobs[0]
        else:
            if labels:
                arguments |= {"logprobs": True, "top_logprobs": 20}
            messages: Any = prompt
            chat_reply = self._client.chat.completions.create(messages=messages, **arguments)
            choice = chat_reply.choices[0]
            text, usage = choice.message.content, chat_reply.usage
            if labels:
                top = {entry.token: entry.logprob for entry in choice.logprobs.content[0].top_logprobs}
        # A label that is not among the server's top tokens has no log-probability: the verdict is unparsed.
        logprobs = {label: top[label] for label in (labels.first, labels.second) if label in top} if labels else None
        if not isinstance(text, str):
            raise ValueError("no text")
        return Completion(
            text,
            logprobs,
            choice.finish_reason,
            usage.prompt_tokens if usage else None,
            usage.completion_tokens if usage else None,
        )

    def close(self) -> None:
        self._client.close()


@contextlib.contextmanager
def judge_engine(card: JudgeCard, base_url: str | None = None) -> Iterator[Engine]:
    """The engine for a card: the server at `base_url`, OpenAI's for AlpacaEval's annotators, else vLLM here.

    Raises:
        InputError: what the judge needs is not here; the line says what that is.
    """
    engine: Engine = ServerJudge(card, base_url) if base_url or card.annotator else VLLMJudge(card)
    try:
        yield engine
    finally:
        engine.close()


def check_available(card: JudgeCard, base_url: str | None = None) -> None:
    """Refuse, before any work, a judge that cannot be asked on this machine.

    Raises:
        InputError: the line says what it needs.
    """
    if base_url:
        return
    if card.annotator:
        ServerJudge(card, None).close()
    else:
        _local_model(card)


def _local_model(card: JudgeCard) -> str:
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
