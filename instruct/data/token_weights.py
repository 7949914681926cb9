"""Weights of tokens, kept in their labels, so that whatever moves, cuts, packs or pads labels does so to the weights.

A label with a weight is the token's id with, above its 32 bits, those of the weight as a float32, of which those of 1
are inverted: a label of weight 1 is the id itself. -100 stays what it is, a token without loss.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from instruct.data.formats import MOST_WEIGHT, is_weight

if TYPE_CHECKING:
    from torch import Tensor

# Where tokens with a loss begin and end, and their weight.
Span = tuple[int, int, float]
_ONE = 0x3F800000
_IDS = 0xFFFFFFFF
# Weights that are listed one by one.
_LISTED = 6
_SHOWN = ("least", "most", "mean")


def check_prompt_weight(weight: Any, train_on: str) -> None:
    """Refuse a `prompt_loss_weight` that is none, or that says something else than `train_on`.

    Raises:
        ValueError: the message begins with the option.
    """
    if weight is not None and not is_weight(weight):
        raise ValueError(f"prompt_loss_weight is {weight!r}; it must be a number from 0 to {MOST_WEIGHT:,}")
    if weight and train_on == "all_tokens":
        raise ValueError("prompt_loss_weight: train_on all_tokens trains prompts as answers; drop one of them")


def float32(weight: float) -> float:
    """The weight as it is kept."""
    (kept,) = struct.unpack("<f", struct.pack("<f", weight))
    return float(kept)


def weighted_labels(input_ids: list[int], spans: Iterable[Span]) -> list[int]:
    """As long as `input_ids`: the labels with their weights, -100 outside of the spans."""
    labels = [-100] * len(input_ids)
    for begin, end, weight in spans:
        (bits,) = struct.unpack("<I", struct.pack("<f", weight))
        above = (bits ^ _ONE) << 32
        tokens = input_ids[begin:end]
        labels[begin:end] = [token | above for token in tokens] if above else tokens
    return labels


def split_labels(labels: Tensor) -> tuple[Tensor, Tensor]:
    """Labels without their weights, and the weights, float32, of the same shape; 1 where there is no loss."""
    import torch

    labels = labels.long()
    has_loss = labels >= 0
    bits = torch.where(has_loss, (labels >> 32) ^ _ONE, _ONE)
    return torch.where(has_loss, labels & _IDS, labels), bits.to(torch.int32).view(torch.float32)


def count_weights(tokens: int, spans: Iterable[Span]) -> Counter[float]:
    """How many of a row's first `tokens` have each weight."""
    counts: Counter[float] = Counter()
    for begin, end, weight in spans:
        if begin < tokens:
            counts[float32(weight)] += min(end, tokens) - begin
    return counts


def weights_record(counts: Mapping[float, int]) -> dict[str, Any]:
    """The weights of a data set's tokens as a step's results; empty if all are 1."""
    if not set(counts) - {1.0}:
        return {}
    tokens = sum(counts.values())
    mean = sum(weight * count for weight, count in counts.items()) / tokens
    record: dict[str, Any] = {"tokens": tokens}
    # Six digits: those of a float32 would look odd.
    record |= {
        name: float(f"{value:.6g}") for name, value in zip(_SHOWN, (min(counts), max(counts), mean), strict=True)
    }
    if len(counts) <= _LISTED:
        record["by_weight"] = {f"{weight:.6g}": counts[weight] for weight in sorted(counts)}
    return record


def weights_line(record: Mapping[str, Any]) -> str:
    """`weights_record` in words."""
    if "by_weight" in record:
        return ", ".join(f"{count:,} tokens of weight {weight}" for weight, count in record["by_weight"].items())
    least, most, mean = (f"{record[name]:.6g}" for name in _SHOWN)
    return f"{record['tokens']:,} tokens of weights from {least} to {most}, on average {mean}"
