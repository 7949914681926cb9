"""Prefixes of human texts and how these go on, to the letter."""

from __future__ import annotations

import bisect
import hashlib
import itertools
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from instruct.base.errors import InputError, one_line
from instruct.data.cards import Cut, DatasetCard, Documents, Unit, check_purpose, parse_length
from instruct.data.formats import to_row, with_cluster, word_field
from instruct.data.rows import RowReader
from instruct.data.sources import RawRow, is_text_file


@dataclass(frozen=True)
class Prefix:
    """The beginning of a text and what follows there.

    Attributes:
        id: different for every prefix of a corpus, and the same whenever the corpus is read.
        text: may begin with white space, but never ends with it if it is cut after words.
        reference: what follows, to the letter; None if the corpus has no length for it.
        place: the file or data set and the row, for error messages.
        cluster: of prefixes that depend on each other, if the corpus names it.
    """

    id: str
    text: str
    reference: str | None
    place: str
    cluster: str = ""


@dataclass(frozen=True)
class PrefixSet:
    """The prefixes of a corpus.

    `counts`: rows `read`, texts `kept` and, by reason, texts left out; of windows, the `windows` too.
    """

    name: str
    prefixes: list[Prefix]
    counts: dict[str, int]
    cut: Cut

    @property
    def sha256(self) -> str:
        """Of the prefixes, their references and ids; independent of the file that they came from."""
        content = [
            [prefix.id, prefix.text, prefix.reference, *filter(None, [prefix.cluster])] for prefix in self.prefixes
        ]
        return hashlib.sha256(json.dumps(content, ensure_ascii=False).encode()).hexdigest()


def load_prefixes(
    card: DatasetCard | None,
    cut: Cut,
    *,
    files: list[str] | None = None,
    documents: Documents | None = None,
    column: str | None = None,
    cluster_column: str | None = None,
    limit: int | None = None,
    tokenizer: Any = None,
) -> PrefixSet:
    """The prefixes of a card's texts, or of `files`.

    Args:
        cut: what is None is as the card says.
        files: .txt, .tokens, .json, .jsonl or .csv, each also compressed (.gz), or .parquet. A table with the columns
            `prefix` and `reference` needs no cut.
        documents: of text files, instead of the card's.
        column: with the texts of a table, instead of the card's (default: `text`).
        cluster_column: in which rows have the same value if they depend on each other (default: `cluster`).
        limit: the first prefixes only.
        tokenizer: for lengths in tokens.

    Raises:
        InputError: no length for a prefix, an unreadable file, a row without text, or no text that can be cut.
    """
    if card is not None:
        check_purpose(card, "continue")
        column = column or card.column
        card = card.model_copy(update={"column": None})
    elif not files:
        raise InputError("continuations: no card and no files; set continuations.card (see `instruct list data`)")
    base = card.cut if card and card.cut else Cut()
    if cut.windows and not base.windows:  # a card's shortest length of a whole text says nothing about windows
        base = base.model_copy(update={"min_characters": None, "min_words": None})
    cut = base.model_copy(update=cut.model_dump(exclude_none=True))
    reader = RowReader(card, files, documents=documents, section="continuations")
    if cut.prefix is None and files and column is None:
        return _already_cut(itertools.islice(reader.raw_rows(), limit), files, cut, cluster_column)
    if cut.prefix is None:
        raise InputError(f"continuations: {_NO_LENGTH}")
    for length in (cut.prefix, cut.continuation):
        if length and parse_length(length)[1] == "tokens" and tokenizer is None:
            raise InputError(
                f"continuations: a length of {length} needs a model on this machine, which knows its tokens; give it "
                "in words"
            )
    counts: Counter[str] = Counter(read=0)
    prefixes: list[Prefix] = []
    rows = (with_cluster(row, cluster_column) for row in reader.raw_rows())
    texts = _texts(rows, cut, column or "text", counts)
    if cut.windows and (listed := list(texts)):  # all as one, whose place is that of the first
        texts = iter([("window", listed[0][1], "\n".join(text for _, _, text, _ in listed), "")])
    for name, place, text, cluster in texts:
        most = None if limit is None else limit - len(prefixes)
        pieces = [*itertools.islice(_pieces(text, cut, tokenizer), most)]
        counts["kept" if pieces else "too short to cut"] += 1
        names = [f"{name}:{number}" for number in range(1, len(pieces) + 1)] if cut.windows else [name]
        prefixes += [Prefix(id, *piece, place, cluster) for id, piece in zip(names, pieces, strict=False)]
        if len(prefixes) == limit:
            break
    corpus = "+".join(_name(file) for file in files) if files else card.name if card else ""
    if cut.windows:
        counts["windows"] = len(prefixes)
    if not prefixes:
        reasons = {
            "blank": "blank",
            "too few characters": f"shorter than {cut.min_characters} characters",
            "too few words": f"shorter than {cut.min_words} words",
            "with the pattern": f"with {cut.without!r}",
            "too short to cut": f"shorter than prefix and continuation ({cut.prefix}, {cut.continuation})",
        }
        left_out = ", ".join(f"{counts[name]:,} {text}" for name, text in reasons.items() if counts[name])
        raise InputError(
            f"{corpus}: no text is left to cut of {counts['read']:,} rows ({left_out}); change continuations' filters"
        )
    return PrefixSet(corpus, prefixes, {name: count for name, count in counts.items() if count}, cut)


_NO_LENGTH = "has no length for prefixes; set continuations.prefix, such as 20 words"


def _already_cut(rows: Iterable[RawRow], files: list[str], cut: Cut, cluster_column: str | None) -> PrefixSet:
    """The rows of a table with the columns `prefix` and `reference`, and an `id` if they have one."""
    prefixes: dict[str, Prefix] = {}
    names: dict[str, str] = {}
    for raw in rows:
        text, reference = (raw.fields.get(name) for name in ("prefix", "reference"))
        if not isinstance(text, str) or not isinstance(reference, str):
            raise InputError(
                f"{raw.place}: continuations: {_NO_LENGTH}, or give rows with the texts `prefix` and `reference`"
            )
        cluster = word_field(with_cluster(raw, cluster_column), "cluster")
        id = word_field(raw, "id") or f"{_unique_name(raw.origin, names)}:{raw.row}"
        if id in prefixes:
            raise InputError(
                f"{raw.place}: id: {one_line(id, 60)!r} is already at {prefixes[id].place}; give each row its own"
            )
        prefixes[id] = Prefix(id, text, reference, raw.place, cluster)
    counts = {"read": len(prefixes), "kept": len(prefixes)}
    return PrefixSet("+".join(map(_name, files)), [*prefixes.values()], counts, cut)


def _texts(rows: Iterator[RawRow], cut: Cut, column: str, counts: Counter[str]) -> Iterator[tuple[str, str, str, str]]:
    """Each text that the filters leave, with an id, its place and its cluster; the others are counted."""
    names: dict[str, str] = {}
    for raw in itertools.islice(rows, cut.rows):
        counts["read"] += 1
        if is_text_file(Path(raw.origin)):
            column = "text"
        if column not in raw.fields:
            raise InputError(f"{raw.place}: no column {column!r} (columns: {raw.columns}); set continuations.column")
        row = to_row(RawRow(raw.origin, raw.row, {"text": raw.fields[column]}), "text", "chat")
        reason, text = None, row["text"] if row else ""
        if row is None:
            reason = "blank"
        elif cut.min_characters and len(text) < cut.min_characters:
            reason = "too few characters"
        elif cut.min_words and len(text.split()) < cut.min_words:
            reason = "too few words"
        elif cut.without and cut.without in text:
            reason = "with the pattern"
        if reason:
            counts[reason] += 1
            continue
        yield f"{_unique_name(raw.origin, names)}:{raw.row}", raw.place, text, word_field(raw, "cluster")


def _pieces(text: str, cut: Cut, tokenizer: Any) -> Iterator[tuple[str, str | None]]:
    """The beginning of a text as a prefix and its reference; with `cut.windows`, one such pair after another."""
    assert cut.prefix is not None
    lengths = [parse_length(length) for length in (cut.prefix, cut.continuation) if length is not None]
    ends: dict[Unit, list[int]] = {}  # of each word or token; a part of a character ends where that does
    for unit in {unit for _, unit in lengths}:
        if unit == "words":
            ends[unit] = [match.end() for match in re.finditer(r"\S+", text)]
        else:
            offsets = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
            ends[unit] = [end for _, end in offsets]
    start = 0
    while True:
        bounds = [start]
        for number, unit in lengths:
            last = bisect.bisect_right(ends[unit], bounds[-1]) + number - 1
            if number and last >= len(ends[unit]):
                return
            bounds.append(ends[unit][last] if number else bounds[-1])
        yield text[start : bounds[1]], text[bounds[1] : bounds[2]] if len(lengths) > 1 else None
        if not cut.windows or bounds[-1] == start:
            return
        start = bounds[-1]


def _unique_name(origin: str, names: dict[str, str]) -> str:
    """A file's name, numbered if another file of `names` has it."""
    if origin not in names:
        name = _name(origin)
        names[origin] = name if name not in names.values() else f"{name}#{len(names) + 1}"
    return names[origin]


def _name(origin: str) -> str:
    """A file's or a data set's name, without its folders."""
    return Path(origin).name
