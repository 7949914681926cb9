"""What vLLM and transformers share on this machine: weights, tokenizer, and the text in generated ids."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import filter as matching
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from instruct.base.errors import InputError, one_line
from instruct.base.models import EMBEDDED_MODEL, ModelOptions, model_path
from instruct.base.output import warn
from instruct.base.replies import Completion, Failure, Reply
from instruct.engines.base import BatchesInTurn, EngineOptions, Prompt, Request
from instruct.engines.memory import check_memory
from instruct.engines.pickles import PICKLES, conversion_note, safetensors_folder
from instruct.engines.stop_tokens import stop_token_ids
from instruct.engines.thinking import Budget, budget_of, marks_of, parted_after, reasoning_tokens
from instruct.engines.vllm_parsers import called, has_a_call
from instruct.engines.weights import model_identity

SAFETENSORS = "*.safetensors"
LEFT_CALLS = (
    "a reply calls a tool, and the call stays in its text: vLLM, which parses calls, is not installed or has no parser "
    "for this chat template or this call"
)
# LLaMA's ids of padding, beginning and end. Early conversions, PandaLM's among them, carry a tokenizer without them.
LLAMA_PAD, LLAMA_BOS, LLAMA_EOS = 0, 1, 2


@dataclass(frozen=True)
class Asked:
    """A request as a model on this machine takes it."""

    ids: list[int]
    limit: int
    adapter: str | None
    seed: int
    least: int
    temperature: float
    stop: tuple[str, ...] = ()
    scored: int | None = None


class LocalEngine(BatchesInTurn):
    """The part of an engine on this machine that is the same in vLLM and in transformers.

    Nothing is loaded before the first prompt is looked at.
    """

    kind: Literal["vllm", "transformers"]

    def __init__(self, options: EngineOptions) -> None:
        self._options = options
        self.notes: list[str] = []
        self.batch = options.batch
        self.context = options.context_length
        self._prepared = False
        self._model = ""
        self._revision: str | None = None
        self._pickled = False
        self._tokenizer: Any = None
        self._stops: list[int] = []
        self._labels: dict[str, int] = {}
        self._thinks = False
        self._budget: Budget | None = None

    @cached_property
    def identity(self) -> dict[str, Any]:
        options = self._options
        model, folder = options.model, Path(options.model).expanduser()
        if model != EMBEDDED_MODEL and (folder / "config.json").is_file():
            model = model_identity(str(folder), None, (SAFETENSORS, PICKLES))  # another training would change it
        identity = {"engine": self.kind, "model": model, "revision": options.revision}
        for name, default in (("dtype", None), ("quantization", None), ("tensor_parallel_size", 1)):
            if (value := getattr(options, name)) != default:
                identity[name] = value
        return identity

    def check(self) -> None:
        """Refuse a model whose weights are not here and cannot be fetched, or are a pickle that is not allowed.

        Raises:
            InputError: what is missing, and where to get it.
        """
        _located(self._options)

    def _locate(self) -> None:
        """Find the weights and load the tokenizer."""
        options = self._options
        model, self._pickled = _located(options)
        revision = None if Path(model).is_dir() else options.revision
        self._tokenizer = options.tokenizer or load_tokenizer(options.subject, model, revision)
        self._model, self._revision = model, revision

    def _prepare(self) -> None:
        """Find the weights, load the tokenizer, and look up the ids of labels and stops; once."""
        if self._prepared:
            return
        self._locate()
        options, tokenizer = self._options, self._tokenizer
        for label in options.labels:
            ids = tokenizer(label, add_special_tokens=False)["input_ids"]
            if len(ids) != 1:
                raise InputError(
                    f"{options.subject}: the label {label!r} is {len(ids)} tokens of its tokenizer; use one"
                )
            self._labels[label] = ids[0]
        end = tokenizer.eos_token_id
        if options.chat:  # a turn may end with another token than a text
            self._stops = list(stop_token_ids(tokenizer, self._model, self._revision))
        elif end is None or end == tokenizer.unk_token_id:  # "" as the end of text gives the unknown token's id
            self._stops = [LLAMA_EOS]
        else:
            self._stops = [end]
        self._thinks = options.parts_thinking and marks_of(tokenizer.chat_template) is not None
        if options.thinking_budget is not None:
            self._budget = budget_of(tokenizer, options.thinking_budget)
        self._prepared = True

    def _safetensors(self) -> tuple[str, str | None]:
        """The folder or hub id to load safetensors from, and its revision; a pickle is converted first, once."""
        if not self._pickled:
            return self._model, self._revision
        folder = safetensors_folder(self._options.subject, self._model, self._revision)
        self.notes.append(conversion_note(folder))
        return str(folder), None

    def tokens(self, prompt: Prompt) -> int:
        """The prompt's length in the model's tokens.

        Raises:
            InputError: the tokenizer cannot be loaded, or a chat is asked of one without a chat template.
        """
        return len(self._token_ids(prompt))

    def _token_ids(self, prompt: Prompt) -> list[int]:
        self._prepare()
        if isinstance(prompt, tuple):
            return list(prompt)
        if isinstance(prompt, str):
            return list(self._tokenizer(prompt)["input_ids"])
        if not self._tokenizer.chat_template:
            raise InputError(f"{self._options.subject}: its tokenizer has no chat template; set prompt_form: text")
        text = self._tokenizer.apply_chat_template(prompt, tokenize=False, add_generation_prompt=True)
        return list(self._tokenizer(text, add_special_tokens=False)["input_ids"])

    def divided(self, requests: list[Request], device: str) -> tuple[list[tuple[Request, Reply]], list[list[Request]]]:
        """Requests that fail before the model is asked, and the batches in which the others are computed.

        Args:
            device: where they are computed, as in `start`: "cpu" or "cuda".
        """
        return [], [requests] if requests else []

    def _ask(self, request: Request) -> Asked | Failure:
        """What to ask of the model, or that the request does not fit its context."""
        limit = self._options.decoding.max_tokens if request.max_tokens is None else request.max_tokens
        ids, context = self._token_ids(request.prompt), self.context
        if len(ids) + limit > context:
            return Failure(f"too long: {len(ids)} tokens and {limit} to answer exceed {context}", permanent=True)
        decoding = self._options.decoding
        temperature = decoding.temperature if request.temperature is None else request.temperature
        return Asked(
            ids,
            limit,
            request.adapter,
            request.seed or 0,
            request.min_tokens,
            temperature,
            request.stop,
            request.scored,
        )

    def _in_batches(self, requests: Iterable[Request], size: int) -> Iterator[list[tuple[Request, Reply]]]:
        """The replies to `size` requests at a time; those that do not fit are not asked."""
        waiting = iter(requests)
        while batch := list(itertools.islice(waiting, size)):
            asked = [self._ask(request) for request in batch]
            fitting = [row for row in asked if isinstance(row, Asked)]
            replies = iter(self._answered(fitting) if fitting else ())
            yield [
                (request, row if isinstance(row, Failure) else next(replies))
                for request, row in zip(batch, asked, strict=True)
            ]

    def _answered(self, asked: list[Asked]) -> Iterable[Reply]:
        """The replies to one batch, in its order."""
        raise NotImplementedError

    def _completion(
        self, prompt: list[int], answer: list[int], label_logprobs: Sequence[float] | None = None
    ) -> Completion:
        """The completion in generated ids; what follows the first stop token is padding."""
        end = next((place for place, token in enumerate(answer) if token in self._stops), None)
        tokens = len(answer) if end is None else end + 1
        answer = answer[:end]
        thought = reasoning_tokens(prompt, answer, self._tokenizer) if self._thinks else None
        most = (thought or 0) + self._options.decoding.max_tokens
        if self._budget and len(answer) > most:  # a short thought leaves the text no more room
            answer, end, tokens = answer[:most], None, most
        text = self._decoded(answer)
        if self._options.continues:  # some tokenizers drop the space before a text's first word
            whole, before = self._decoded(prompt + answer), self._decoded(prompt)
            text = whole.removeprefix(before) if whole.startswith(before) else text
        logprobs = None if label_logprobs is None else dict(zip(self._labels, label_logprobs, strict=True))
        reasoning = None
        if self._thinks:  # the marks may be special tokens
            text, reasoning = parted_after(prompt, self._tokenizer.decode(answer), text, self._tokenizer)
        calls = None
        if self._options.parts_thinking and has_a_call(whole := self._tokenizer.decode(answer[thought or 0 :])):
            parsed = called(self._tokenizer, whole)
            if parsed is None and (left := LEFT_CALLS) not in self.notes:
                self.notes.append(left)
                warn(f"{self._options.subject}: {left}")
            text, calls = parsed or (text, None)
        finish = "length" if end is None else "stop"
        return Completion(
            text, logprobs, finish, len(prompt), tokens, reasoning=reasoning, tool_calls=calls, reasoning_tokens=thought
        )

    def _decoded(self, ids: list[int]) -> str:
        whole = self._options.keep_special_tokens or self._options.continues
        return self._tokenizer.decode(ids, skip_special_tokens=not whole, clean_up_tokenization_spaces=False)


def scored(asked: Asked, tokens: Sequence[tuple[float, bool]]) -> Completion:
    """The completion of a request that is scored.

    Args:
        tokens: of each scored token, its log-probability and whether it is the most probable one.
    """
    score = math.fsum(value for value, _ in tokens), all(greedy for _, greedy in tokens)
    return Completion("", prompt_tokens=len(asked.ids), score=score)


def load_tokenizer(subject: str, model: str, revision: str | None) -> Any:
    """The tokenizer of a folder or hub model; `subject` names it in errors.

    Raises:
        InputError: there is none.
    """
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(model, revision=revision, trust_remote_code=False)
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{subject}: {model} has no tokenizer ({one_line(error, 200)})") from error


def has_tokenizer(model: ModelOptions) -> bool:
    """Whether the tokenizer of a model, which may be a name that only a server knows, is on this machine."""
    from huggingface_hub import try_to_load_from_cache

    if (Path(model.name).expanduser() / "tokenizer_config.json").is_file():
        return True
    try:
        return isinstance(try_to_load_from_cache(model.name, "tokenizer_config.json", revision=model.revision), str)
    except ValueError:  # not a hub id
        return False


def _located(options: EngineOptions) -> tuple[str, bool]:
    """The model's folder or hub id, and whether its weights are a pickle.

    Looks at memory first, then at files, then at the hub.

    Raises:
        InputError: it does not fit on this machine, its weights are not here and cannot be fetched, or they are a
            pickle that is not allowed.
    """
    check_memory(options)
    model = model_path(options.model)
    if Path(model).is_dir():
        return model, _is_pickle(options, model, [path.name for path in Path(model).iterdir()])
    from huggingface_hub import list_repo_files, snapshot_download, try_to_load_from_cache
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    config = try_to_load_from_cache(model, "config.json", revision=options.revision)
    files = [path.name for path in Path(config).parent.iterdir()] if isinstance(config, str) else []
    if matching(files, SAFETENSORS) or (options.allow_pickle and matching(files, PICKLES)):
        return model, _is_pickle(options, model, files)
    try:
        snapshot = snapshot_download(model, revision=options.revision, allow_patterns=["config.json"])
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as error:
        needs = options.needs or "its weights"
        raise InputError(
            f"{options.subject}: {model} is not here and the hub does not give it ({one_line(type(error).__name__)}); "
            f"it needs {needs}{'' if options.reward else ', or --base-url of a server that serves it'}"
        ) from None
    try:
        files = list_repo_files(model, revision=options.revision)
    except (HfHubHTTPError, OSError):  # without a network: what was fetched before
        files = [path.name for path in Path(snapshot).iterdir()]
    return model, _is_pickle(options, model, files)


def _is_pickle(options: EngineOptions, model: str, files: list[str]) -> bool:
    if matching(files, SAFETENSORS):
        return False
    if not matching(files, PICKLES):
        raise InputError(f"{options.subject}: {model} has no weights (*.safetensors); save it with save_pretrained")
    if not options.allow_pickle:
        raise InputError(
            f"{options.subject}: {model} has no *.safetensors, its weights are a pickle, which can run code when it is "
            "read; if you trust where it comes from, set `weights: pickle` in the card: torch's safe unpickler reads it"
        )
    return True
