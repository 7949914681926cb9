"""Rows read while training, for data sets that do not fit into memory.

A stream has no end: a data set that is read to its end is read again. Rows are shuffled in a buffer, and encoded when
they leave it. The order depends on nothing but the rows, the options and the seed, so that a resumed training skips the
rows that it has seen.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from instruct.data.bad_rows import BadRows
from instruct.data.cards import load_dataset_card
from instruct.data.mixture import DEFAULT_SEED, part_record
from instruct.data.options import DataOptions, SourceOptions
from instruct.data.rows import RowReader, RowSet, stored, stored_features
from instruct.data.tokens import TRAINED, RowEncoder

if TYPE_CHECKING:
    from datasets import IterableDataset

# Rows of each data set that are read before training, for the preview, the plan and the checks.
SAMPLE = 1000
BUFFER = 10_000
# Rows that are encoded together. They are counted then, so a count may be ahead of the training by as many.
_BATCH = 64
_COUNTED = ("read", "kept", "truncated", "empty", "fully_masked")
_END = 2**20
_COLUMNS = {"input_ids": "int32", "labels": "int64"}


class RowStream:
    """The rows of a config, encoded as training reads them.

    Args:
        options: the data sets.
        encoder: how the rows of each are encoded.
    """

    def __init__(self, options: DataOptions, encoder: RowEncoder) -> None:
        self._options = options
        self._encoders = [replace(encoder, counts=Counter(), weights=Counter()) for _ in options.parts]
        self.restart_counts()

    def dataset(self, seed: int) -> IterableDataset:
        """An endless data set with the columns `input_ids` and `labels`, shuffled with `seed`.

        Mixed by weight are chats; the rows that a chat becomes follow each other.
        """
        from datasets import IterableDataset, interleave_datasets

        parts = []
        for source, encoder in zip(self._options.parts, self._encoders, strict=True):
            rows = IterableDataset.from_generator(_endless(source, encoder), features=stored_features())
            shuffled = rows.shuffle(seed=seed, buffer_size=self._options.shuffle_buffer or BUFFER)
            parts.append(encoded_chats(shuffled, encoder, _BATCH))
        chats = parts[0]
        if len(parts) > 1:
            weights = [source.weight for source in self._options.mixture or []]
            mixing_seed = DEFAULT_SEED if self._options.seed is None else self._options.seed
            chats = interleave_datasets(parts, probabilities=weights, seed=mixing_seed)
        return rows_of(chats)

    def restart_counts(self) -> None:
        """Count from here on; a trainer looks at a few rows before it trains."""
        for encoder in self._encoders:
            encoder.counts.clear()
            encoder.weights.clear()
            encoder.bad = BadRows(self._options.on_bad_row, most=1)

    @property
    def counts(self) -> dict[str, int]:
        """The number of rows read, and of those encoded by status, since the last restart."""
        names = (*_COUNTED, "rejected")
        counts = {name: sum(encoder.counts[name] for encoder in self._encoders) for name in names}
        counts["malformed"] = sum(encoder.bad.malformed for encoder in self._encoders if encoder.bad)
        counts["read"] += counts["malformed"]
        return {name: count for name, count in counts.items() if count or name in _COUNTED}

    @property
    def tokens(self) -> int:
        """The tokens of the rows that are trained on, since the last restart."""
        return sum(encoder.counts["tokens"] for encoder in self._encoders)

    @property
    def weights(self) -> Counter[float]:
        """The number of tokens by weight, since the last restart."""
        return sum((encoder.weights for encoder in self._encoders), Counter())

    @property
    def parts(self) -> list[dict[str, Any]]:
        """Of a mixture, what each data set contributed, as `RowSet.parts`."""
        return [
            part_record(
                source,
                {name: encoder.counts[name] for name in _COUNTED},
                drawn=sum(encoder.counts[status] for status in TRAINED),
                tokens=encoder.counts["tokens"],
            )
            for source, encoder in zip(self._options.mixture or [], self._encoders, strict=False)
        ]


def encoded_chats(
    rows: IterableDataset,
    encoder: RowEncoder,
    batch_size: int,
) -> IterableDataset:
    """The chats of stored rows (see `stored`), each with its rows to train on: data sets are mixed by chats.

    Raises:
        InputErrors: while it is read, if a bad row stops or too many rows are bad, see `BadRows`.
    """
    from datasets import Features, List, Value

    # A function in a function: `datasets` copies everything else, and the counts with it.
    def encode(batch: dict[str, list[str]]) -> dict[str, list[Any]]:
        chats = [[row for row in chat if row["status"] in TRAINED] for chat in encoder.chats(batch)]
        if encoder.bad:
            read, ended = encoder.counts["read"] + encoder.bad.malformed, len(batch["row"]) < batch_size
            encoder.bad.check_so_far(read, ended or (encoder.bad.choice is None and read >= SAMPLE))
        return {name: [[row[name] for row in chat] for chat in chats if chat] for name in _COLUMNS}

    return rows.map(
        encode,
        batched=True,
        batch_size=batch_size,
        remove_columns=list(stored_features()),
        features=Features({name: List(List(Value(kind))) for name, kind in _COLUMNS.items()}),
    )


def rows_of(chats: IterableDataset) -> IterableDataset:
    """The rows of `encoded_chats`, with the columns `input_ids` and `labels`."""
    from datasets import Features, List, Value

    return chats.map(
        lambda chat: {name: chat[name][0] for name in _COLUMNS},
        batched=True,
        batch_size=1,
        features=Features({name: List(Value(kind)) for name, kind in _COLUMNS.items()}),
    )


def stream_sha256(options: DataOptions, samples: Sequence[RowSet]) -> str:
    """What identifies a stream: its options, the first rows of each data set, and its local files.

    A file is identified by its size, its beginning and its end, because reading all of it takes too long.
    """
    other = {"eval_files", "eval_limit", "eval_fraction", "eval_samples", "on_bad_row"}
    other |= {"chat_template", "chat_template_kwargs"}  # inputs of their own
    made_from = options.model_dump(mode="json", exclude=other)
    files: list[list[list[int | str]]] = []
    for source in options.parts:
        paths = [Path(file).expanduser() for file in source.files or []]
        if not paths:
            card = load_dataset_card(str(source.card))
            paths = [card.folder / Path(file).expanduser() for file in card.source.files or []]
        files.append([])
        for path in paths:
            size = path.stat().st_size
            with path.open("rb") as file:
                digest = hashlib.sha256(file.read(_END))
                file.seek(max(0, size - _END))
                digest.update(file.read())
            files[-1].append([size, digest.hexdigest()])
    identity = [made_from, [rows.sha256 for rows in samples], files]
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()


def _endless(source: SourceOptions, encoder: RowEncoder) -> Callable[[], Iterator[dict[str, str]]]:
    """A function that yields the rows of a data set as JSON, again and again, each with its place; a row with nothing
    to learn is empty."""
    reading = {**source.reading(), "train_on": encoder.train_on, "streaming": True}

    def read() -> Iterator[dict[str, str]]:
        while True:
            kept = 0
            for raw, row in RowReader(**reading, bad=encoder.bad).rows():
                if kept == source.limit:
                    break
                kept += row is not None
                yield stored(raw, row)

    return read
