"""Several data sets as one, as `datasets.interleave_datasets` draws their rows."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections import Counter
from collections.abc import Mapping, Sequence

from instruct.base.errors import InputError
from instruct.data.options import DataOptions
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
    from datasets import concatenate_datasets, interleave_datasets

    assert options.mixture is not None
    for source, own in zip(options.mixture, encoded, strict=True):
        if not len(own.trainable):
            raise InputError(
                f"data.mixture: {source.label} has no row with a response token; raise train.max_length or remove it"
            )
    rows, weights = [own.rows for own in encoded], [source.weight for source in options.mixture]
    if weights[0] is None:
        trainable = concatenate_datasets([own.trainable for own in encoded])
    else:
        trainable = interleave_datasets(
            [own.trainable for own in encoded],
            probabilities=weights,
            seed=DEFAULT_SEED if options.seed is None else options.seed,
            stopping_strategy=options.stopping_strategy or "first_exhausted",
        )
    notes = [f"{source.label}: {note}" for source, own in zip(options.mixture, rows, strict=True) for note in own.notes]
    identity = [[own.sha256 for own in rows], weights, options.stopping_strategy, options.seed]
    whole = RowSet(
        dataset=concatenate_datasets([own.dataset for own in rows]),
        folder=rows[0].folder,
        counts=_sums([own.counts for own in rows]),
        sha256=hashlib.sha256(json.dumps(identity).encode()).hexdigest(),
        notes=notes,
        format="text" if all(own.plain_text for own in rows) else None,
        turns=_sums([own.turns for own in rows]),
    )
    return EncodedRows(
        rows=whole,
        encoded=concatenate_datasets([own.encoded for own in encoded]),
        trainable=trainable,
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
