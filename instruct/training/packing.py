"""Packing plain text into blocks of `max_length` tokens, as TRL does it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from instruct.data.arrow import numbers

if TYPE_CHECKING:
    from datasets import Dataset

# Plain text is packed unless `train.packing` is false. Of TRL's strategies, `bfd` (its default) cuts the end off a text
# that is longer than a block, `bfd_split` splits it, and `wrapped` fills each block without regard to where texts end.
DEFAULTS = {"packing": True, "packing_strategy": "bfd_split"}


def splits_texts(train: Mapping[str, Any]) -> bool:
    """Whether a text that is longer than `max_length` is split, not cut, with these arguments of SFTConfig."""
    arguments = {**DEFAULTS, **train}
    return bool(arguments["packing"]) and arguments["packing_strategy"] != "bfd"


@dataclass(frozen=True)
class Blocks:
    """How texts fill blocks.

    Attributes:
        blocks: their number.
        tokens: in all blocks.
        length: that a block can have.
        split: texts that are longer than a block.
        parts: the texts, or parts of texts, of each block as token ids. TRL's `wrapped` strategy records no boundaries;
            then a part ends at an end token.
    """

    blocks: int
    tokens: int
    length: int
    split: int
    parts: list[list[list[int]]]


def packed_blocks(dataset: Any, texts: Dataset, length: int, end: int) -> Blocks:
    """The blocks of a training set that TRL has packed.

    Args:
        dataset: the trainer's, with `input_ids` and, unless it is wrapped, `seq_lengths`.
        texts: before packing, with their number of `tokens`.
        end: the id of the end token.
    """
    blocks = list(dataset["input_ids"])
    if "seq_lengths" in dataset.column_names:
        parts = [_split(ids, lengths) for ids, lengths in zip(blocks, dataset["seq_lengths"], strict=True)]
    else:
        parts = [_split(ids, _lengths_to(ids, end)) for ids in blocks]
    split = int((numbers(texts, "tokens") > length).sum())
    return Blocks(len(blocks), sum(map(len, blocks)), length, split, parts)


def _split(ids: list[int], lengths: list[int]) -> list[list[int]]:
    return [ids[begin:end] for begin, end in itertools.pairwise([0, *itertools.accumulate(lengths)])]


def _lengths_to(ids: list[int], end: int) -> list[int]:
    ends = [index + 1 for index, token in enumerate(ids) if token == end]
    bounds = [0, *ends, *([len(ids)] if not ends or ends[-1] < len(ids) else [])]
    return [after - before for before, after in itertools.pairwise(bounds)]
