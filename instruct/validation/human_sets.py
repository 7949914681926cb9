"""Pairs of answers with human labels: known sets, and files of your own."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import sys
import urllib.request
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from pydantic import Field

from instruct.cards import Options, list_cards, nearest, read_yaml, validated
from instruct.data.sources import RawRow, read_file
from instruct.errors import InputError, one_line
from instruct.models import cache_folder

FILE_TYPES = (".json", ".jsonl", ".csv")
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

    `index` is the pair's position in its set, from 0.
    """

    index: int
    instruction: str
    input: str
    first: str
    second: str
    labels: tuple[str, ...]
    group: str | None = None

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
    """Pairs with human labels and the file they were read from.

    `annotators` are the label columns; `groups` is the order in which tables list the groups, if the card has one.
    """

    name: str
    pairs: list[HumanPair]
    annotators: tuple[str, ...]
    path: Path
    sha256: str
    groups: tuple[str, ...] = ()


class HumanSetCard(Options):
    """`data/human/NAME.yaml`, which describes a set whose file is not part of this project.

    `file` is its path below the folder of real data; `groups` maps each group to the row values it contains.
    """

    name: str
    description: str
    file: str
    url: str
    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    rows: int = Field(ge=1)
    licence: str
    citation: str
    notes: str | None = None
    groups: dict[str, list[str]] | None = None


def load_human_set(against: str) -> HumanSet:
    """The known set of that name, or the pairs in that file (.json, .jsonl or .csv).

    Raises:
        InputError: unknown set, missing file, a file that is not the set's own, or a row that is not a labelled pair.
    """
    if Path(against).suffix.lower() in FILE_TYPES:
        path = Path(against).expanduser()
        return _read_set(path.stem, path)
    cards = {card.name: card.path for card in list_cards("data/human")}
    if against not in cards:
        raise InputError(
            f"unknown set of human labels {one_line(against, 80)!r}{nearest(against, cards)}; "
            f"name one of these or a {', '.join(FILE_TYPES)} file of labelled pairs"
        )
    card = validated(HumanSetCard, read_yaml(cards[against]), cards[against])
    found = _read_set(card.name, find_file(card))
    if len(found.pairs) != card.rows:
        raise InputError(f"{found.path}: has {len(found.pairs)} pairs, but its card says {card.rows}; fix the card")
    if not card.groups:
        return found
    return replace(found, pairs=_grouped(found.pairs, card.name, card.groups), groups=tuple(card.groups))


def find_file(card: HumanSetCard) -> Path:
    """The set's file, from $INSTRUCT_SHARED_DATA (or ../shared/data), the cache, or downloaded into the cache.

    Raises:
        InputError: it is in none of these and cannot be downloaded, or its SHA-256 is not the card's.
    """
    cached = cache_folder() / "human" / card.file
    shared = Path(os.environ.get("INSTRUCT_SHARED_DATA") or Path("..", "shared", "data"))
    for path in (shared / card.file, cached):
        if path.is_file():
            if hashlib.sha256(path.read_bytes()).hexdigest() != card.sha256:
                raise InputError(
                    f"{path}: is not the file of the set {card.name} (its SHA-256 is not {card.sha256}); "
                    f"replace it with {card.url}"
                )
            return path
    _download(card, cached)
    return cached


def _download(card: HumanSetCard, path: Path) -> None:
    print(f"downloading {card.url} ({card.licence})", file=sys.stderr)
    remedy = f"put it at {path}, or set INSTRUCT_SHARED_DATA to a folder with {card.file} (SHA-256 {card.sha256})"
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with urllib.request.urlopen(card.url, timeout=60) as reply:
            content = reply.read()
        if hashlib.sha256(content).hexdigest() != card.sha256:
            raise InputError(f"human set {card.name}: {card.url} is not the card's file (other SHA-256); {remedy}")
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(content)
        os.replace(temporary, path)
    except OSError as error:  # urllib's errors are OSErrors too
        raise InputError(
            f"human set {card.name}: its file was not found and {card.url} could not be downloaded "
            f"({one_line(error, 120)}); {remedy}"
        ) from None
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


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
    """The columns that make a pair, and what numbers mean as labels."""

    instruction: str
    answers: tuple[str, ...]
    labels: tuple[str, ...]
    numbers: dict[str, str]
    group: str | None


def _read_set(name: str, path: Path) -> HumanSet:
    rows = list(read_file(path))
    columns = _columns(rows[0])
    pairs = [_pair(index, row, columns) for index, row in enumerate(rows)]
    return HumanSet(name, pairs, columns.labels, path, hashlib.sha256(path.read_bytes()).hexdigest())


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
    found = [names for names in known if set(names) <= set(row.fields)]
    if len(found) == 1:
        return found[0]
    problem = "has several columns for" if found else "has no column for"
    choice = ", or ".join(" and ".join(map(repr, names)) for names in known)
    raise InputError(f"{row.place}: {problem} {what} (columns: {_present(row)}); give exactly one of: {choice}")


def _present(row: RawRow) -> str:
    return ", ".join(one_line(field, 40) for field in row.fields)


def _pair(index: int, row: RawRow, columns: _Columns) -> HumanPair:
    first, second = (_text(row, name) for name in columns.answers)
    return HumanPair(
        index=index,
        instruction=_text(row, columns.instruction),
        input=_text(row, "input") if row.fields.get("input") is not None else "",
        first=first,
        second=second,
        labels=tuple(_label(row, name, columns.numbers) for name in columns.labels),
        group=_text(row, columns.group) if columns.group else None,
    )


def _text(row: RawRow, field: str) -> str:
    if field not in row.fields:
        raise InputError(f"{row.place}: has no {field!r}, unlike the first row; give every row the same fields")
    value = row.fields[field]
    if not isinstance(value, str | bool):  # a bool is an answer "True" that was saved as a truth value
        raise InputError(f"{row.place}: {field}: must be a string (given: {one_line(repr(value), 60)})")
    return str(value)


def _label(row: RawRow, field: str, numbers: dict[str, str]) -> str:
    value = row.fields.get(field)
    word = str(value).strip().lower() if isinstance(value, str | int) and not isinstance(value, bool) else ""
    label = numbers.get(word, word)
    if label in LABELS:
        return label
    given = f"{row.place}: {field}: {one_line(repr(value), 60)}"
    if word.isdigit() and not numbers:
        raise InputError(
            f"{given} is a number, which PandaLM and Auto-J read differently; write first, second or tie (numbers are "
            "read only with PandaLM's columns response1, response2, annotator1 … or Auto-J's prompt, response 1, "
            "response 2, label)"
        )
    raise InputError(f"{given} is not a label; write one of {', '.join([*LABELS, *numbers])}, or remove the row")
