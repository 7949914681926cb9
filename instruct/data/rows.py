"""The rows of a card or of files, in TRL's prompt-completion or text format, with counts of what was left out."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from instruct.base.errors import InputError, counted
from instruct.data.arrow import RowFolder, batches, select
from instruct.data.bad_rows import BadRows, OnBadRow
from instruct.data.cards import DatasetCard, Documents, Format, Template, check_purpose
from instruct.data.formats import KEYS, TrainOn, columns_of, detect_format, to_row, unread_columns, unread_note
from instruct.data.nulls import null_note
from instruct.data.sources import RawRow, is_text_file, read_file, read_source, read_texts

if TYPE_CHECKING:
    from datasets import Dataset, Features

# Of the rows that data.eval_fraction holds out.
SPLIT_SEED = 42


class Rows(Sequence[dict[str, Any]]):
    """The rows of a data set's column of JSON texts, parsed when they are needed."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, index: Any) -> Any:
        texts = self._dataset[index]["row"]
        return json.loads(texts) if isinstance(texts, str) else [json.loads(text) for text in texts]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for batch in batches(self._dataset):
            yield from map(json.loads, batch["row"])


@dataclass(frozen=True)
class RowSet:
    """Rows that have something to learn.

    Attributes:
        dataset: on disk; each row as JSON text and its place. Columns of their own would give every message and tool
            the keys of all others.
        folder: that holds the data set's files.
        counts: `read` = `kept` + `empty` (left out because the response or the text is empty, blank, null or
            missing) + `held_out` (by `split_rows`; otherwise absent).
        sha256: of the rows; independent of the file that they came from.
        notes: warnings for the user, one line each.
        format: of the source's rows; None of a mixture, unless all of it is `text`.
        turns: of chats, the number of answers, and of turns that are not trained on, see `to_row`.
    """

    dataset: Dataset
    folder: RowFolder
    counts: dict[str, int]
    sha256: str
    notes: list[str] = field(default_factory=list)
    format: Format | None = None
    turns: dict[str, int] = field(default_factory=dict)

    @property
    def rows(self) -> Rows:
        """`{"prompt", "completion"}`, both text or both lists of `{"role", "content"}`; `{"messages"}` if several
        answers of a chat are trained on; or all of them `{"text"}`. Each may have a `weight`, as may a message."""
        return Rows(self.dataset)

    @property
    def sources(self) -> Sequence[str]:
        """The place of each row, "file:row"; rows are counted from 1, in JSONL by line."""
        places: Sequence[str] = self.dataset["place"]
        return places

    @property
    def plain_text(self) -> bool:
        """Whether all rows are texts without prompts, of which every token is trained on."""
        return self.format == "text"


@dataclass
class RowReader:
    """Reads the rows of a card's source, or of `files` as the card says; without a card, the first row has the format.

    Attributes:
        files: .json, .jsonl, .csv, .parquet, or text (.txt, .tokens, either with .gz), instead of the card's source.
        source: rows in memory, instead of both.
        template: instead of the card's (without a card: `chat`).
        documents: of text files, whether a `line` or a `file` is a document, instead of the card's (default: `line`).
        section: of the config, for errors.
        train_on: `last_turn` makes the answers before the last one part of the prompt.
        format: that the rows must have, which is that of the training rows, if they are to be evaluated on; once a row
            was read, the one that they have.
        bad: takes the malformed rows; without it, the first one stops.
        turns: counts the turns of chats, see `to_row`.
    """

    card: DatasetCard | None = None
    files: list[str] | None = None
    source: Iterable[RawRow] | None = None
    template: Template | None = None
    documents: Documents | None = None
    section: str = "data"
    train_on: TrainOn = "assistant_turns"
    format: Format | None = None
    bad: BadRows | None = None
    turns: Counter[str] = field(default_factory=Counter)

    def rows(self) -> Iterator[tuple[RawRow, dict[str, Any] | None]]:
        """Each row as it is there and as TRL has it (None: it has nothing to learn), one at a time.

        Raises:
            InputError: a source without rows, or a row that does not match the format. The message names the file, the
                row, the field and the remedy.
        """
        card, expected = self.card, self.format
        if card is None and not self.files and self.source is None:
            raise InputError("no card and no files; name a card (see `instruct list data`) or give files")
        if card is not None:
            check_purpose(card, "train")
        template = self.template or (card.template if card else "chat")
        for number, raw in enumerate(self.raw_rows()):
            if expected and number == 0 and not all(key in raw.fields for key in KEYS[expected]):
                raise InputError(
                    f"{raw.place}: has the columns {raw.columns}, but the training rows are of "
                    f"format {expected} ({', '.join(KEYS[expected])}); give data.eval_files in the same format"
                )
            self.format = self.format or (card.format if card else detect_format(raw))
            if self.format == "text" and self.template:
                raise InputError(
                    f"{raw.origin}: has texts without prompts, which take no template; remove data.template"
                )
            try:
                row = to_row(raw, self.format, template, self.train_on, self.turns)
            except InputError as error:
                if self.bad is None:
                    raise
                self.bad.add(error, malformed=True)
                continue
            yield raw, row

    def raw_rows(self) -> Iterator[RawRow]:
        """The rows as they are there.

        Raises:
            InputError: an unreadable file, or a data set that cannot be downloaded.
        """
        card = self.card
        rows: Iterable[RawRow]
        if self.source is not None:
            rows = self.source
        elif self.files:
            rows = itertools.chain.from_iterable(self._read(Path(file).expanduser()) for file in self.files)
        else:
            assert card is not None
            rows = read_source(card.source, card.folder, self._read, self.section)
        column = card.column if card else None
        for raw in rows:
            weight = {"weight": raw.fields["weight"]} if "weight" in raw.fields else {}
            # A user's own file does not have to nest its fields like the card's source.
            if card is None or column is None or (self.files and column not in raw.fields):
                yield raw
            elif column not in raw.fields:
                names = ", ".join(raw.fields)
                raise InputError(f"{raw.place}: no column {column!r} (columns: {names}); fix the card's column")
            elif card.format == "text":
                yield replace(raw, fields={**weight, "text": raw.fields[column]})
            elif isinstance(raw.fields[column], dict):
                yield replace(raw, fields=weight | raw.fields[column])
            else:
                raise InputError(f"{raw.place}: {column}: must be a mapping; fix the card's column")

    def _read(self, path: Path, origin: str | None = None) -> Iterator[RawRow]:
        """The rows of a table or of a text file."""
        if is_text_file(Path(origin or path)):
            return read_texts(path, origin, self.documents or (self.card and self.card.documents) or "line")
        if self.documents:
            raise InputError(f"{origin or path}: is not a text file; remove {self.section}.documents")
        return read_file(path, origin)


def load_rows(
    card: DatasetCard | None,
    *,
    limit: int | None = None,
    folder: RowFolder | None = None,
    on_bad_row: OnBadRow | None = None,
    **reading: Any,
) -> RowSet:
    """The rows of a card's source, or of `files` read as the card says.

    Args:
        card: where the rows are and how to read them; without a card, the first row of `files` determines the format.
        limit: stop after keeping this many rows.
        folder: for the rows' files (default: a temporary one).
        on_bad_row: what a malformed row does, see `BadRows` (default: it stops).
        reading: how they are read, see `RowReader`.

    Raises:
        InputError: as `RowReader.rows`, or no row has a response.
    """
    counts = {"read": 0, "kept": 0, "empty": 0}
    digest = hashlib.sha256()
    bad = BadRows(on_bad_row)
    reader = RowReader(card, bad=bad, **reading)
    unread: Counter[str] = Counter()  # the rows that have text in a column that is not read
    with_nulls = 0

    def kept() -> Iterator[dict[str, str]]:
        nonlocal with_nulls
        origin = None
        for raw, row in reader.rows():
            if counts["kept"] == limit:
                return
            origin = origin or raw.origin
            counts["read"] += 1
            counts["empty" if row is None else "kept"] += 1
            assert reader.format
            read = columns_of(reader.format)
            unread.update(unread_columns(raw.fields, read))
            with_nulls += raw.nulls > 0 and "tools" in read
            if row is not None:
                digest.update(_identity(row))
                yield stored(raw, row)
        counts["read"] += bad.malformed
        bad.check(counts["read"])
        counts.update(bad.counts)
        if not counts["kept"]:
            what = "texts are blank" if reader.format == "text" else "responses are empty"
            raise InputError(f"{origin or ''}: all {counts['read']} {what}; fill them in or give other files")

    folder = folder or RowFolder()
    dataset = folder.store(kept(), stored_features())
    notes = []
    if card and not reader.files and limit is None and card.rows not in (None, counts["read"]):
        notes.append(
            f"card {card.name} expects {card.rows} rows, its source has {counts['read']}: the data set has changed"
        )
    if unread:
        notes.append(unread_note(unread, counts["read"]))
    if with_nulls:
        notes.append(null_note(with_nulls))
    notes += turn_notes(reader.turns, reader.train_on)
    notes += [f"left out: {problem}" for problem in bad.listed]
    return RowSet(dataset, folder, counts, digest.hexdigest(), notes, reader.format, dict(reader.turns))


def stored_features() -> Features:
    """The columns of a RowSet's data set."""
    from datasets import Features, Value

    return Features({"row": Value("large_string"), "place": Value("string")})


def stored(raw: RawRow, row: dict[str, Any] | None) -> dict[str, str]:
    """A row as it is stored, with its place; the text of None, which has nothing to learn, is empty."""
    place = f"{raw.origin}:{raw.row}".encode(errors="backslashreplace").decode()
    return {"row": "" if row is None else json.dumps(row), "place": place}


def turn_notes(turns: Mapping[str, int], train_on: TrainOn) -> list[str]:
    """What chats have besides answers that are trained on, one line each."""
    if train_on == "all_tokens":
        return []
    notes = []
    for name, kind, what in (
        ("untrained", "answer", 'with "train": false or "weight": 0: context, not trained on'),
        ("opening", "assistant turn", "at the start of a chat, without a prompt: context, not trained on"),
        ("empty", "assistant turn", "without text: context, not trained on"),
        ("after", "turn", "after a chat's last answer: left out"),
    ):
        if turns.get(name):
            notes.append(f"{counted(turns[name], kind)} {what}")
    for name, count in turns.items():
        if name.startswith("unused key"):
            notes.append(f"{name} in {counted(count, 'turn')}: not part of the text")
    return notes


def split_rows(rows: RowSet, fraction: float) -> tuple[RowSet, RowSet]:
    """The rows without a random `fraction` of them (at least one), and these rows, both in the order of the source.

    The choice depends on nothing but the number of rows and SPLIT_SEED.

    Raises:
        InputError: no row would be left to train on.
    """
    count = len(rows.dataset)
    held_out = math.ceil(fraction * count)
    if held_out == count:
        raise InputError(f"data.eval_fraction {fraction}: leaves none of {count} rows to train on; lower it")
    chosen = set(random.Random(SPLIT_SEED).sample(range(count), held_out))
    train = _selected(rows, [index for index in range(count) if index not in chosen])
    return (
        replace(train, counts={**rows.counts, "kept": count - held_out, "held_out": held_out}),
        replace(_selected(rows, sorted(chosen)), counts={"read": held_out, "kept": held_out, "empty": 0}, notes=[]),
    )


def _selected(rows: RowSet, indices: list[int]) -> RowSet:
    chosen = replace(rows, dataset=select(rows.dataset, indices))
    digest = hashlib.sha256()
    for row in chosen.rows:
        digest.update(_identity(row))
    return replace(chosen, sha256=digest.hexdigest())


def _identity(row: dict[str, Any]) -> bytes:
    return json.dumps(row, sort_keys=True, ensure_ascii=False).encode()
