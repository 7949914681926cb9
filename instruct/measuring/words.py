"""The words of texts: those that they share with human texts (ROUGE), and how varied they are.

ROUGE-1, -2 and -L: Lin, ROUGE: A Package for Automatic Evaluation of Summaries (2004), with the tokens of Google's
`rouge-score`, without stemming, as in the code of the EMO paper: lower-case runs of a-z and 0-9. Other scripts
therefore have no tokens. Its own package has the same figures, but takes 14 times as long for texts of 150 words and 70
times for 400.

Diversity counts words, punctuation marks, and single characters of scripts that do not separate words, so that the
figures do not depend on a model's tokenizer.
"""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from instruct.data.overlap import UNSPACED
from instruct.data.prompts import identity

ROUGE = ("rouge1", "rouge2", "rougeL")
# More than half of the 4-grams occur earlier in the answer: of 805 published answers, 2 by GPT-4 and 5 by
# text-davinci-003.
REPEATED_ABOVE = 0.5
_ROUGE_TOKEN = re.compile("[a-z0-9]+")
_TOKEN = re.compile(rf"[{UNSPACED}]|[^\W{UNSPACED}]+|[^\w\s]")


def tokens(text: str) -> list[str]:
    """The words and punctuation marks of a text."""
    return _TOKEN.findall(text)


def repeated_fraction(text: str, n: int = 4) -> float:
    """seq-rep-n of Welleck et al. 2020 (arXiv 1908.04319): 1 - distinct n-grams / n-grams, from 0 to below 1.

    The paper counts a model's tokens; answers from elsewhere have none, so words and punctuation marks are counted
    instead. A text of fewer than `n` of them repeats nothing.
    """
    grams = _n_grams(tokens(text), n)
    return 1 - len(set(grams)) / len(grams) if grams else 0.0


def distinct(
    texts: Sequence[Sequence[str]], n: int, groups: NDArray[np.intp]
) -> tuple[float, NDArray[np.float64]] | None:
    """The different n-grams among all n-grams of all texts (Li et al., A Diversity-Promoting Objective Function for
    Neural Conversation Models, 2016), and that without each group of texts (empty: without one there
    are none); None: there are none.

    It depends on how many texts there are and how long these are: compare at equal numbers only.

    Args:
        texts: the `tokens` of each.
        groups: the number of each text's group, from 0.
    """
    counts = np.zeros(groups.max(initial=0) + 1, dtype=np.int64)
    group_of: dict[tuple[str, ...], int] = {}  # of each n-gram; -1: it is in several
    for words, group in zip(texts, groups.tolist(), strict=True):
        grams = _n_grams(words, n)
        counts[group] += len(grams)
        group_of |= {gram: group if group_of.get(gram, group) == group else -1 for gram in grams}
    if not group_of:
        return None
    of_one_group = np.bincount([group for group in group_of.values() if group >= 0], minlength=len(counts))
    others = counts.sum() - counts
    without = (len(group_of) - of_one_group) / others if others.all() else np.array([])
    return len(group_of) / int(counts.sum()), without


def rouge(reference: str, text: str) -> dict[str, float]:
    """The F1 scores by ROUGE, 0 to 1: the harmonic mean of precision and recall; 0 if either text has no tokens."""
    human, own = (_ROUGE_TOKEN.findall(string.lower()) for string in (reference, text))
    scores = {}
    for n in (1, 2):
        first, second = (Counter(_n_grams(words, n)) for words in (human, own))
        scores[f"rouge{n}"] = _f1((first & second).total(), first.total(), second.total())
    return scores | {"rougeL": _f1(_longest_common(human, own), len(human), len(own))}


def has_rouge_tokens(text: str) -> bool:
    """Whether ROUGE sees anything of a text."""
    return _ROUGE_TOKEN.search(text.lower()) is not None


def answers_rouge(answers: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, dict[str, float | None]]:
    """ROUGE-L of each system's answers beside those of `baseline` to the same prompts; None of one that failed."""
    references = {identity(row): row["output"] for row in answers.get("baseline", ())}
    return {
        system: {
            identity(row): None if row.get("failed") else rouge(references[identity(row)], row["output"])["rougeL"]
            for row in rows
            if identity(row) in references
        }
        for system, rows in answers.items()
        if system != "baseline"
    }


def faults_and_lengths(outputs: Sequence[str]) -> dict[str, Any]:
    """The faults and lengths of a system's answers."""
    lengths = [len(output) for output in outputs] or [0]
    return {
        "empty": sum(not output.strip() for output in outputs),
        "repeated": sum(repeated_fraction(output) > REPEATED_ABOVE for output in outputs),
        "mean_characters": round(statistics.fmean(lengths), 6),
        "median_characters": float(statistics.median(lengths)),
    }


def _n_grams(words: Sequence[str], n: int) -> list[tuple[str, ...]]:
    return list(zip(*(words[start:] for start in range(n)), strict=False))


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
