"""What every system of an experiment is trained on: the tokenizer and the encoded rows, loaded once a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from instruct.base.errors import InputError, Problems, one_line
from instruct.base.models import ModelOptions, model_path
from instruct.data.arrow import RowFolder, numbers
from instruct.data.cards import Format
from instruct.data.formats import TRAIN_ON, TrainOn
from instruct.data.mixture import mix
from instruct.data.options import DataOptions, SourceOptions, template_of
from instruct.data.rows import SPLIT_SEED, RowSet, load_rows, split_rows
from instruct.data.sources import is_text_file, read_file
from instruct.data.token_weights import check_prompt_weight, weights_record
from instruct.data.tokens import EncodedRows, encode_rows
from instruct.run.directory import RunDirectory

# SFTConfig's default is 1024; Stanford Alpaca's recipe, and the paper's, uses 512.
DEFAULT_MAX_LENGTH = 512
# Plain text is packed unless `train.packing` is false. Of TRL's strategies, `bfd` (its default) cuts the end off a text
# that is longer than a block, `bfd_split` splits it, and `wrapped` fills each block without regard to where texts end.
PACKING = {"packing": True, "packing_strategy": "bfd_split"}


@dataclass(frozen=True)
class TrainingRows:
    """The rows of an experiment as text and as tokens.

    Attributes:
        tokenizer: the base model's.
        template: the template that the prompts were rendered with; `none` for plain text.
        encoded: the rows as token ids with labels.
        eval_encoded: those to evaluate on while training; None without.
    """

    tokenizer: Any
    template: str
    encoded: EncodedRows
    eval_encoded: EncodedRows | None = None

    @property
    def rows(self) -> RowSet:
        """The rows in TRL's prompt-completion form, chats, or texts."""
        return self.encoded.rows

    def close(self) -> None:
        """Remove the rows' files."""
        self.rows.folder.close()

    @property
    def counts(self) -> dict[str, int]:
        """What became of the rows that were read."""
        return {**self.rows.counts, **self.encoded.counts}

    @property
    def notes(self) -> list[str]:
        """What the user has to know about the rows and their text, one line each."""
        return [*self.rows.notes, *self.encoded.notes]

    def made_of(self) -> dict[str, Any]:
        """What was trained on, as a step's results: `rows` by what became of them, `turns` of chats; and of `answers`
        what is out of the ordinary: thinking, several rows a chat, lost end tokens; `weights` of the tokens, if not all
        are 1."""
        made: dict[str, Any] = {"rows": self.counts, "turns": self.rows.turns}
        if self.rows.plain_text:
            made["rows"]["tokens"] = int(numbers(self.encoded.encoded, "tokens").sum())
        if set(self.encoded.facts) - {"answers", "ends"}:
            made["answers"] = self.encoded.facts
        made["weights"] = weights_record(self.encoded.weights)
        return {name: value for name, value in made.items() if value or name == "rows"}


def load_training_rows(
    data: DataOptions, model: ModelOptions, train: Mapping[str, Any], run: Path | None = None
) -> TrainingRows:
    """Read the experiment's rows and tokenize them.

    Args:
        train: the section of that name.
        run: the run's folder, for the rows' files until they are closed (default: a temporary one).

    Raises:
        InputError: the tokenizer or the rows cannot be loaded, or no row has a response token left after the cut to
            `train.max_length`.
    """
    check_sources(data)
    train_on = train.get("train_on", "assistant_turns")
    if train_on not in TRAIN_ON:
        raise InputError(f"train.train_on: unknown value {one_line(train_on, 40)!r}; use {', '.join(TRAIN_ON)}")
    prompt_weight = train.get("prompt_loss_weight", 0.0)
    try:
        check_prompt_weight(prompt_weight, train_on)
    except ValueError as error:
        raise InputError(f"train.{error}") from None
    tokenizer = load_tokenizer(model, data, train.get("eos_token"))
    rendering = data.rendering(RunDirectory(run).day if run else None)
    max_length = train.get("max_length", DEFAULT_MAX_LENGTH)
    packing = {**PACKING, **train}
    eval_encoded = None
    folder = RowFolder(run)
    try:
        sets, held_out = _read_sets(data, train_on, folder)
        plain_text = all(rows.plain_text for rows in sets)
        if plain_text and prompt_weight:
            raise InputError("train.prompt_loss_weight: texts have no prompts; remove it")
        splits = packing["packing"] and packing["packing_strategy"] != "bfd" and plain_text
        cut, on_bad_row = None if splits else max_length, data.on_bad_row
        weighed = [*((own, prompt_weight) for own in sets), *((own, None) for own in held_out)]
        encodings = [
            encode_rows(tokenizer, own, cut, train_on, rendering, on_bad_row, weight) for own, weight in weighed
        ]
        encoded = _joined(data, encodings[: len(sets)])
        if held_out:  # every row of every set once, whatever the weights
            once = [source.model_copy(update={"weight": None}) for source in data.mixture or ()]
            unweighted = data.model_copy(update={"mixture": once if len(held_out) > 1 else None})
            eval_encoded = _joined(unweighted, encodings[len(sets) :])
        for key, part in (("data", encoded), ("data.eval_files", eval_encoded)):
            if part and not len(part.trainable):
                raise InputError(
                    f"{key}: no row has a response token within max_length {max_length}, or all weights are 0; raise "
                    "train.max_length or fix the data"
                )
    except BaseException:
        folder.close()
        raise
    templates = [template_of(source) for source, own in zip(data.parts, sets, strict=True) if not own.plain_text]
    shown = " and ".join(dict.fromkeys(templates)) or "none"
    return TrainingRows(tokenizer, shown, encoded, eval_encoded)


def check_sources(data: DataOptions) -> None:
    """Refuse unknown cards and files that are missing, empty or not what their name says, without reading them whole.

    Raises:
        InputErrors: what is wrong, each on a line.
    """
    if not data.mixture and data.card is None and not data.files:
        raise InputError("data: no card and no files; set data.card (see `instruct list data`) or data.files")
    problems = Problems()
    for source in data.parts:
        with problems.collected():
            source.reading()
    for file in [*(file for source in data.parts for file in source.files or []), *(data.eval_files or [])]:
        path = Path(file).expanduser()
        if not is_text_file(path):
            with problems.collected():
                next(iter(read_file(path)))
        elif not path.is_file():
            problems.found.append(f"{file}: no such file; give the path of an existing text file")
    problems.refuse()


def evaluated(data: TrainingRows) -> str:
    """What is evaluated on while training, for people; `data` has such rows."""
    assert data.eval_encoded
    tokens = int(numbers(data.eval_encoded.trainable, "loss_tokens").sum())
    held_out = f", held out (seed {SPLIT_SEED})" if "held_out" in data.rows.counts else ""
    return f"{len(data.eval_encoded.trainable):,} rows, {tokens:,} tokens with a loss{held_out}"


def _read_sets(data: DataOptions, train_on: TrainOn, folder: RowFolder) -> tuple[list[RowSet], list[RowSet]]:
    """Each data set's rows to train on; and those to evaluate on, if there are any."""

    def read(source: SourceOptions, limit: int | None, format: Format | None = None) -> RowSet:
        how = source.reading() | {"on_bad_row": data.on_bad_row}
        return load_rows(**how, limit=limit, train_on=train_on, format=format, folder=folder)

    sets = [read(source, source.limit) for source in data.parts]
    if data.eval_fraction:
        splits = [split_rows(rows, data.eval_fraction) for rows in sets]
        return [train for train, _ in splits], [held_out for _, held_out in splits]
    if data.eval_files:
        like = data.parts[0].model_copy(update={"files": data.eval_files})
        return sets, [read(like, data.eval_limit, sets[0].format)]
    return sets, []


def _joined(data: DataOptions, encodings: list[EncodedRows]) -> EncodedRows:
    """The rows of all data sets."""
    return mix(data, encodings) if data.mixture else encodings[0]


def load_tokenizer(model: ModelOptions, data: DataOptions, end: str | None = None) -> Any:
    """The base model's tokenizer, with the chat template of the data's options.

    Args:
        end: `train.eos_token`.

    Raises:
        InputError: it cannot be loaded, there is no such template, or it has no end token to train on.
    """
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(
            model_path(model.name), revision=model.revision, trust_remote_code=model.trust_remote_code
        )
    except Exception as error:  # of a damaged file, whatever the code that reads it raises
        raise unreachable_model(model.name, error) from None
    if end is not None:
        if end not in tokenizer.get_vocab():
            raise InputError(f"train.eos_token: {end!r} is not a token of {model.name}; name one that is")
        tokenizer.eos_token = end
    data.rendering().prepare(tokenizer)
    if tokenizer.eos_token_id is None:
        raise InputError(
            f"model {model.name}: its tokenizer has no end token, so the model could not learn to stop; "
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
            "or use an ungated model (such as Qwen/Qwen2.5-7B)"
        )
    return InputError(
        f"model {name}: could not be loaded ({one_line(text.splitlines()[0] if text else type(error).__name__, 160)}); "
        "check the name, the network and HF_TOKEN, or give a local folder"
    )
