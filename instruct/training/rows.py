"""What every system of an experiment is trained on: the tokenizer and the encoded rows, loaded once a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from instruct.data.cards import load_dataset_card
from instruct.data.chats import TRAIN_ON, TrainOn
from instruct.data.mixture import mix
from instruct.data.options import SourceOptions, template_of
from instruct.data.rows import RowSet, load_rows
from instruct.data.tokens import EncodedRows, encode_rows
from instruct.errors import InputError, one_line
from instruct.models import model_path
from instruct.training.options import TrainingOptions
from instruct.training.packing import splits_texts

# SFTConfig's default is 1024; Stanford Alpaca's recipe, and the paper's, uses 512.
DEFAULT_MAX_LENGTH = 512


@dataclass(frozen=True)
class TrainingRows:
    """The rows of an experiment as text and as tokens.

    Attributes:
        tokenizer: the base model's.
        rows: in TRL's prompt-completion form, chats, or texts.
        template: the template that the prompts were rendered with; `none` for plain text.
        encoded: the same rows as token ids with labels, in the same order.
    """

    tokenizer: Any
    rows: RowSet
    template: str
    encoded: EncodedRows


def load_training_rows(config: TrainingOptions) -> TrainingRows:
    """Read the experiment's rows and tokenize them.

    Raises:
        InputError: the tokenizer or the rows cannot be loaded, or no row has a response token left after the cut to
            `train.max_length`.
    """
    if not config.data.mixture and config.data.card is None and not config.data.files:
        raise InputError("data: no card and no files; set data.card (see `instruct list data`) or --data.files")
    train_on = config.train.get("train_on", "assistant_turns")
    if train_on not in TRAIN_ON:
        raise InputError(f"train.train_on: unknown value {one_line(train_on, 40)!r}; use {', '.join(TRAIN_ON)}")
    tokenizer = load_tokenizer(config)
    sets = [_load_source(source, train_on) for source in config.data.parts]
    plain_text = all(rows.plain_text for rows in sets)
    max_length = config.train.get("max_length", DEFAULT_MAX_LENGTH)
    longest = None if plain_text and splits_texts(config.train) else max_length
    encodings = [encode_rows(tokenizer, rows, longest, train_on) for rows in sets]
    rows, encoded = mix(config.data, sets, encodings) if config.data.mixture else (sets[0], encodings[0])
    if not encoded.counts["kept"] and not encoded.counts["truncated"]:
        raise InputError(
            f"data: no row has a response token within max_length {max_length}; raise train.max_length or fix the data"
        )
    templates = [template_of(source) for source, own in zip(config.data.parts, sets, strict=True) if not own.plain_text]
    return TrainingRows(tokenizer, rows, " and ".join(dict.fromkeys(templates)) or "none", encoded)


def _load_source(source: SourceOptions, train_on: TrainOn) -> RowSet:
    return load_rows(
        load_dataset_card(source.card) if source.card else None,
        files=source.files,
        template=source.template,
        limit=source.limit,
        documents=source.documents,
        encoding=source.encoding,
        train_on=train_on,
    )


def load_tokenizer(config: TrainingOptions) -> Any:
    """The base model's tokenizer.

    Raises:
        InputError: it cannot be loaded, or has no end token to train on.
    """
    from transformers import AutoTokenizer

    name = model_path(config.model.name)
    try:
        tokenizer = AutoTokenizer.from_pretrained(
            name, revision=config.model.revision, trust_remote_code=config.model.trust_remote_code
        )
    except (OSError, ValueError) as error:
        raise unreachable_model(config.model.name, error) from None
    end = config.train.get("eos_token")
    if end is not None:
        if end not in tokenizer.get_vocab():
            raise InputError(f"train.eos_token: {end!r} is not a token of {config.model.name}; name one that is")
        tokenizer.eos_token = end
    if tokenizer.eos_token_id is None:
        raise InputError(
            f"model {config.model.name}: its tokenizer has no end token, so the model could not learn to stop; "
            "set eos_token in its tokenizer_config.json"
        )
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def unreachable_model(name: str, error: Exception) -> InputError:
    """One line on why a model could not be loaded, with the remedy."""
    text = str(error)
    if "gated" in text.lower() or "401" in text or "403" in text:
        return InputError(
            f"model {name}: access is restricted; accept its license on its hub page and run `hf auth login`, "
            "or use an ungated model (--model.name Qwen/Qwen2.5-7B)"
        )
    return InputError(
        f"model {name}: could not be loaded ({one_line(text.splitlines()[0] if text else type(error).__name__, 160)}); "
        "check the name, the network and HF_TOKEN, or give a local folder"
    )
