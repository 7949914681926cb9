"""Pairs of answers with human labels: known sets by their cards (`data/human/NAME.yaml`), and files of your own."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import urllib.request
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

from pydantic import Field, PrivateAttr, model_validator

from instruct.analysis.outcomes import candidate_is_second
from instruct.base.cards import list_cards, nearest, read_yaml, validated
from instruct.base.errors import InputError, counted, one_line
from instruct.base.files import cache_folder, sha256_of, write_atomically
from instruct.base.options import Options
from instruct.base.output import warn
from instruct.data.formats import Message, text_field
from instruct.data.prompts import EvalPrompt, read_prompt
from instruct.data.sources import RawRow, read_file

Label = Literal["first", "second", "tie"]
FILE_TYPES = (".json", ".jsonl", ".csv")

_WORDS = {label: label for label in get_args(Label)}
_INSTRUCTIONS = ("instruction", "prompt")
_ANSWERS = (
    ("response1", "response2"),
    ("response 1", "response 2"),
    ("output_1", "output_2"),
    ("first", "second"),
    ("response_a", "response_b"),
)
_GROUPS = ("group", "scenario", "cmp_key", "subset")
# What the authors' numbers mean; in other files a number means nothing.
_PANDALM = {"0": "tie", "1": "first", "2": "second"}
_AUTOJ = {"0": "first", "1": "second", "2": "tie"}
_ARENA = {"model_a": "first", "model_b": "second", "tie": "tie", "tie (bothbad)": "tie"}  # of Chatbot Arena's `winner`


@dataclass(frozen=True)
class HumanPair:
    """Two answers to one prompt and each annotator's label: `first`, `second`, `tie` or, where it is missing, None.

    `score`, if a judge made the label: from 0 (the first answer) to 1 (the second). `earlier` are the turns before
    the second answer, where they are not the prompt's.
    """

    prompt: EvalPrompt
    first: str
    second: str
    labels: tuple[str | None, ...]
    group: str | None = None
    score: float | None = None
    earlier: tuple[Message, ...] | None = None

    @property
    def label(self) -> str:
        """The label with the most votes; of several, the one given first (WeOpenML/PandaLM's compute_metrics.py)."""
        return self._votes()[0][0]

    @property
    def split(self) -> bool:
        """Whether several labels have the most votes."""
        (_, most), *others = self._votes()
        return any(count == most for _, count in others)

    def _votes(self) -> list[tuple[str, int]]:
        return Counter(label for label in self.labels if label is not None).most_common()


@dataclass(frozen=True)
class HumanSet:
    """Pairs with labels and the file they were read from.

    `annotators` are the label columns; `groups` is the order in which tables list the groups, if the card has one.
    `labels_by`: who made the labels, people or a judge, by its name; `notes`: what has to be said about them.
    """

    name: str
    pairs: list[HumanPair]
    annotators: tuple[str, ...]
    path: Path
    sha256: str
    groups: tuple[str, ...] = ()
    labels_by: str = "people"
    notes: tuple[str, ...] = ()

    @property
    def by_people(self) -> bool:
        return self.labels_by == "people"


class Columns(Options):
    """The columns that make a pair; with several `files`, NAME.COLUMN, or NAME alone for a text file.

    What else a judge may be shown of the prompt is read from columns of its own names (`read_prompt`).
    """

    instruction: str
    """The request."""
    input: str | None = None
    """Its context, for judges that show it separately."""
    first: str
    """The first answer."""
    second: str
    """The second answer."""
    label: str | list[str] = Field(min_length=1)
    """The label, or one column for each annotator."""
    group: str | None = None
    """The group of the pair."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The columns with labels, one for each annotator."""
        return (self.label,) if isinstance(self.label, str) else tuple(self.label)


class HumanSetCard(Options):
    """`data/human/NAME.yaml`, which describes a set whose files are not part of this project."""

    name: str = Field(min_length=1)
    """The set's name."""
    description: str
    """One line for people."""
    file: str | None = None
    """The path of the file, below the card's folder, $INSTRUCT_SHARED_DATA or the cache."""
    files: dict[str, str] | None = Field(default=None, min_length=2)
    """Or several paths by name, whose rows belong together in their order; a .txt file has a value on each line."""
    key: str | None = None
    """A column that must be equal in all files that have it, such as a question's id."""
    columns: Columns | None = None
    """The columns of a pair (default: found by their names); of several files NAME.COLUMN, of a .txt file NAME."""
    labels: dict[str | int, Label] | None = Field(default=None, min_length=1)
    """What the values of the label columns mean; any other is an error (default: first, second and tie)."""
    url: str | None = None
    """Where the file is downloaded from if it is not found; needs `sha256`."""
    sha256: str | None = Field(default=None, pattern="^[0-9a-f]{64}$")
    """The hash that the file is checked against."""
    rows: int | None = Field(default=None, ge=1)
    """The expected number of pairs, which is checked."""
    licence: str
    """The license of the set."""
    citation: str | None = None
    """The source to cite."""
    notes: str | None = None
    """For people who read the card."""
    groups: dict[str, list[str]] | None = None
    """The values of the group column in each group."""
    _folder: Path = PrivateAttr(default=Path("."))

    @model_validator(mode="after")
    def _fits_together(self) -> HumanSetCard:
        of_files = self.files is not None
        wrong = {
            "give exactly one of file (a path) and files (paths by name)": (self.file is None) != of_files,
            "url and sha256 belong to file; remove them": of_files and (self.url or self.sha256),
            "files needs columns, as NAME.COLUMN": of_files and self.columns is None,
            "key belongs to files": self.key is not None and not of_files,
            "url needs sha256, by which a download is checked": self.url and not self.sha256,
            "labels needs columns, so that the labels' columns are known": self.labels and self.columns is None,
        }
        for problem, applies in wrong.items():
            if applies:
                raise ValueError(problem)
        return self


def load_human_set(against: str) -> HumanSet:
    """The known set of that name or card (.yaml), or the pairs in that file (.json, .jsonl or .csv).

    Raises:
        InputError: unknown set, missing file, a file that is not the set's own, or a row that is not a labelled pair.
    """
    path = Path(against).expanduser()
    if path.suffix.lower() in FILE_TYPES:
        card = HumanSetCard(name=path.stem or path.name, description="", file=path.name, licence="")
        files = {"": path}
    else:
        card = load_human_card(against)
        files = find_files(card)
        path = next(iter(files.values()))
    rows = read_rows(card, files)
    if not rows:
        raise InputError(f"{path}: has no rows; give a file with at least one")
    labels = {str(value): label for value, label in (card.labels or {}).items()}
    columns = card.columns
    if columns is None:
        rows = [_preferred(row) for row in rows]
        columns, words = _usual_columns(rows[0])
    else:
        words = dict(labels or _WORDS)
        for name in (columns.instruction, columns.first, columns.second, *columns.labels):
            if name not in rows[0].fields:
                raise InputError(
                    f"{rows[0].place}: has no column {name!r}, which the card {card.name} names (columns: "
                    f"{rows[0].columns}); fix the card's columns"
                )
    group_of = {value: group for group, values in (card.groups or {}).items() for value in values}
    every = [_pair(row, columns, words, bool(labels), group_of) for row in rows]
    if card.rows not in (None, len(every)):
        raise InputError(f"{path}: has {len(every)} pairs, but its card says {card.rows}; fix the card")
    pairs = [pair for pair in every if any(pair.labels)]
    if not pairs:
        raise InputError(f"{path}: has no labels; write first, second or tie")
    given = [sum(label is not None for label in of) for of in zip(*(pair.labels for pair in pairs), strict=True)]
    notes = [
        f"{name} labels {count} of {counted(len(pairs), 'pair')}"
        for name, count in zip(columns.labels, given, strict=True)
        if count < len(pairs)
    ]
    if left_out := len(every) - len(pairs):
        notes.append(f"left out: {left_out} of {counted(len(every), 'pair')} without a label")
    hashes = {name: sha256_of(file) for name, file in files.items()}
    sha256 = hashes.get("", "")
    if card.columns:  # another reading of the same files is another set
        read = [hashes, card.columns.model_dump(), labels]
        sha256 = hashlib.sha256(json.dumps(read, sort_keys=True).encode()).hexdigest()
    return HumanSet(card.name, pairs, columns.labels, path, sha256, tuple(card.groups or ()), notes=tuple(notes))


def _preferred(row: RawRow) -> RawRow:
    """A row of RewardBench, or of another set with a `chosen` and a `rejected` answer, as a labeled pair.

    The chosen answer is the second one in about half of the rows, drawn by AlpacaEval's seed rule: a judge that always
    prefers the answer shown first is not right.
    """
    answers = [row.fields.get(name) for name in ("chosen", "rejected")]
    if None in answers or not {"label", "first", "second"}.isdisjoint(row.fields):
        return row
    label = "second" if candidate_is_second(str(row.fields.get("prompt") or row.fields.get("instruction"))) else "first"
    first, second = answers if label == "first" else answers[::-1]
    return replace(row, fields=row.fields | {"first": first, "second": second, "label": label})


def load_human_card(name: str) -> HumanSetCard:
    """The card of a known set, by its name or as a YAML file.

    Raises:
        InputError: no such card (with the nearest names), or an invalid one.
    """
    path = Path(name)
    if path.suffix not in (".yaml", ".yml"):
        cards = {card.name: card.path for card in list_cards("data/human")}
        if name not in cards:
            raise InputError(
                f"unknown set of human labels {one_line(name, 80)!r}{nearest(name, cards)}; "
                f"name one of these or a {', '.join(FILE_TYPES)} file of labelled pairs"
            )
        path = cards[name]
    card = validated(HumanSetCard, read_yaml(path), path)
    card._folder = path.resolve().parent
    return card


def find_files(card: HumanSetCard) -> dict[str, Path]:
    """The set's files by their names in the card; a single file has the name "".

    A file is looked for next to the card, in $INSTRUCT_SHARED_DATA (or ../shared/data) and in the cache, and is else
    downloaded into the cache.

    Raises:
        InputError: it is in none of these and cannot be downloaded, or its SHA-256 is not the card's.
    """
    shared = Path(os.environ.get("INSTRUCT_SHARED_DATA") or Path("..", "shared", "data"))
    found = {}
    for name, file in (card.files or {"": str(card.file)}).items():
        cached = cache_folder() / "human" / file
        places = (card._folder / file, shared / file, cached)
        path = next((place for place in places if place.is_file()), None)
        remedy = f"put it at {cached}, or set INSTRUCT_SHARED_DATA to a folder with {file}"
        if path is None and card.url is None:
            raise InputError(f"human set {card.name}: its file {file} was not found; {remedy}")
        if path is None:
            _download(card, str(card.url), cached, f"{remedy} (SHA-256 {card.sha256})")
        elif card.sha256 not in (None, sha256_of(path)):
            raise InputError(
                f"{path}: is not the file of the set {card.name} (its SHA-256 is not {card.sha256}); "
                f"replace it with {card.url or 'that file'}"
            )
        found[name] = path or cached
    return found


def read_rows(card: HumanSetCard, files: dict[str, Path]) -> list[RawRow]:
    """The set's rows: those of its only file, or the rows of several files side by side.

    Raises:
        InputError: an unreadable file, or files that do not belong together.
    """
    if card.files is None:
        return list(read_file(files[""]))
    read: dict[str, list[RawRow]] = {}
    for name, path in files.items():
        if path.suffix.lower() != ".txt":
            read[name] = list(read_file(path))
            continue
        try:  # of a text file the lines, in a column without a name
            lines = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            raise InputError(f"{path}: is not UTF-8 text; save the file as UTF-8") from None
        read[name] = [RawRow(str(path), number, {"": line}) for number, line in enumerate(lines, start=1)]
    (first, rows), *others = read.items()
    for name, other in others:
        if len(other) != len(rows):
            raise InputError(
                f"human set {card.name}: {files[name]} has {len(other)} rows, but {files[first]} has {len(rows)}; give "
                "files whose rows belong together"
            )
    joined = []
    for together in zip(*read.values(), strict=True):
        keyed = [row for row in together if card.key in row.fields]
        for row in keyed[1:]:
            if row.fields[card.key] != keyed[0].fields[card.key]:
                one_key, other_key = (one_line(repr(each.fields[card.key]), 40) for each in (row, keyed[0]))
                raise InputError(
                    f"{row.place}: {card.key}: {one_key} is not that of {keyed[0].place} ({other_key}); give files "
                    "whose rows belong together"
                )
        fields = {
            f"{name}.{column}" if column else name: value
            for name, row in zip(read, together, strict=True)
            for column, value in row.fields.items()
        }
        joined.append(RawRow(together[0].origin, together[0].row, fields))
    return joined


def _download(card: HumanSetCard, url: str, path: Path, remedy: str) -> None:
    warn(f"downloading {url} ({card.licence})")
    try:
        with urllib.request.urlopen(url, timeout=60) as reply:
            content = reply.read()
        if hashlib.sha256(content).hexdigest() != card.sha256:
            raise InputError(f"human set {card.name}: {url} is not the card's file (other SHA-256); {remedy}")
        write_atomically(path, content)
    except OSError as error:  # urllib's errors are OSErrors too
        raise InputError(
            f"human set {card.name}: its file was not found and {url} could not be downloaded "
            f"({one_line(error, 120)}); {remedy}"
        ) from None


def _usual_columns(row: RawRow) -> tuple[Columns, dict[str, str]]:
    """The columns of a pair by their usual names, and what the values of the label columns mean."""
    (instruction,) = _one_of(row, "the instruction", [(name,) for name in _INSTRUCTIONS])
    answers = _one_of(row, "the two answers", list(_ANSWERS))
    annotators = sorted(
        (field for field in row.fields if re.fullmatch(r"annotator\d+", field)),
        key=lambda field: int(field.removeprefix("annotator")),
    )
    if "winner" in row.fields and not annotators and "label" not in row.fields:
        annotators = ["winner"]
    if ("label" in row.fields) == bool(annotators):
        problem = "has both label and annotator1 …" if annotators else "has no column for the labels"
        raise InputError(
            f"{row.place}: {problem} (columns: {row.columns}); give either 'label' or 'annotator1', 'annotator2', …"
        )
    numbers: dict[str, str] = {}
    if annotators == ["winner"]:
        numbers = _ARENA
    elif annotators and answers == ("response1", "response2"):
        numbers = _PANDALM
    elif not annotators and (instruction, answers) == ("prompt", ("response 1", "response 2")):
        numbers = _AUTOJ
    columns = Columns(
        instruction=instruction,
        input="input",
        first=answers[0],
        second=answers[1],
        label=annotators or "label",
        group=next((field for field in _GROUPS if field in row.fields), None),
    )
    return columns, _WORDS | numbers


def _one_of(row: RawRow, what: str, known: list[tuple[str, ...]]) -> tuple[str, ...]:
    present = [names for names in known if set(names) <= set(row.fields)]
    if len(present) == 1:
        return present[0]
    problem = "has several columns for" if present else "has no column for"
    choice = ", or ".join(" and ".join(map(repr, names)) for names in known)
    raise InputError(f"{row.place}: {problem} {what} (columns: {row.columns}); give exactly one of: {choice}")


def _pair(
    row: RawRow, columns: Columns, words: Mapping[str, str], by_card: bool, group_of: Mapping[str, str]
) -> HumanPair:
    asked = {"instruction": _text(row, columns.instruction), "input": ""}
    if columns.input and row.fields.get(columns.input) is not None:
        asked["input"] = _text(row, columns.input)
    group = _text(row, columns.group) if columns.group else None
    if group_of and group not in group_of:
        raise InputError(f"{row.place}: {one_line(group, 60)!r} is in none of the card's groups; add it to one")
    return HumanPair(
        prompt=read_prompt(replace(row, fields=row.fields | asked), ""),
        first=_text(row, columns.first),
        second=_text(row, columns.second),
        labels=tuple(_label(row, name, words, by_card) for name in columns.labels),
        group=group_of.get(str(group), group),
    )


def _text(row: RawRow, field: str) -> str:
    if field not in row.fields:
        raise InputError(f"{row.place}: has no {field!r}, unlike the first row; give every row the same fields")
    value = row.fields[field]
    # An answer "True" may have been saved as a truth value.
    return str(value) if isinstance(value, bool) else text_field(row, field)


def _label(row: RawRow, field: str, words: Mapping[str, str], by_card: bool) -> str | None:
    """A label, in small or capital letters; if a card says what all values mean, exactly as it has them.

    None: the cell is empty.
    """
    value = row.fields.get(field)
    word = str(value).strip() if isinstance(value, str | int) and not isinstance(value, bool) else ""
    if label := words.get(word if by_card else word.lower()):
        return label
    if value is None or (isinstance(value, str) and not word) or (isinstance(value, float) and math.isnan(value)):
        return None
    cell = f"{row.place}: {field}: {one_line(repr(value), 60)}"
    if by_card:
        known = ", ".join(one_line(name, 40) for name in words)
        raise InputError(f"{cell} is not one of the card's labels ({known}); add it to the card, or leave it empty")
    if word.isdigit() and words == _WORDS:
        raise InputError(
            f"{cell} is a number, which PandaLM and Auto-J read differently; write first, second or tie, or say in a "
            "card what the numbers mean (numbers are read only with PandaLM's columns response1, response2, annotator1 "
            "… or Auto-J's prompt, response 1, response 2, label)"
        )
    raise InputError(f"{cell} is not a label; write one of {', '.join(words)}, or leave it empty")
