"""How varied texts are: distinct n-grams, and repetition within a text.

Tokens are words, punctuation marks, and single characters of scripts that do not separate words, so that the figures
do not depend on a model's tokenizer.

`distinct_n`: different n-grams among all n-grams of all texts (Li et al., A Diversity-Promoting Objective Function for
Neural Conversation Models, 2016). It depends on how many texts there are and how long these are: compare at equal
numbers only.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from instruct.data.overlap import UNSPACED

if TYPE_CHECKING:
    from scipy.sparse import csr_array

NAMES = ("distinct_1", "distinct_2", "distinct_3", "distinct_4")
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
        Arrays of shape (selections,); NaN: not defined, without n-grams.
    """
    selections = np.ones((1, len(texts)), dtype=bool) if kept is None else kept
    tables = {name: _n_grams(texts, n) for n, name in enumerate(NAMES, start=1)}
    return {name: np.array([_distinct(table[own]) for own in selections]) for name, table in tables.items()}


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
