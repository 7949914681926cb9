"""Several data sets as one: which row follows which, and what each data set contributes."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from instruct.base.errors import InputError
from instruct.data.arrow import numbers, select
from instruct.data.options import DataOptions, MixedSource
from instruct.data.rows import RowSet
from instruct.data.tokens import EncodedRows

DEFAULT_SEED = 42


def mix(options: DataOptions, encoded: Sequence[EncodedRows]) -> EncodedRows:
    """The data sets as one, whose `trainable` has the rows of an epoch in their order.

    Args:
        encoded: each data set of `options.mixture`, in order.

    Raises:
        InputError: a data set has no row to train on.
    """
    import numpy
    from datasets import Dataset, concatenate_datasets, interleave_datasets

    assert options.mixture is not None
    trainable = concatenate_datasets([own.trainable for own in encoded])
    data_set = numpy.repeat(numpy.arange(len(encoded)), [len(own.trainable) for own in encoded])
    is_new = numpy.diff(numbers(trainable, "chat"), prepend=-1) != 0
    begins = numpy.flatnonzero(is_new | (numpy.diff(data_set, prepend=-1) != 0))
    sizes = numpy.bincount(data_set[begins], minlength=len(encoded)).tolist()
    for source, size in zip(options.mixture, sizes, strict=True):
        if not size:
            raise InputError(
                f"data.mixture: {source.label} has no row with a response token; raise train.max_length or remove it"
            )
    chats = numpy.arange(sum(sizes))  # of an epoch, by their numbers in all data sets put together
    if options.mixture[0].weight is not None:
        ends = itertools.accumulate(sizes)
        mixed = interleave_datasets(
            [Dataset.from_dict({"row": range(end - size, end)}) for size, end in zip(sizes, ends, strict=True)],
            probabilities=[source.weight for source in options.mixture],
            seed=DEFAULT_SEED if options.seed is None else options.seed,
            stopping_strategy=options.stopping_strategy or "first_exhausted",
        )
        chats = numbers(mixed, "row")
    rows_of = numpy.split(numpy.arange(len(trainable)), begins[1:])
    order = numpy.concatenate([rows_of[chat] for chat in chats])
    tokens = numbers(trainable, "tokens")[order]
    parts = []
    for index, (source, own) in enumerate(zip(options.mixture, encoded, strict=True)):
        counts = {"read": own.rows.counts["read"], **own.counts}
        drawn = int((data_set[begins[chats]] == index).sum())
        parts.append(part_record(source, counts, drawn, int(tokens[data_set[order] == index].sum())))
    rows, weights = [own.rows for own in encoded], [source.weight for source in options.mixture]
    notes: list[str] = []
    for part, row_set in zip(parts, rows, strict=True):
        notes += [f"{part['data']}: {note}" for note in row_set.notes]
    identity = [[own.sha256 for own in rows], weights, options.stopping_strategy, options.seed]
    whole = RowSet(
        dataset=concatenate_datasets([own.dataset for own in rows]),
        folder=rows[0].folder,
        counts=_sums([own.counts for own in rows]),
        sha256=hashlib.sha256(json.dumps(identity).encode()).hexdigest(),
        notes=notes,
        format="text" if all(own.plain_text for own in rows) else None,
        turns=_sums([own.turns for own in rows]),
        parts=parts,
    )
    return EncodedRows(
        rows=whole,
        encoded=concatenate_datasets([own.encoded for own in encoded]),
        trainable=select(trainable, order.tolist()),
        counts=_sums([own.counts for own in encoded]),
        facts=_sums([own.facts for own in encoded]),
        bad=list(itertools.chain.from_iterable(own.bad for own in encoded)),
        weights=sum((own.weights for own in encoded), Counter()),
    )


def _sums(counts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    sums: Counter[str] = Counter()
    for own in counts:
        sums.update(own)
    return dict(sums)


def part_record(source: MixedSource, counts: Mapping[str, int], drawn: int, tokens: int) -> dict[str, Any]:
    """What a data set has (its rows `read` and by status) and contributes, one of `RowSet.parts`."""
    return {"data": source.label, "weight": source.weight, **counts, "drawn": drawn, "tokens": tokens}


def part_line(part: Mapping[str, Any]) -> str:
    """What a data set contributes to an epoch: `RowSet.parts` in words."""
    rows = part["kept"] + part["truncated"]
    weight = "" if part["weight"] is None else f"weight {part['weight']:.4g}, "
    times = "" if part["drawn"] == rows else f" ({part['drawn'] / rows:.3g} times its {rows:,} rows)"
    return f"{weight}{part['drawn']:,} rows of an epoch{times}, {part['tokens']:,} tokens"
