"""What the judges on this machine share: their weights, their tokenizer, what fits their context."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import filter as matching
from pathlib import Path
from typing import Any

from instruct.engines.base import Completion, Failure, Prompt
from instruct.errors import InputError, one_line
from instruct.judging.cards import JudgeCard
from instruct.models import EMBEDDED_MODEL, resolve_model

SAFETENSORS, PICKLES = "*.safetensors", "pytorch_model*.bin"
# LLaMA's ids of padding, beginning and end. Early conversions, PandaLM's among them, carry a tokenizer without them.
LLAMA_PAD, LLAMA_BOS, LLAMA_EOS = 0, 1, 2


class LocalJudge:
    """The part of a judge on this machine that is the same in vLLM and in transformers.

    Nothing is loaded before the first prompt is looked at. `engine` names what answers: a part of every key.

    Raises:
        InputError: the card can be asked at a server only.
    """

    def __init__(self, card: JudgeCard, engine: str) -> None:
        if card.annotator or card.decoding.extra:
            what = "an annotator of alpaca-eval" if card.annotator else "what decoding.extra asks for"
            raise InputError(f"judge {card.name}: {what} needs a server; give --base-url, or leave --engine out")
        self._card = card
        self.identity: dict[str, Any] = {"engine": engine, "model": _identity(card), "revision": card.revision}
        self.notes: list[str] = []
        self._model = ""
        self._pickled = False
        self._tokenizer: Any = None
        self._stops: list[int] = []
        self._labels: dict[str, int] = {}

    @property
    def _revision(self) -> str | None:
        """The card's, unless the model is a folder."""
        return None if Path(self._model).is_dir() else self._card.revision

    def _load_tokenizer(self) -> None:
        from transformers import AutoTokenizer

        from instruct.engines.stop_tokens import stop_token_ids

        card = self._card
        self._model, self._pickled = local_model(card)
        try:
            tokenizer: Any = AutoTokenizer.from_pretrained(
                self._model, revision=self._revision, trust_remote_code=False
            )
        except (OSError, ValueError, KeyError) as error:
            raise InputError(f"judge {card.name}: {self._model} has no tokenizer ({one_line(error, 200)})") from error
        labels = card.verdict.labels
        for label in (labels.first, labels.second) if labels else ():
            ids = tokenizer(label, add_special_tokens=False)["input_ids"]
            if len(ids) != 1:
                raise InputError(
                    f"judge {card.name}: the label {label!r} is {len(ids)} tokens of its tokenizer; use one"
                )
            self._labels[label] = ids[0]
        end = tokenizer.eos_token_id
        if end is None or end == tokenizer.unk_token_id:  # "" for an end of text gives the unknown token's id
            self._stops = [LLAMA_EOS]
        elif card.prompt_form == "chat":  # a turn may end with another token than a text
            self._stops = list(stop_token_ids(tokenizer, self._model, self._revision))
        else:
            self._stops = [end]
        self._tokenizer = tokenizer

    def tokens(self, prompt: Prompt) -> int:
        """The prompt's length in the judge's tokens.

        Raises:
            InputError: the judge's tokenizer cannot be had, or has no chat template and needs one.
        """
        return len(self._token_ids(prompt))

    def _token_ids(self, prompt: Prompt) -> list[int]:
        if self._tokenizer is None:
            self._load_tokenizer()
        if isinstance(prompt, str):
            return list(self._tokenizer(prompt)["input_ids"])
        if not self._tokenizer.chat_template:
            raise InputError(f"judge {self._card.name}: its tokenizer has no chat template; set prompt_form: text")
        text = self._tokenizer.apply_chat_template(prompt, tokenize=False, add_generation_prompt=True)
        return list(self._tokenizer(text, add_special_tokens=False)["input_ids"])

    def _too_long(self, ids: list[int]) -> Failure | None:
        limit, context = self._card.decoding.max_tokens, self._card.context_length
        if len(ids) + limit <= context:
            return None
        return Failure(f"too long: {len(ids)} tokens and {limit} to answer exceed {context}")

    def _completion(
        self, prompt: list[int], answer: list[int], label_logprobs: Sequence[float] | None = None
    ) -> Completion:
        end = next((place for place, token in enumerate(answer) if token in self._stops), None)
        # What ends the thinking may be a special token, and the verdict's reader looks for it.
        text = self._tokenizer.decode(
            answer[:end], skip_special_tokens=self._card.thinking_end is None, clean_up_tokenization_spaces=False
        )
        logprobs = None if label_logprobs is None else dict(zip(self._labels, label_logprobs, strict=True))
        return Completion(text, logprobs, "length" if end is None else "stop", len(prompt), len(answer))


def _identity(card: JudgeCard) -> str:
    """A model's name; for a folder a hash of what is in it, which another training would change."""
    from instruct.engines.weights import model_identity

    folder = Path(card.model).expanduser()
    if card.model == EMBEDDED_MODEL or not (folder / "config.json").is_file():
        return card.model
    return model_identity(str(folder), None, (SAFETENSORS, PICKLES))


def local_model(card: JudgeCard) -> tuple[str, bool]:
    """The folder or hub id of a judge on this machine, and whether its weights are a pickle.

    Raises:
        InputError: its weights are not here and cannot be fetched, or are a pickle and the card does not allow that.
    """
    model = resolve_model(card.model)
    if Path(model).is_dir():
        return model, _is_pickle(card, model, [path.name for path in Path(model).iterdir()])
    from huggingface_hub import list_repo_files, snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        snapshot = snapshot_download(model, revision=card.revision, allow_patterns=["config.json"])
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as error:
        raise InputError(
            f"judge {card.name}: {model} is not here and the hub does not give it ({one_line(type(error).__name__)}); "
            f"it needs {card.needs or 'its weights'}, or --base-url of a server that serves it"
        ) from None
    _check_gpu(card)
    try:
        files = list_repo_files(model, revision=card.revision)
    except (HfHubHTTPError, OSError):  # without a network: what was fetched before
        files = [path.name for path in Path(snapshot).iterdir()]
    return model, _is_pickle(card, model, files)


def _is_pickle(card: JudgeCard, model: str, files: list[str]) -> bool:
    if matching(files, SAFETENSORS):
        return False
    if not matching(files, PICKLES):
        raise InputError(f"judge {card.name}: {model} has no weights (*.safetensors); save it with save_pretrained")
    if card.weights != "pickle":
        raise InputError(
            f"judge {card.name}: {model} has no *.safetensors, its weights are a pickle, which can run code when it is "
            "read; if you trust where it comes from, set `weights: pickle` in the card: torch's safe unpickler reads it"
        )
    return True


def _check_gpu(card: JudgeCard) -> None:
    import torch

    if card.needs and not torch.cuda.is_available():
        raise InputError(
            f"judge {card.name}: needs {card.needs}, and this machine has no GPU; "
            "give --base-url of a server that serves it"
        )
