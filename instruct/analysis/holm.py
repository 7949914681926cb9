"""Several tests at once: p-values corrected for their number."""

from __future__ import annotations

from collections.abc import Sequence


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's step-down correction: rejecting those up to alpha makes any false rejection as rare as alpha.

    Args:
        p_values: None for a test that is not defined, which does not count.

    Source: Holm, Scandinavian Journal of Statistics 6 (1979); statsmodels' multipletests gives the same.
    """
    known = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
    corrected: list[float | None] = [None] * len(p_values)
    largest = 0.0
    for rank, (p, place) in enumerate(known):
        largest = max(largest, min(1.0, (len(known) - rank) * p))
        corrected[place] = largest
    return corrected
