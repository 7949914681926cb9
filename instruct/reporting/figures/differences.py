"""A forest plot of differences between systems on others' logs."""

from __future__ import annotations

from collections.abc import Sequence

from instruct.analysis.results import Claim
from instruct.base.errors import one_line
from instruct.reporting.digits import number, span
from instruct.reporting.figures import canvas
from instruct.reporting.figures.canvas import FAINT, INK, ROW, WIDTH, Drawing

_MOST_ROWS = 60


def forest(claims: Sequence[Claim]) -> Drawing | None:
    """Differences in points with their 95 % intervals, a row for each task and pair of systems; None without any."""
    shown = [claim for claim in claims if claim.in_points and claim.value is not None][:_MOST_ROWS]
    more = f"; the first {_MOST_ROWS} of {len(claims)}" if len(claims) > _MOST_ROWS else ""
    title = f"Differences in points with their 95 % intervals, by task{more}"
    return Drawing("differences", title, (title, shown), _draw) if shown else None


def _draw(data: tuple[str, list[Claim]]) -> canvas.Figure:
    title, claims = data
    left, right = 3.9, 1.9
    titles = "First minus second", title
    figure, (axes,) = canvas.panels(titles, 1, (ROW * len(claims), 0.55), (left, right, 0.8))
    ends = [end for claim in claims for end in (claim.value or 0.0, *(claim.interval or ()))]
    room = 0.05 * (max(0.0, *ends) - min(0.0, *ends)) or 1.0
    canvas.as_forest(axes, len(claims), (min(0.0, *ends) - room, max(0.0, *ends) + room), even=0)
    axes.locator_params(axis="x", nbins=5)
    for place, claim in enumerate(claims):
        apart = claim.finding in ("candidate", "baseline")
        canvas.beside(axes, 0.15 - left, place, one_line(claim.task or "", 24), size=9, color=INK)
        names = canvas.abreast(claim.candidate, claim.baseline, 30)
        canvas.beside(axes, -0.15, place, names, size=8, color=INK if apart else FAINT, ha="right")
        interval = f" ({span(claim.interval, sign=True)})" if claim.interval else ""
        said = f"{number(claim.value, claim.interval, sign=True)}{interval}"
        canvas.beside(axes, WIDTH - left - right + 0.15, place, said, size=8, color=INK if apart else FAINT)
        canvas.mark_rate(axes, place, claim.value or 0.0, claim.interval, apart)
    return figure
