"""Pairs of answers that people have compared: sets known by name, and any file of such pairs."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import sys
import urllib.request
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from instruct.cards import list_cards, nearest, read_yaml, validated
from instruct.data.sources import RawRow, read_file
from instruct.errors import InputError, one_line
from instruct.models import cache_folder

FILE_TYPES = (".json", ".jsonl", ".csv")
LABELS = ("first", "second", "tie")

_INSTRUCTIONS = ("instruction", "prompt")
_ANSWERS = (("response1", "response2"), ("response 1", "response 2"), ("output_1", "output_2"), ("first", "second"))
_GROUPS = ("group", "scenario", "cmp_key")
# What the authors' numbers mean; in no other file does a number mean anything.
_PANDALM = {"0": "tie", "1": "first", "2": "second"}
_AUTOJ = {"0": "first", "1": "second", "2": "tie"}


@dataclass(frozen=True)
class HumanPair:
    """Two answers to one instruction and what each annotator said: `first`, `second` or `tie`.

    `index` is the pair's place in its set, from 0.
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
        """The label that most annotators gave; where several have as many votes, the one given first.

        That is the rule of WeOpenML/PandaLM's compute_metrics.py; its set holds no such pair.
        """
        return Counter(self.labels).most_common(1)[0][0]

    @property
    def split(self) -> bool:
        """Whether no label has more votes than every other."""
        votes = [count for _, count in Counter(self.labels).most_common(2)]
        return len(votes) == 2 and votes[0] == votes[1]


@dataclass(frozen=True)
class HumanSet:
    """A set of human-labelled pairs, and the file that it was read from.

    `annotators` are the labels' columns; `groups` the order in which a table names them, where the set's card has one.
    """

    name: str
    pairs: list[HumanPair]
    annotators: tuple[str, ...]
    path: Path
    sha256: str
    licence: str | None = None
    citation: str | None = None
    groups: tuple[str, ...] = ()


class HumanSetCard(BaseModel):
    """What `data/human/NAME.yaml` says of a set whose file is not part of this project.

    `file` is where it lies under the folder of real data, `groups` gathers the values of the rows' group.
    """

    model_config = ConfigDict(extra="forbid")

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
    """The set of that name, or the pairs in the file of that name (.json, .jsonl or .csv).

    Raises:
        InputError: no such set or file, another file than the set's own, or a row that is no labelled pair.
    """
    if Path(against).suffix.lower() in FILE_TYPES:
        path = Path(against).expanduser()
        return _read_set(path.stem, path)
    card = load_human_set_card(against)
    path = find_file(card)
    found = _read_set(card.name, path)
    if len(found.pairs) != card.rows:
        raise InputError(f"{path}: has {len(found.pairs)} pairs, not the {card.rows} of {card.name}; mend the card")
    pairs = _grouped(found.pairs, card) if card.groups else found.pairs
    return HumanSet(
        card.name, pairs, found.annotators, path, found.sha256, card.licence, card.citation, tuple(card.groups or ())
    )


def load_human_set_card(name: str) -> HumanSetCard:
    """The card of a set.

    Raises:
        InputError: there is none of that name.
    """
    cards = {card.name: card.path for card in list_cards("data/human")}
    if name not in cards:
        raise InputError(
            f"no set of human labels is called {one_line(name, 80)!r}{nearest(name, cards)}; "
            f"name one of these or a {', '.join(FILE_TYPES)} file of labelled pairs"
        )
    return validated(HumanSetCard, read_yaml(cards[name]), cards[name])


def find_file(card: HumanSetCard) -> Path:
    """The set's file: in $INSTRUCT_SHARED_DATA, in ../shared/data, in the cache, or fetched into it.

    Raises:
        InputError: it is nowhere and cannot be fetched, or its SHA-256 is not the card's.
    """
    cached = cache_folder() / "human" / card.file
    given = os.environ.get("INSTRUCT_SHARED_DATA")
    for path in (Path(given or Path("..", "shared", "data")) / card.file, cached):
        if path.is_file():
            if hashlib.sha256(path.read_bytes()).hexdigest() != card.sha256:
                raise InputError(
                    f"{path}: is not the file of the set {card.name} (its SHA-256 is not {card.sha256}); "
                    f"replace it by {card.url}"
                )
            return path
    _download(card, cached)
    return cached


def _download(card: HumanSetCard, path: Path) -> None:
    print(f"fetching {card.url} ({card.licence})", file=sys.stderr)
    where = f"put it at {path}, or set INSTRUCT_SHARED_DATA to a folder that holds {card.file} (SHA-256 {card.sha256})"
    making = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with urllib.request.urlopen(card.url, timeout=60) as reply:
            content = reply.read()
        if hashlib.sha256(content).hexdigest() != card.sha256:
            raise InputError(f"human set {card.name}: {card.url} gives another file than the card's; {where}")
        path.parent.mkdir(parents=True, exist_ok=True)
        making.write_bytes(content)
        os.replace(making, path)
    except OSError as error:  # urllib's errors are OSErrors too
        raise InputError(
            f"human set {card.name}: its file is not here and {card.url} does not give it "
            f"({one_line(error, 120)}); {where}"
        ) from None
    finally:
        with contextlib.suppress(OSError):
            making.unlink(missing_ok=True)


def _grouped(pairs: list[HumanPair], card: HumanSetCard) -> list[HumanPair]:
    group_of = {value: group for group, values in (card.groups or {}).items() for value in values}
    unknown = next((pair for pair in pairs if pair.group not in group_of), None)
    if unknown:
        raise InputError(
            f"human set {card.name}, pair {unknown.index}: {one_line(unknown.group, 60)!r} is in none of the card's "
            "groups; add it to one"
        )
    return [HumanPair(**{**vars(pair), "group": group_of[str(pair.group)]}) for pair in pairs]


@dataclass(frozen=True)
class _Columns:
    """The names under which a file has what makes a pair, and what its numbers mean."""

    instruction: str
    answers: tuple[str, str]
    labels: tuple[str, ...]
    numbers: dict[str, str]
    group: str | None


def _read_set(name: str, path: Path) -> HumanSet:
    rows = list(read_file(path))
    columns = _columns(rows[0])
    pairs = [_pair(index, row, columns) for index, row in enumerate(rows)]
    return HumanSet(name, pairs, columns.labels, path, hashlib.sha256(path.read_bytes()).hexdigest())


def _columns(row: RawRow) -> _Columns:
    present = ", ".join(one_line(field, 40) for field in row.fields)
    (instruction,) = _one_of(row, "the instruction", [(name,) for name in _INSTRUCTIONS])
    answers = _one_of(row, "the two answers", list(_ANSWERS))
    annotators = sorted((field for field in row.fields if re.fullmatch(r"annotator\d+", field)), key=_number)
    if ("label" in row.fields) == bool(annotators):
        raise InputError(
            f"{row.place}: {'has both label and annotator1 …' if annotators else 'has no column for the labels'} "
            f"(columns: {present}); give either 'label' or 'annotator1', 'annotator2', …"
        )
    labels = tuple(annotators) or ("label",)
    numbers: dict[str, str] = {}
    if annotators and answers == ("response1", "response2"):
        numbers = _PANDALM
    elif not annotators and (instruction, answers) == ("prompt", ("response 1", "response 2")):
        numbers = _AUTOJ
    group = next((field for field in _GROUPS if field in row.fields), None)
    return _Columns(instruction, answers, labels, numbers, group)


def _one_of(row: RawRow, what: str, known: list[tuple[str, ...]]) -> Any:
    found = [names for names in known if set(names) <= set(row.fields)]
    if len(found) == 1:
        return found[0]
    problem = "has several columns for" if found else "has no column for"
    choice = ", or ".join(" and ".join(map(repr, names)) for names in known)
    present = ", ".join(one_line(field, 40) for field in row.fields)
    raise InputError(f"{row.place}: {problem} {what} (columns: {present}); name exactly one: {choice}")


def _number(field: str) -> int:
    return int(field.removeprefix("annotator"))


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
        raise InputError(f"{row.place}: has no {field!r}, which the first row has; give every row the same fields")
    value = row.fields[field]
    if not isinstance(value, str | bool):  # an answer "True" that a spreadsheet took for its truth value
        raise InputError(f"{row.place}: {field}: is no text (given: {one_line(repr(value), 60)}); write it as a string")
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
            f"{given} is a number, which PandaLM and Auto-J read differently; write first, second or tie "
            "(numbers are read beside PandaLM's columns response1, response2, annotator1 … and Auto-J's prompt, "
            "response 1, response 2, label)"
        )
    known = ", ".join([*LABELS, *numbers])
    raise InputError(f"{given} is no label; write one of {known}, or remove the row")
