"""How varied texts are: distinct n-grams, self-BLEU, repetition within a text, and Zipf's coefficient.

Tokens are words, punctuation marks, and single characters of scripts that do not separate words, so that the figures
do not depend on a model's tokenizer.

- `distinct_n`: different n-grams among all n-grams of all texts (Li et al., A Diversity-Promoting Objective Function
  for Neural Conversation Models, 2016).
- `self_bleu`: the mean BLEU-4 of each text with all others as its references (Zhu et al., Texygen, 2018), smoothed by
  0.1 where an order has no match (method 1 of Chen and Cherry 2014). A text without any match has 0.
- `zipf`: s of frequency ~ rank^-s, the least-squares slope between the logarithms of the 5,000 most frequent words
  (Holtzman et al., The Curious Case of Neural Text Degeneration, 2020). Human English text has about 1.

All of them are between 0 and 1 but for `zipf`, and depend on how many texts there are and how long these are: compare
them at equal numbers only.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from instruct.data.overlap import UNSPACED

NAMES = ("distinct_1", "distinct_2", "distinct_3", "distinct_4", "self_bleu", "zipf")
SELF_BLEU_TEXTS = 1000
ZIPF_WORDS = 5000
_ORDERS = 4
_SMOOTHING = 0.1
_TOKEN = re.compile(rf"[{UNSPACED}]|[^\W{UNSPACED}]+|[^\w\s]")


def tokens(text: str) -> list[str]:
    """The words and punctuation marks of a text."""
    return _TOKEN.findall(text)


def repeated_fraction(text: str, n: int = 4) -> float:
    """seq-rep-n of Welleck et al. 2020 (arXiv 1908.04319): 1 - distinct n-grams / n-grams, from 0 to below 1.

    The paper counts a model's tokens; answers from elsewhere have none, so words and punctuation marks are counted
    instead. A text of fewer than `n` of them repeats nothing.
    """
    words = tokens(text)
    n_grams = len(words) - n + 1
    if n_grams < 1:
        return 0.0
    return 1 - len(set(zip(*(words[start:] for start in range(n)), strict=False))) / n_grams


def diversity(texts: Sequence[Sequence[str]], kept: NDArray[np.bool_] | None = None) -> dict[str, NDArray[np.float64]]:
    """The figures by NAMES, of all texts or of several selections of them.

    Args:
        texts: the tokens of each text.
        kept: which texts are in each selection, shape (selections, texts); None: one selection of all.

    Returns:
        Arrays of shape (selections,); NaN: not defined, without n-grams, or with fewer than two texts or words.
        self_bleu is that of the first 1,000 texts.
    """
    selections = np.ones((1, len(texts)), dtype=bool) if kept is None else kept
    tables = {n: _n_grams(texts, n) for n in range(1, _ORDERS + 1)}
    first = {n: _n_grams(texts[:SELF_BLEU_TEXTS], n) for n in tables} if len(texts) > SELF_BLEU_TEXTS else tables
    lengths = np.array([len(text) for text in texts[:SELF_BLEU_TEXTS]], dtype=int)
    words = _n_grams([[word.lower() for word in text] for text in texts], 1)
    found = {f"distinct_{n}": np.array([_distinct(table, each) for each in selections]) for n, table in tables.items()}
    bleu = [_self_bleu(first, lengths, each[:SELF_BLEU_TEXTS]) for each in selections]
    return found | {"self_bleu": np.array(bleu), "zipf": np.array([_zipf(words, each) for each in selections])}


@dataclass(frozen=True)
class _Grams:
    """The n-grams of one order: `gram` occurs `count` times in `text`, ordered by gram, the largest count first.

    Each is an array with an entry per different n-gram of each text; grams are numbered from 0 to `grams` - 1.
    """

    gram: NDArray[np.intp]
    text: NDArray[np.intp]
    count: NDArray[np.int64]
    grams: int

    def within(self, kept: NDArray[np.bool_]) -> _Grams:
        """Of the texts that are kept."""
        chosen = kept[self.text]
        return _Grams(self.gram[chosen], self.text[chosen], self.count[chosen], self.grams)


def _n_grams(texts: Sequence[Sequence[str]], n: int) -> _Grams:
    numbers: dict[tuple[str, ...], int] = {}
    entries = [
        (numbers.setdefault(gram, len(numbers)), place, count)
        for place, text in enumerate(texts)
        for gram, count in Counter(zip(*(text[start:] for start in range(n)), strict=False)).items()
    ]
    gram, text, count = np.array(entries, dtype=np.int64).reshape(-1, 3).T
    order = np.lexsort((-count, gram))
    return _Grams(gram[order], text[order], count[order], len(numbers))


def _distinct(table: _Grams, kept: NDArray[np.bool_]) -> float:
    own = table.within(kept)
    return len(np.unique(own.gram)) / int(own.count.sum()) if len(own.gram) else np.nan


def _zipf(words: _Grams, kept: NDArray[np.bool_]) -> float:
    own = words.within(kept)
    counts = np.bincount(own.gram, weights=own.count, minlength=words.grams)
    frequencies = np.log(np.sort(counts[counts > 0])[::-1][:ZIPF_WORDS])
    if len(frequencies) < 2:
        return np.nan
    ranks = np.log(np.arange(1, len(frequencies) + 1))
    centered = ranks - ranks.mean()
    return -float(centered @ frequencies / (centered @ centered))


def _self_bleu(tables: dict[int, _Grams], lengths: NDArray[np.int_], kept: NDArray[np.bool_]) -> float:
    if kept.sum() < 2:
        return np.nan
    logarithms, matched_any = np.zeros(len(lengths)), np.zeros(len(lengths), dtype=bool)
    for n, table in tables.items():
        own = table.within(kept)
        matched = np.bincount(own.text, weights=_clipped(own), minlength=len(lengths))
        if n == 1:
            matched_any = matched > 0
        total = np.maximum(1, lengths - n + 1)
        logarithms += np.log(np.where(matched > 0, matched, _SMOOTHING) / total) / len(tables)
    ordered = sorted(lengths[kept].tolist())
    closest = np.array([_closest(ordered, length) if keep else 1 for length, keep in zip(lengths, kept, strict=True)])
    penalties = 1 - np.maximum(1.0, closest / np.maximum(1, lengths))
    return float(np.where(matched_any, np.exp(logarithms + penalties), 0.0)[kept].mean())


def _clipped(own: _Grams) -> NDArray[np.int64]:
    """Each count, but at most the largest one of the same n-gram in another text."""
    if not len(own.gram):
        return own.count
    starts = np.flatnonzero(np.r_[True, own.gram[1:] != own.gram[:-1]])
    sizes = np.diff(np.r_[starts, len(own.gram)])
    second = np.where(sizes > 1, own.count[np.minimum(starts + 1, len(own.gram) - 1)], 0)
    others = np.repeat(own.count[starts], sizes)
    others[starts] = second
    return np.minimum(own.count, others)


def _closest(ordered: Sequence[int], length: int) -> int:
    """The length closest to one of `ordered`, without this one itself; the shorter of two that are equally close."""
    place = bisect_left(ordered, length)
    others = [ordered[other] for other in (place - 1, place + 1) if 0 <= other < len(ordered)]
    return min(others, key=lambda other: (abs(other - length), other))
