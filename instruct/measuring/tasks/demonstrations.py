"""Which demonstrations a test row gets, and what they alone say about its label."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from instruct.base.errors import InputError, one_line
from instruct.measuring.tasks.cards import TaskCard
from instruct.measuring.tasks.rows import TaskRow

TFIDF = "tfidf"
# Rows of the similarity matrix at a time: 20 MB with 100,000 training rows.
_AT_ONCE = 50


def choose(
    card: TaskCard, train: Sequence[TaskRow], test: Sequence[TaskRow], shots: int, retriever: str = TFIDF
) -> list[list[TaskRow]]:
    """The demonstrations of each test row: the nearest training rows, nearest first, or the fixed ones.

    Args:
        retriever: `tfidf`, or a sentence encoder for the package sentence-transformers.

    Raises:
        InputError: too few rows to choose from, or an encoder that cannot be loaded.
    """
    train = train[: max(1, round(card.share * len(train)))]
    if shots > len(train):
        raise InputError(f"task {card.name}: has {len(train)} rows for {shots} demonstrations; lower shots")
    if card.demonstrations == "fixed":
        return [_fixed(card, train, row, shots) for row in test]
    if not shots:
        return [[] for _ in test]
    places = nearest_rows(
        [row.fields[card.text] for row in train], [row.fields[card.text] for row in test], shots, retriever
    )
    return [[train[place] for place in row] for row in places]


def _fixed(card: TaskCard, train: Sequence[TaskRow], row: TaskRow, shots: int) -> list[TaskRow]:
    group = card.group
    found = [each for each in train if group is None or each.fields[group] == row.fields[group]][:shots]
    if len(found) < shots:
        raise InputError(
            f"task {card.name}: {row.fields[group] if group else 'the split'} has {len(found)} rows for {shots} "
            "demonstrations; lower shots"
        )
    return found


def nearest_rows(train: Sequence[str], test: Sequence[str], count: int, retriever: str = TFIDF) -> np.ndarray:
    """The places of the `count` most similar training texts of each test text, most similar first: [test, count].

    TF-IDF is over words and pairs of words with logarithmic counts. Of equally similar texts the first is taken.
    """
    known, asked = _vectors(train, test, retriever)
    parts = []
    for start in range(0, len(test), _AT_ONCE):
        similarity = asked[start : start + _AT_ONCE] @ known.T
        dense = np.asarray(similarity.todense() if hasattr(similarity, "todense") else similarity)
        parts += [_largest(row, count) for row in dense]
    return np.stack(parts)


def _largest(values: np.ndarray, count: int) -> np.ndarray:
    """The places of the largest values, the largest first, of equal ones the first."""
    least = np.partition(values, len(values) - count)[len(values) - count]
    places = np.flatnonzero(values >= least)  # few, unless many are equal: sorting them all would take seconds
    return places[np.argsort(-values[places], kind="stable")[:count]]


def _vectors(train: Sequence[str], test: Sequence[str], retriever: str) -> tuple[Any, Any]:
    """Rows of length 1, sparse for TF-IDF."""
    if retriever == TFIDF:
        from sklearn.feature_extraction.text import TfidfVectorizer

        vectorizer = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
        try:
            return vectorizer.fit_transform(train), vectorizer.transform(test)
        except ValueError as error:  # no words at all
            raise InputError(f"retriever tfidf: {one_line(error, 100)}; give texts with words") from None
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError:
        raise InputError(
            f"retriever {retriever}: needs the package sentence-transformers; run `pip install sentence-transformers`, "
            "or set retriever tfidf"
        ) from None
    try:
        encoder = SentenceTransformer(retriever)
    except Exception as error:  # the hub's client raises its own, httpx's and the system's errors
        reason = one_line(error, 140) or type(error).__name__
        raise InputError(f"retriever {retriever}: cannot be loaded ({reason}); give a folder or a hub id") from None
    return tuple(encoder.encode(list(texts), normalize_embeddings=True) for texts in (train, test))


def vote(demonstrations: Sequence[TaskRow]) -> str | None:
    """The label that most demonstrations have; of several, that of the nearest one. None without demonstrations."""
    counts = Counter(row.label for row in demonstrations)
    return counts.most_common(1)[0][0] if counts else None


def in_training(card: TaskCard, train: Sequence[TaskRow], test: Sequence[TaskRow]) -> int:
    """How many test rows are among the training rows, word for word."""

    def words(row: TaskRow) -> tuple[str, ...]:
        return tuple(" ".join(text.split()) for text in row.fields.values())

    known = {words(row) for row in train}
    return sum(words(row) in known for row in test)
