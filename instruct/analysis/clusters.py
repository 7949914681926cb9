"""Rows that depend on each other: which are in one cluster."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Id = TypeVar("Id", bound=Hashable)
# Columns with a text that several rows may ask about.
_PASSAGES = ("passage", "article", "context", "paragraph", "story", "premise")


def repeats(names: Mapping[Id, Any], chosen: bool = False) -> dict[Id, Id]:
    """The cluster of each row or text: the first one with the same name; {}: each is one of its own.

    Args:
        names: by row; one that is empty or blank names no cluster.
        chosen: by a user; otherwise a name that all rows have, such as a prefix, tells none apart.
    """
    firsts: dict[str, Id] = {}
    clusters = {
        row: firsts.setdefault(text, row) if (text := str("" if name is None else name).strip()) else row
        for row, name in names.items()
    }
    count = len(set(clusters.values()))
    return {} if count == len(names) or (count == 1 and not chosen) else clusters


def row_cluster(doc: Mapping[str, Any], question: Any, column: str | None) -> Any:
    """What the rows of a cluster share: the value of the named column, else the passage, else the question."""
    if column is not None:
        return doc.get(column)
    for name in _PASSAGES:
        if isinstance(text := doc.get(name), str) and text.strip():
            return text
    return question if isinstance(question, str) else None


def numbered(rows: Iterable[Any], clusters: Mapping[Any, str] | None = None) -> NDArray[np.intp]:
    """The number of the cluster of each row, from 0, in the order in which they appear; see `cluster_of`."""
    places: dict[Any, int] = {}
    return np.array([places.setdefault(cluster_of(row, clusters), len(places)) for row in rows], dtype=np.intp)


def cluster_of(row: Any, clusters: Mapping[Any, str] | None) -> Any:
    """The cluster of a row; the row itself, if it belongs to none."""
    return row if clusters is None else clusters.get(row, row)
