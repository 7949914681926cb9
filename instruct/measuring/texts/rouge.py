"""ROUGE-1, -2 and -L: how much of a human continuation's wording a system's continuation shares.

Lin, ROUGE: A Package for Automatic Evaluation of Summaries (2004), with the tokens of Google's `rouge-score`, without
stemming, as in the code of the EMO paper: lower-case runs of a-z and 0-9. Other scripts therefore have no tokens.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

NAMES = ("rouge1", "rouge2", "rougeL")
_TOKEN = re.compile("[a-z0-9]+")


def rouge(reference: str, text: str) -> dict[str, float]:
    """The F1 scores by NAMES, 0 to 1: the harmonic mean of precision and recall; 0 if either text has no tokens."""
    human, own = (_TOKEN.findall(string.lower()) for string in (reference, text))
    return {
        "rouge1": _n_gram_f1(human, own, 1),
        "rouge2": _n_gram_f1(human, own, 2),
        "rougeL": _f1(_longest_common(human, own), len(human), len(own)),
    }


def has_tokens(text: str) -> bool:
    """Whether ROUGE sees anything of a text."""
    return _TOKEN.search(text.lower()) is not None


def _n_gram_f1(human: Sequence[str], own: Sequence[str], n: int) -> float:
    first, second = (Counter(zip(*(tokens[i:] for i in range(n)), strict=False)) for tokens in (human, own))
    return _f1((first & second).total(), first.total(), second.total())


def _f1(common: int, human: int, own: int) -> float:
    if not common:
        return 0.0
    precision, recall = common / own, common / human
    return 2 * precision * recall / (precision + recall)


def _longest_common(first: Sequence[str], second: Sequence[str]) -> int:
    """The length of the longest common subsequence, with one bit per token of `first`.

    Source: Hyyrö, Bit-parallel LCS-length computation revisited (2004).
    """
    places: dict[str, int] = {}
    for index, token in enumerate(first):
        places[token] = places.get(token, 0) | 1 << index
    whole = (1 << len(first)) - 1
    unmatched = whole
    for token in second:
        matches = unmatched & places.get(token, 0)
        unmatched = (unmatched + matches | unmatched - matches) & whole
    return len(first) - unmatched.bit_count()
