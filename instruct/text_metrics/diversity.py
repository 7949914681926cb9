"""How varied texts are: distinct n-grams, self-BLEU, repetition within a text, and Zipf's coefficient.

Tokens are words, punctuation marks, and single characters of scripts that do not separate words, so that the figures
do not depend on a model's tokenizer.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence

import numpy as np

from instruct.data.overlap import UNSPACED

ZIPF_WORDS = 5000
SELF_BLEU_TEXTS = 1000
_ORDERS = 4
_SMOOTHING = 0.1
_TOKEN = re.compile(rf"[{UNSPACED}]|[^\W{UNSPACED}]+|[^\w\s]")

Tokens = list[str]


def tokens(text: str) -> Tokens:
    """The words and punctuation marks of a text."""
    return _TOKEN.findall(text)


def repeated_fraction(text: str, n: int = 4) -> float:
    """seq-rep-n of Welleck et al. 2020 (arXiv 1908.04319): 1 - distinct n-grams / n-grams, from 0 to below 1.

    The paper counts a model's tokens; answers from elsewhere have none, so words and punctuation marks are counted
    instead. A text of fewer than `n` of them repeats nothing.
    """
    grams = _n_grams(tokens(text), n)
    return 1 - len(set(grams)) / len(grams) if grams else 0.0


def distinct(texts: Sequence[Tokens], n: int) -> float | None:
    """distinct-n: different n-grams among all n-grams of all texts, 0 to 1; None without any.

    It falls with the number of tokens, so compare systems with the same number only.

    Source: Li et al., A Diversity-Promoting Objective Function for Neural Conversation Models (2016).
    """
    grams = [gram for text in texts for gram in _n_grams(text, n)]
    return len(set(grams)) / len(grams) if grams else None


def zipf_coefficient(texts: Sequence[Tokens]) -> float | None:
    """s of frequency ~ rank^-s: the least-squares slope between the logarithms of the 5,000 most frequent words.

    Human English text has about 1. None with fewer than two different words.

    Source: Holtzman et al., The Curious Case of Neural Text Degeneration (2020).
    """
    counts = Counter(token.lower() for text in texts for token in text)
    frequencies = np.log([count for _, count in counts.most_common(ZIPF_WORDS)])
    if len(frequencies) < 2:
        return None
    ranks = np.log(np.arange(1, len(frequencies) + 1))
    centered = ranks - ranks.mean()
    return -float(centered @ frequencies / (centered @ centered))


def self_bleu(texts: Sequence[Tokens]) -> float | None:
    """The mean BLEU-4 of each text with all others as its references, 0 to 1; lower is more diverse.

    Smoothed by 0.1 where an order has no match (method 1 of Chen and Cherry 2014). A text without tokens scores 0. It
    grows with the number of texts, so compare systems with the same number only. None with fewer than two texts.

    Source: Zhu et al., Texygen (2018); Papineni et al., BLEU (2002).
    """
    if len(texts) < 2:
        return None
    precisions = np.zeros(len(texts))
    empty = np.array([not text for text in texts])
    for n in range(1, _ORDERS + 1):
        counted = [Counter(_n_grams(text, n)) for text in texts]
        most = _two_largest(counted)
        for place, counts in enumerate(counted):
            matched = sum(min(count, most[gram][most[gram][2] == place]) for gram, count in counts.items())
            if n == 1 and not matched:
                empty[place] = True  # BLEU is 0 by definition, whatever the smoothing
            precisions[place] += math.log((matched or _SMOOTHING) / max(1, counts.total())) / _ORDERS
    lengths = sorted(map(len, texts))
    penalties = [1 - max(1.0, _closest(lengths, len(text)) / len(text)) if text else 0.0 for text in texts]
    scores = np.where(empty, 0.0, np.exp(precisions + penalties))
    return float(scores.mean())


def _n_grams(text: Tokens, n: int) -> list[tuple[str, ...]]:
    return list(zip(*(text[start:] for start in range(n)), strict=False))


def _two_largest(counted: Sequence[Counter[tuple[str, ...]]]) -> dict[tuple[str, ...], tuple[int, int, int]]:
    """For each n-gram its largest count in a text, the largest in another text, and the former's place."""
    found: dict[tuple[str, ...], tuple[int, int, int]] = {}
    for place, counts in enumerate(counted):
        for gram, count in counts.items():
            first, second, owner = found.get(gram, (0, 0, -1))
            if count > first:
                found[gram] = count, first, place
            elif count > second:
                found[gram] = first, count, owner
    return found


def _closest(ordered: Sequence[int], length: int) -> int:
    """The length closest to one of `ordered`, without this one itself; the shorter of two that are equally close."""
    place = bisect_left(ordered, length)
    others = [ordered[other] for other in (place - 1, place + 1) if 0 <= other < len(ordered)]
    return min(others, key=lambda other: (abs(other - length), other))
