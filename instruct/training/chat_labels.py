"""Rows given to EMOTrainer as token ids with labels: read and encoded as the command reads and encodes files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from trl.data_utils import get_dataset_column_names

from instruct.base.errors import InputError
from instruct.base.output import warn
from instruct.data.arrow import RowFolder, batches
from instruct.data.bad_rows import BadRows
from instruct.data.formats import MEDIA, TrainOn, columns_of, detect_format, has_text, unread_note
from instruct.data.nulls import ArrowRows, null_note
from instruct.data.rows import RowReader, load_rows, stored, stored_features
from instruct.data.sources import RawRow
from instruct.data.templates import Rendering
from instruct.data.token_weights import weights_line, weights_record
from instruct.data.tokens import TRAINED, RowEncoder, begins_twice, encode_rows, fact_notes

# A column that makes a row more than plain text.
_CHATS = ("messages", "conversations", "prompt")
# Rows of a stream that are read together. After as many, the share of bad ones is known.
_BATCH = 1000
_COLUMNS = {"input_ids": "int32", "labels": "int64"}
_LEFT_OUT = {
    "malformed": "that are malformed",
    "rejected": "that the chat template rejects",
    "empty": "without an answer to train on",
    "fully_masked": "without a token to train on within max_length",
}


def is_read_here(dataset: Any, first: dict[str, Any], args: Any, name: str) -> bool:
    """Whether the rows are read here. TRL reads tokens, text without weights, prompts and completions that are text,
    and chats whose mask its own flags decide.

    Args:
        first: the data set's first row.
        name: of the data set, for errors.

    Raises:
        InputError: the columns are of no format, or of two.
    """
    custom = getattr(dataset, "format", {}).get("type") == "custom"  # `with_transform`, which TRL refuses
    if custom or "input_ids" in first:
        return False
    if args.dataset_text_field in first and first.keys().isdisjoint(_CHATS):
        if args.dataset_text_field == "text" and {"instruction", "output"} <= first.keys():
            raise InputError(
                f"{name} dataset: has the columns of alpaca (instruction, output) and text; remove those that are not "
                "to be trained on (dataset.remove_columns)"
            )
        return args.dataset_text_field == "text" and "weight" in first
    format = detect_format(RawRow(f"{name} dataset", 0, first))
    if format == "prompt_completion" and isinstance(first["prompt"], str) and isinstance(first["completion"], str):
        return False
    of_trl = format == "prompt_completion" or (format != "alpaca" and "prompt" not in first)
    return not of_trl or args.train_on == "all_tokens" or _flag(first, args) is None


def check_weighed(first: Mapping[str, Any], args: Any, is_here: bool) -> None:
    """Refuse weights that would not be read.

    Args:
        first: the first row that is trained on.
        is_here: see `is_read_here`.

    Raises:
        ValueError: rows that TRL reads have weights, or prompts with a weight are wanted where there are none.
    """
    if args.prompt_loss_weight and "text" in first and first.keys().isdisjoint(_CHATS):
        raise ValueError("prompt_loss_weight: texts have no prompts; drop it")
    if is_here:
        return
    remedy = (
        "write prompt and completion as lists of messages, without a formatting_func, assistant_only_loss and "
        "completion_only_loss"
    )
    if "weight" in first:
        raise ValueError(f"weight: a column that TRL, which reads these rows, would ignore; {remedy}, or rename it")
    if args.prompt_loss_weight:
        raise ValueError(f"prompt_loss_weight: TRL, which reads these rows, would ignore it; {remedy}")


def _flag(columns: Any, args: Any) -> bool | None:
    """TRL's flag for rows with these columns."""
    chats = "messages" in columns or "conversations" in columns
    flag: bool | None = args.assistant_only_loss if chats else args.completion_only_loss
    return flag


def label_rows(
    dataset: Any, processing_class: Any, args: Any, name: str, folder: RowFolder, evaluates: bool = False
) -> Any:
    """The data set's rows as `input_ids` and `labels`; those without an answer are left out.

    Args:
        name: of the data set, for warnings and errors.
        folder: for the rows' files, which the data set needs as long as it is used.
        evaluates: whether the rows are to be evaluated on, where weights do not count.

    Raises:
        InputError: malformed rows, or rows that the template rejects, see `BadRows`; the message names them, counted
            from 0.
    """
    masked = _flag(get_dataset_column_names(dataset), args) is not False
    train_on: TrainOn = args.train_on if masked else "all_tokens"
    prompt_weight = None if evaluates else args.prompt_loss_weight
    rendering = Rendering(
        empty_thinking=args.empty_thinking == "train",
        remedy="set chat_template_path, or the chat_template of processing_class",
    )
    length = args.max_length if not args.packing or args.packing_strategy == "bfd" else None  # others split a row
    if not hasattr(dataset, "__len__"):
        bad = BadRows(args.on_bad_row, most=1)
        encoder = RowEncoder(processing_class, length, train_on, rendering, bad, prompt_weight)
        return _encoded(_stored(dataset, encoder, name), encoder)
    arrow = _arrow_rows(dataset)
    source = (RawRow(f"{name} dataset", index, *arrow.restored(dict(row))) for index, row in enumerate(dataset))
    rows = load_rows(None, source=source, train_on=train_on, folder=folder, on_bad_row=args.on_bad_row)
    encoded = encode_rows(processing_class, rows, length, train_on, rendering, args.on_bad_row, prompt_weight)
    counts = {**rows.counts, **encoded.counts}
    for status, which in _LEFT_OUT.items():
        if counts.get(status):
            warn(f"{name} dataset: {counts[status]:,} of {len(dataset):,} rows {which} are left out")
    weights = weights_record(encoded.weights)
    notes = [*rows.notes, *encoded.notes, *([f"trained on are {weights_line(weights)}"] if weights else [])]
    for note in notes:
        warn(f"{name} dataset: {note}")
    return encoded.dataset()


def _stored(dataset: Any, encoder: RowEncoder, name: str) -> Any:
    """The rows of a stream in the form that rows are stored in, as they are read."""
    reader, arrow = RowReader(train_on=encoder.train_on, bad=encoder.bad), _arrow_rows(dataset)

    def store(batch: dict[str, list[Any]], indices: list[int]) -> dict[str, list[str]]:
        values = zip(indices, zip(*batch.values(), strict=True), strict=True)
        reader.source = [
            RawRow(f"{name} dataset", index, *arrow.restored(dict(zip(batch, row, strict=True))))
            for index, row in values
        ]
        with_nulls = sum(raw.nulls > 0 for raw in reader.source)
        if with_nulls and not encoder.counts["nulls"]:
            warn(f"{name} dataset, among {len(indices):,} rows: {null_note(with_nulls)}")
        encoder.counts["nulls"] += with_nulls
        listed = [stored(raw, row) for raw, row in reader.rows()]
        return {key: [row[key] for row in listed] for key in stored_features()}

    columns = get_dataset_column_names(dataset)
    return dataset.map(
        store,
        batched=True,
        batch_size=_BATCH,
        with_indices=True,
        remove_columns=columns,
        features=stored_features(),
    )


def _encoded(rows: Any, encoder: RowEncoder) -> Any:
    """The rows of a stream, encoded as they are read: `input_ids` and `labels`.

    Raises:
        InputErrors: while it is read, if a bad row stops or too many rows are bad, see `BadRows`.
    """
    from datasets import Features, List, Value

    # A function in a function: `datasets` copies everything else, and the counts with it.
    def encode(batch: dict[str, list[str]]) -> dict[str, list[Any]]:
        trained = [row for chat in encoder.chats(batch) for row in chat if row["status"] in TRAINED]
        if encoder.bad:
            read, ended = encoder.counts["read"] + encoder.bad.malformed, len(batch["row"]) < _BATCH
            encoder.bad.check_so_far(read, ended or (encoder.bad.choice is None and read >= _BATCH))
        return {name: [row[name] for row in trained] for name in _COLUMNS}

    return rows.map(
        encode,
        batched=True,
        batch_size=_BATCH,
        remove_columns=list(stored_features()),
        features=Features({name: List(Value(kind)) for name, kind in _COLUMNS.items()}),
    )


def warn_of_rows(dataset: Any, first: dict[str, Any], tokenizer: Any, args: Any, name: str) -> None:
    """Say which columns of text are not trained on, and that texts begin with what the tokenizer adds to each.

    Args:
        dataset: that TRL reads, or a stream, of which only the `first` row is looked at.
        name: of the data set, for the warnings.
    """
    if "input_ids" in first:
        return
    plain = text = args.dataset_text_field
    read: tuple[str, ...] = (text,)
    if text not in first or not first.keys().isdisjoint(_CHATS):
        format = detect_format(RawRow(f"{name} dataset", 0, first))
        plain = "prompt" if format == "prompt_completion" and isinstance(first["prompt"], str) else ""
        read = columns_of(format)
    others = [column for column in first if column not in {*read, *MEDIA}]
    columns = [*others, plain] if plain else others
    sized = hasattr(dataset, "__len__")
    rows = [{column: [first[column]] for column in columns}]
    bos = tokenizer.bos_token
    added = bool(plain and bos) and begins_twice(tokenizer, tokenizer(bos)["input_ids"])
    unread, twice = Counter[str](), 0
    for batch in batches(dataset.select_columns(columns)) if sized and columns else rows:
        unread.update({column: sum(map(has_text, batch[column])) for column in others})
        twice += sum(str(value).startswith(bos) for value in batch[plain]) if added else 0
    where = f"{name} dataset" + ("" if sized else ", first row")
    if unread := +unread:
        warn(f"{where}: {unread_note(unread, len(dataset) if sized else 1)}")
    for note in fact_notes({"twice": twice}):
        warn(f"{where}: {note}")


def _arrow_rows(dataset: Any) -> ArrowRows:
    """What restores the rows; those of a generator are none of Arrow's."""
    return ArrowRows(dataset.features and dataset.features.arrow_schema)


def mask_pictures(args: Any, first: dict[str, Any]) -> None:
    """Have TRL's collator mask chats with pictures, which are tokenized when a batch is made.

    Raises:
        ValueError: `train_on="last_turn"` or weights, which TRL's collator does not know.
    """
    if ("image" in first or "images" in first) and (args.prompt_loss_weight or "weight" in first):
        raise ValueError("rows with pictures have no weights; drop prompt_loss_weight and the column weight")
    if args.assistant_only_loss is None and "messages" in first and ("image" in first or "images" in first):
        if args.train_on != "assistant_turns":
            raise ValueError(f"train_on={args.train_on!r} does not work with pictures; use prompt-completion rows")
        args.assistant_only_loss = True  # TRL refuses a template without generation markers
