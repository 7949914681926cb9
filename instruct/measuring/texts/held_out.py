"""Held-out human text, as rows of token ids that a model can read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from instruct.base.errors import InputError
from instruct.data.cards import load_dataset_card
from instruct.data.rows import load_rows
from instruct.engines.forward import ForwardModel, TextRow
from instruct.measuring.texts.options import HeldOutOptions


@dataclass(frozen=True)
class HeldOut:
    """Texts to be predicted.

    Attributes:
        ids: what identifies each text: its file and row, or its prefix.
        prefixes: what is read before each text and not scored; "" if there is nothing.
        texts: what is scored.
        whole: whether each text is a whole document, which an end token ends.
    """

    ids: list[str]
    prefixes: list[str]
    texts: list[str]
    whole: bool

    @property
    def sha256(self) -> str:
        """Of everything that the numbers depend on."""
        return hashlib.sha256(json.dumps([self.prefixes, self.texts, self.whole]).encode()).hexdigest()


def read_held_out(options: HeldOutOptions) -> HeldOut:
    """The texts of a card or of files.

    Raises:
        InputError: as `load_rows`; or the rows are not plain texts.
    """
    card = load_dataset_card(options.card) if options.card else None
    if card and card.purpose == "continue":  # texts, of which its prefixes are cut
        card = card.model_copy(update={"purpose": "train"})
    rows = load_rows(
        card,
        files=options.files,
        limit=options.limit,
        documents=options.documents,
        encoding=options.encoding,
        section="evaluation.texts.held_out",
    )
    name = ", ".join(options.files or []) or str(options.card)
    if not rows.plain_text:
        raise InputError(f"evaluation.texts.held_out: {name} has prompts and answers; give plain texts")
    texts = [row["text"] for row in rows.rows]
    return HeldOut(list(rows.sources), [""] * len(texts), texts, whole=True)


@dataclass(frozen=True)
class Window:
    """A part of a text that fits into a model: `row`'s tokens from its start on belong to the text `place`."""

    place: int
    row: TextRow


def windows(model: ForwardModel, held_out: HeldOut, max_length: int) -> list[Window]:
    """Every token that has one before it, in exactly one window: a text that is too long is read in windows that
    overlap by half, so that a token has at least half a window before it.

    A whole text ends with the end token, as in training.

    Raises:
        InputError: a prefix leaves no room in the model's context, or the tokenizer has no end token.
    """
    limit = min(max_length, model.context)
    rows = model.encode_after(held_out.prefixes, held_out.texts)
    found: list[Window] = []
    for place, row in enumerate(rows):
        ids = list(row.ids)
        if held_out.whole and ids[-1:] != [model.end]:
            ids.append(model.end)
        if row.start >= limit and row.start < len(ids) and not held_out.whole:
            raise InputError(
                f"prefix {held_out.ids[place]!r} has {row.start} tokens, and {limit} are read at a time; shorten the "
                "prefixes or raise evaluation.texts.max_length"
            )
        found += [Window(place, part) for part in _parts(ids, row.start, limit)]
    return found


def _parts(ids: Sequence[int], start: int, limit: int) -> list[TextRow]:
    parts, scored = [], start
    while scored < len(ids):
        begin = 0 if scored < limit else scored - limit // 2
        end = min(len(ids), begin + limit)
        parts.append(TextRow(ids[begin:end], scored - begin))
        scored = end
    return parts
