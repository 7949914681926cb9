"""Pairs of answers with human labels: known sets, and files of your own."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from instruct.base.errors import InputError, one_line
from instruct.base.files import sha256_of
from instruct.data.sources import RawRow, read_file
from instruct.validation.human_cards import FILE_TYPES, HumanSetCard, find_files, load_human_card, read_rows

LABELS = ("first", "second", "tie")

_INSTRUCTIONS = ("instruction", "prompt")
_ANSWERS = (("response1", "response2"), ("response 1", "response 2"), ("output_1", "output_2"), ("first", "second"))
_GROUPS = ("group", "scenario", "cmp_key")
# What the authors' numbers mean; in other files a number means nothing.
_PANDALM = {"0": "tie", "1": "first", "2": "second"}
_AUTOJ = {"0": "first", "1": "second", "2": "tie"}


@dataclass(frozen=True)
class HumanPair:
    """Two answers to one instruction and each annotator's label: `first`, `second` or `tie`.

    `index` is the pair's position in its set, from 0. `preference`, if a judge made the label: from 1 (the first
    answer) to 2 (the second).
    """

    index: int
    instruction: str
    input: str
    first: str
    second: str
    labels: tuple[str, ...]
    group: str | None = None
    preference: float | None = None

    @property
    def label(self) -> str:
        """The label with the most votes; of several, the one given first (WeOpenML/PandaLM's compute_metrics.py)."""
        return Counter(self.labels).most_common(1)[0][0]

    @property
    def split(self) -> bool:
        """Whether several labels have the most votes."""
        votes = [count for _, count in Counter(self.labels).most_common(2)]
        return len(votes) == 2 and votes[0] == votes[1]


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


def load_human_set(against: str) -> HumanSet:
    """The known set of that name or card (.yaml), or the pairs in that file (.json, .jsonl or .csv).

    Raises:
        InputError: unknown set, missing file, a file that is not the set's own, or a row that is not a labelled pair.
    """
    if Path(against).suffix.lower() in FILE_TYPES:
        path = Path(against).expanduser()
        rows = list(read_file(path))
        return _set_of(path.stem, rows, _columns(rows[0]), path, sha256_of(path))
    card = load_human_card(against)
    files = find_files(card)
    path = next(iter(files.values()))
    rows = read_rows(card, files)
    if not rows:
        raise InputError(f"{path}: has no rows; give a file with at least one")
    columns = _columns(rows[0]) if card.columns is None else _columns_of(card, rows[0])
    human = _set_of(card.name, rows, columns, path, _sha256_of(card, files))
    if card.rows not in (None, len(human.pairs)):
        raise InputError(f"{path}: has {len(human.pairs)} pairs, but its card says {card.rows}; fix the card")
    if not card.groups:
        return human
    return replace(human, pairs=_grouped(human.pairs, card.name, card.groups), groups=tuple(card.groups))


def _sha256_of(card: HumanSetCard, files: dict[str, Path]) -> str:
    """A file's own hash; with `columns`, one that also changes with what the card reads from the files."""
    hashes = {name: sha256_of(path) for name, path in files.items()}
    if card.columns is None:
        return hashes[""]
    read = [hashes, card.columns.model_dump(), {str(value): label for value, label in (card.labels or {}).items()}]
    return hashlib.sha256(json.dumps(read, sort_keys=True).encode()).hexdigest()


def _grouped(pairs: list[HumanPair], name: str, groups: dict[str, list[str]]) -> list[HumanPair]:
    group_of = {value: group for group, values in groups.items() for value in values}
    unknown = next((pair for pair in pairs if pair.group not in group_of), None)
    if unknown:
        raise InputError(
            f"human set {name}, pair {unknown.index}: {one_line(unknown.group, 60)!r} is in none of the card's groups; "
            "add it to one"
        )
    return [replace(pair, group=group_of[str(pair.group)]) for pair in pairs]


class _Columns(NamedTuple):
    """The columns that make a pair, and what values mean as labels, next to first, second and tie.

    `mapped`: the card says what all values mean, so nothing else is a label.
    """

    instruction: str
    answers: tuple[str, ...]
    labels: tuple[str, ...]
    values: dict[str, str]
    group: str | None
    input: str | None = "input"
    mapped: bool = False


def _set_of(name: str, rows: list[RawRow], columns: _Columns, path: Path, sha256: str) -> HumanSet:
    return HumanSet(name, [_pair(index, row, columns) for index, row in enumerate(rows)], columns.labels, path, sha256)


def _columns_of(card: HumanSetCard, row: RawRow) -> _Columns:
    named = card.columns
    assert named is not None, "by the caller"
    needed = [named.instruction, named.first, named.second, *card.label_columns]
    if missing := [name for name in needed if name not in row.fields]:
        raise InputError(
            f"{row.place}: has no column {missing[0]!r}, which the card {card.name} names (columns: {_present(row)}); "
            "fix the card's columns"
        )
    return _Columns(
        named.instruction,
        (named.first, named.second),
        card.label_columns,
        {str(value): label for value, label in (card.labels or {}).items()},
        named.group,
        named.input,
        mapped=card.labels is not None,
    )


def _columns(row: RawRow) -> _Columns:
    (instruction,) = _one_of(row, "the instruction", [(name,) for name in _INSTRUCTIONS])
    answers = _one_of(row, "the two answers", list(_ANSWERS))
    annotators = [field for field in row.fields if re.fullmatch(r"annotator\d+", field)]
    annotators.sort(key=lambda field: int(field.removeprefix("annotator")))
    if ("label" in row.fields) == bool(annotators):
        problem = "has both label and annotator1 …" if annotators else "has no column for the labels"
        raise InputError(
            f"{row.place}: {problem} (columns: {_present(row)}); give either 'label' or 'annotator1', 'annotator2', …"
        )
    numbers: dict[str, str] = {}
    if annotators and answers == ("response1", "response2"):
        numbers = _PANDALM
    elif not annotators and (instruction, answers) == ("prompt", ("response 1", "response 2")):
        numbers = _AUTOJ
    group = next((field for field in _GROUPS if field in row.fields), None)
    return _Columns(instruction, answers, tuple(annotators) or ("label",), numbers, group)


def _one_of(row: RawRow, what: str, known: list[tuple[str, ...]]) -> tuple[str, ...]:
    present = [names for names in known if set(names) <= set(row.fields)]
    if len(present) == 1:
        return present[0]
    problem = "has several columns for" if present else "has no column for"
    choice = ", or ".join(" and ".join(map(repr, names)) for names in known)
    raise InputError(f"{row.place}: {problem} {what} (columns: {_present(row)}); give exactly one of: {choice}")


def _present(row: RawRow) -> str:
    return ", ".join(one_line(field, 40) for field in row.fields)


def _pair(index: int, row: RawRow, columns: _Columns) -> HumanPair:
    first, second = (_text(row, name) for name in columns.answers)
    return HumanPair(
        index=index,
        instruction=_text(row, columns.instruction),
        input=_text(row, columns.input) if columns.input and row.fields.get(columns.input) is not None else "",
        first=first,
        second=second,
        labels=tuple(_label(row, name, columns) for name in columns.labels),
        group=_text(row, columns.group) if columns.group else None,
    )


def _text(row: RawRow, field: str) -> str:
    if field not in row.fields:
        raise InputError(f"{row.place}: has no {field!r}, unlike the first row; give every row the same fields")
    value = row.fields[field]
    if not isinstance(value, str | bool):  # a bool is an answer "True" that was saved as a truth value
        raise InputError(f"{row.place}: {field}: must be a string (given: {one_line(repr(value), 60)})")
    return str(value)


def _label(row: RawRow, field: str, columns: _Columns) -> str:
    value = row.fields.get(field)
    word = str(value).strip() if isinstance(value, str | int) and not isinstance(value, bool) else ""
    if not columns.mapped:
        word = word.lower()
    label = columns.values.get(word, "" if columns.mapped else word)
    if label in LABELS:
        return label
    cell = f"{row.place}: {field}: {one_line(repr(value), 60)}"
    if columns.mapped:
        known = ", ".join(one_line(name, 40) for name in columns.values)
        raise InputError(f"{cell} is not one of the card's labels ({known}); add it to the card, or remove the row")
    if word.isdigit() and not columns.values:
        raise InputError(
            f"{cell} is a number, which PandaLM and Auto-J read differently; write first, second or tie, or say in a "
            "card what the numbers mean (numbers are read only with PandaLM's columns response1, response2, annotator1 "
            "… or Auto-J's prompt, response 1, response 2, label)"
        )
    raise InputError(f"{cell} is not a label; write one of {', '.join([*LABELS, *columns.values])}, or remove the row")
