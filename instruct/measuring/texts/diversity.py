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
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from instruct.base.errors import counted
from instruct.base.output import progress
from instruct.data.overlap import UNSPACED

if TYPE_CHECKING:
    from scipy.sparse import csr_array

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
    first = {n: table[:SELF_BLEU_TEXTS] for n, table in tables.items()}
    lengths = np.array([len(text) for text in texts[:SELF_BLEU_TEXTS]], dtype=int)
    words = _n_grams([[word.lower() for word in text] for text in texts], 1)
    figures = {f"distinct_{n}": [_distinct(table[own]) for own in selections] for n, table in tables.items()}
    figures["self_bleu"] = []
    with progress(f"self-BLEU of {counted(len(lengths), 'text')}", len(selections)) as done:
        for own in selections:
            figures["self_bleu"].append(_self_bleu(first, lengths, own[:SELF_BLEU_TEXTS]))
            done(1)
    figures["zipf"] = [_zipf(words[own]) for own in selections]
    return {name: np.array(values) for name, values in figures.items()}


def _n_grams(texts: Sequence[Sequence[str]], n: int) -> csr_array:
    """How often each text (a row) has each different n-gram of all texts (a column)."""
    from scipy.sparse import csr_array  # reports count repeated n-grams without it

    numbers: dict[tuple[str, ...], int] = {}
    entries = [
        (place, numbers.setdefault(gram, len(numbers)), count)
        for place, text in enumerate(texts)
        for gram, count in Counter(zip(*(text[start:] for start in range(n)), strict=False)).items()
    ]
    rows, columns, counts = np.array(entries, dtype=np.int64).reshape(-1, 3).T
    return csr_array((counts, (rows, columns)), shape=(len(texts), len(numbers)))


def _distinct(counts: csr_array) -> float:
    return len(np.unique(counts.indices)) / int(counts.sum()) if counts.nnz else np.nan


def _zipf(counts: csr_array) -> float:
    totals = counts.sum(axis=0)
    frequencies = np.log(np.sort(totals[totals > 0])[::-1][:ZIPF_WORDS])
    if len(frequencies) < 2:
        return np.nan
    ranks = np.log(np.arange(1, len(frequencies) + 1))
    centered = ranks - ranks.mean()
    return -float(centered @ frequencies / (centered @ centered))


def _self_bleu(tables: dict[int, csr_array], lengths: NDArray[np.int_], kept: NDArray[np.bool_]) -> float:
    lengths = lengths[kept]
    if len(lengths) < 2:
        return np.nan
    matches = {n: _matched(table[kept]) for n, table in tables.items()}
    logarithms = np.zeros(len(lengths))
    for n, matched in matches.items():
        logarithms += np.log(np.where(matched > 0, matched, _SMOOTHING) / np.maximum(1, lengths - n + 1)) / len(tables)
    ordered = sorted(lengths.tolist())
    closest = np.array([_closest(ordered, length) for length in lengths])
    penalties = 1 - np.maximum(1.0, closest / np.maximum(1, lengths))
    return float(np.where(matches[1] > 0, np.exp(logarithms + penalties), 0.0).mean())


def _matched(counts: csr_array) -> NDArray[np.int64]:
    """Of each text, the n-grams that other texts have, each at most as often as the one that has it most often."""
    own = counts.tocoo()
    order = np.lexsort((-own.data, own.col))  # by n-gram, the largest count first
    gram, text, count = own.col[order], own.row[order], own.data[order]
    starts = np.flatnonzero(np.diff(gram, prepend=-1))
    sizes = np.diff(starts, append=len(gram))
    most = np.repeat(count[starts], sizes)
    most[starts] = np.where(sizes > 1, count[np.minimum(starts + 1, len(gram) - 1)], 0)
    return np.bincount(text, weights=np.minimum(count, most), minlength=counts.shape[0])


def _closest(ordered: Sequence[int], length: int) -> int:
    """The length closest to one of `ordered`, without this one itself; the shorter of two that are equally close."""
    place = bisect_left(ordered, length)
    others = [ordered[other] for other in (place - 1, place + 1) if 0 <= other < len(ordered)]
    return min(others, key=lambda other: (abs(other - length), other))
