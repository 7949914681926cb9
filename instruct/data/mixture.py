"""Several data sets as one: which row follows which, and what each data set contributes."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from instruct.base.errors import InputError
from instruct.data.options import DataOptions
from instruct.data.rows import RowSet
from instruct.data.tokens import EncodedRow, EncodedRows

DEFAULT_SEED = 42


def mix(options: DataOptions, rows: Sequence[RowSet], encoded: Sequence[EncodedRows]) -> tuple[RowSet, EncodedRows]:
    """The data sets as one, whose `EncodedRows.trainable` has the rows of an epoch in their order.

    Args:
        rows, encoded: of each data set of `options.mixture`, in order.

    Raises:
        InputError: a data set has no row to train on.
    """
    assert options.mixture is not None
    trainable = [these.trainable for these in encoded]
    for source, own in zip(options.mixture, trainable, strict=True):
        if not own:
            raise InputError(
                f"data.mixture: {source.label} has no row with a response token; raise train.max_length or remove it"
            )
    order = _order(options, trainable)
    drawn: Counter[int] = Counter()
    tokens: Counter[int] = Counter()
    for part, row in order:
        drawn[part] += 1
        tokens[part] += len(trainable[part][row].input_ids)
    parts = [
        {
            "data": source.label,
            "weight": source.weight,
            "read": rows[index].counts["read"],
            **encoded[index].counts,
            "drawn": drawn[index],
            "tokens": tokens[index],
        }
        for index, source in enumerate(options.mixture)
    ]
    weights = [source.weight for source in options.mixture]
    identity = [[own.sha256 for own in rows], weights, options.stopping_strategy, options.seed]
    whole = RowSet(
        rows=[row for own in rows for row in own.rows],
        sources=[source for own in rows for source in own.sources],
        counts={name: sum(own.counts[name] for own in rows) for name in rows[0].counts},
        sha256=hashlib.sha256(json.dumps(identity).encode()).hexdigest(),
        notes=[f"{part['data']}: {note}" for part, own in zip(parts, rows, strict=True) for note in own.notes],
        turns={name: sum(own.turns.get(name, 0) for own in rows) for name in {n for own in rows for n in own.turns}},
        parts=parts,
    )
    together = EncodedRows(
        encoded=[row for these in encoded for row in these.encoded],
        counts={name: sum(these.counts[name] for these in encoded) for name in encoded[0].counts},
        drawn=[trainable[part][row] for part, row in order],
    )
    return whole, together


def _order(options: DataOptions, trainable: Sequence[Sequence[EncodedRow]]) -> list[tuple[int, int]]:
    """The rows of an epoch as (data set, its trainable row)."""
    from datasets import Dataset, concatenate_datasets, interleave_datasets

    sets = [
        Dataset.from_dict({"part": [index] * len(rows), "row": range(len(rows))})
        for index, rows in enumerate(trainable)
    ]
    weights = [source.weight for source in options.mixture or []]
    if weights[0] is None:
        mixed = concatenate_datasets(sets)
    else:
        mixed = interleave_datasets(
            sets,
            probabilities=weights,
            seed=DEFAULT_SEED if options.seed is None else options.seed,
            stopping_strategy=options.stopping_strategy or "first_exhausted",
        )
    return list(zip(mixed["part"], mixed["row"], strict=True))


def part_line(part: Mapping[str, Any]) -> str:
    """What a data set contributes to an epoch: `RowSet.parts` in words."""
    rows = part["kept"] + part["truncated"]
    weight = "" if part["weight"] is None else f"weight {part['weight']:.4g}, "
    times = "" if part["drawn"] == rows else f" ({part['drawn'] / rows:.3g} times its {rows:,} rows)"
    return f"{weight}{part['drawn']:,} rows of an epoch{times}, {part['tokens']:,} tokens"
