"""What vLLM and transformers share on this machine: weights, tokenizer, and the text in generated ids."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from instruct.base.errors import InputError, one_line
from instruct.base.models import EMBEDDED_MODEL, ModelOptions, pick_dtype, stated_dtype
from instruct.base.replies import (
    Completion,
    Failure,
    ScoredCompletion,
    marks_of,
    parted_after,
    reasoning_tokens,
)
from instruct.data.templates import DEFAULT
from instruct.engines.base import EngineOptions, Prompt, Request
from instruct.engines.encode import encode_prompt
from instruct.engines.memory import check_memory
from instruct.engines.weights import (
    PICKLES,
    SAFETENSORS,
    Weights,
    located,
    model_identity,
    unreadable,
)

# LLaMA's ids of padding, beginning and end. Early conversions, PandaLM's among them, carry a tokenizer without them.
LLAMA_PAD, LLAMA_BOS, LLAMA_EOS = 0, 1, 2


class LocalEngine:
    """The part of an engine on this machine that is the same in vLLM and in transformers.

    Nothing is loaded, or looked for, before it is needed.
    """

    kind: Literal["vllm", "transformers"]

    def __init__(self, options: EngineOptions) -> None:
        self.options = options
        self.notes: list[str] = []
        self.context = options.context_length

    @cached_property
    def identity(self) -> dict[str, Any]:
        options = self.options
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
        _ = self.weights

    @cached_property
    def weights(self) -> Weights:
        """Where the weights are; see `located`."""
        return located(self.options)

    @cached_property
    def tokenizer(self) -> Any:
        """The model's tokenizer.

        Raises:
            InputError: the model is not here, or has none.
        """
        model, revision, _ = self.weights
        return self.options.tokenizer or load_tokenizer(self.options.subject, model, revision)

    @cached_property
    def config(self) -> Any:
        """The model's configuration, which is read without its weights."""
        model, revision, _ = self.weights
        return load_config(self.options.subject, model, revision)

    @cached_property
    def dtype(self) -> str:
        """The dtype that the model computes in; a model that does not fit here is refused first."""
        check_memory(self.options)
        return pick_dtype(self.options.dtype, lambda: stated_dtype(self.config))

    @cached_property
    def labels(self) -> dict[str, int]:
        """The token id of each label.

        Raises:
            InputError: a label is not one token.
        """
        labels = {}
        for label in self.options.labels:
            ids = self.tokenizer(label, add_special_tokens=False)["input_ids"]
            if len(ids) != 1:
                raise InputError(
                    f"{self.options.subject}: the label {label!r} is {len(ids)} tokens of its tokenizer; use one"
                )
            labels[label] = ids[0]
        return labels

    @cached_property
    def stops(self) -> list[int]:
        """The tokens that end a reply; a turn may end with another token than a text."""
        end = self.tokenizer.eos_token_id
        if self.options.chat:
            model, revision, _ = self.weights
            return list(stop_token_ids(self.tokenizer, model, revision))
        # With "" as the end of text, it has the unknown token's id.
        return [LLAMA_EOS if end is None or end == self.tokenizer.unk_token_id else end]

    def tokens(self, prompt: Prompt) -> int:
        """The prompt's length in the model's tokens.

        Raises:
            InputError: the tokenizer cannot be loaded, or a chat is asked of one without a chat template.
        """
        return len(self._token_ids(prompt))

    def _token_ids(self, prompt: Prompt) -> list[int]:
        if isinstance(prompt, tuple):
            return list(prompt)
        if not isinstance(prompt, str) and not self.tokenizer.chat_template:
            raise InputError(f"{self.options.subject}: its tokenizer has no chat template; set prompt_form: text")
        return encode_prompt(self.tokenizer, prompt, add_generation_prompt=True)

    def _resolved(self, request: Request) -> Request | Failure:
        """A request with token ids and all settings of its own, or that it does not fit the model's context."""
        decoding = self.options.decoding
        limit = decoding.max_tokens if request.max_tokens is None else request.max_tokens
        ids = tuple(self._token_ids(request.prompt))
        if len(ids) + limit > self.context:
            reason = f"too long: {len(ids)} tokens and {limit} to answer exceed {self.context}"
            return Failure(reason, permanent=True)
        temperature = decoding.temperature if request.temperature is None else request.temperature
        return replace(request, prompt=ids, max_tokens=limit, temperature=temperature, seed=request.seed or 0)

    def _completion(
        self, prompt: Sequence[int], answer: list[int], label_logprobs: Sequence[float] | None = None
    ) -> Completion:
        """The completion in generated ids; what follows the first stop token is padding."""
        options, tokenizer = self.options, self.tokenizer
        end = next((place for place, token in enumerate(answer) if token in self.stops), None)
        tokens = len(answer) if end is None else end + 1
        answer = answer[:end]
        thinks = options.parts_thinking and marks_of(tokenizer.chat_template) is not None
        thought = reasoning_tokens(prompt, answer, tokenizer) if thinks else None
        text = self._decoded(answer)
        if options.continues:  # some tokenizers drop the space before a text's first word
            whole, before = self._decoded([*prompt, *answer]), self._decoded(prompt)
            text = whole.removeprefix(before) if whole.startswith(before) else text
        logprobs = None if label_logprobs is None else dict(zip(self.labels, label_logprobs, strict=True))
        reasoning = None
        if thinks:  # the marks may be special tokens
            text, reasoning = parted_after(prompt, tokenizer.decode(answer), text, tokenizer)
        finish = "length" if end is None else "stop"
        return Completion(text, logprobs, finish, len(prompt), tokens, reasoning=reasoning, reasoning_tokens=thought)

    def _decoded(self, ids: Sequence[int]) -> str:
        skip = not self.options.continues
        return self.tokenizer.decode(ids, skip_special_tokens=skip, clean_up_tokenization_spaces=False)


def scored(request: Request, logprobs: Sequence[float]) -> Completion:
    """The completion of a request whose tokens are scored."""
    return ScoredCompletion("", prompt_tokens=len(request.prompt), token_logprobs=tuple(logprobs))


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


def load_config(subject: str, model: str, revision: str | None) -> Any:
    """The configuration of a folder or hub model; `subject` names it in errors.

    Raises:
        InputError: it cannot be read, or needs code from the model's repository.
    """
    from transformers import AutoConfig

    try:
        return AutoConfig.from_pretrained(model, revision=revision, trust_remote_code=False)
    except (OSError, ValueError, KeyError) as error:
        if "trust_remote_code" in str(error):
            raise InputError(
                f"{subject}: {model} needs code from its repository, which is never run; choose a model that "
                "transformers knows"
            ) from None
        raise unreadable(model, error) from error


def has_tokenizer(model: ModelOptions) -> bool:
    """Whether the tokenizer of a model, which may be a name that only a server knows, is on this machine."""
    from huggingface_hub import try_to_load_from_cache

    if (Path(model.name).expanduser() / "tokenizer_config.json").is_file():
        return True
    try:
        return isinstance(try_to_load_from_cache(model.name, "tokenizer_config.json", revision=model.revision), str)
    except ValueError:  # not a hub id
        return False


def stop_token_ids(tokenizer: Any, model: str, revision: str | None = None) -> tuple[int, ...]:
    """The tokenizer's end of text, the end of a turn in the chat template, and the generation config's."""
    from transformers import GenerationConfig as ModelGenerationConfig

    ids = end_token_ids(tokenizer)
    try:
        ends = ModelGenerationConfig.from_pretrained(model, revision=revision).eos_token_id
        ids |= set(ends) if isinstance(ends, list) else {ends}
    except OSError:  # optional
        pass
    return tuple(sorted(ids - {None}))


def end_token_ids(tokenizer: Any) -> set[int]:
    """The tokenizer's end of text, and the end of a turn in the chat template."""
    ids = {tokenizer.eos_token_id}
    if tokenizer.chat_template:
        turns = [{"role": "user", "content": "question"}, {"role": "assistant", "content": "answer"}]
        with contextlib.suppress(InputError):  # the template rejects such a chat
            _, found, after = DEFAULT.render(tokenizer, turns).rpartition("answer")
            tail = tokenizer(after.lstrip(), add_special_tokens=False)["input_ids"] if found else []
            if tail and tokenizer.added_tokens_decoder.get(tail[0]) is not None:
                ids.add(tail[0])
    return ids - {None}
