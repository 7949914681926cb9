"""docs/statistics.md explains every figure in report.json."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from instruct.analysis import results
from instruct.reporting import model
from instruct.reporting.model import ComparisonReport, Panel

TEXT = (Path(__file__).parents[1] / "docs" / "statistics.md").read_text(encoding="utf-8")
PROSE = re.sub(r"```.*?```", "", TEXT, flags=re.DOTALL)
NAMED = {word for part in re.findall(r"`([^`]+)`", PROSE) for word in re.findall(r"\w+", part)}
# Keys of a comparison that are not figures.
NO_FIGURES = {
    "candidate", "baseline", "orders", "pairs_judged", "pairs_expected", "partial", "stopped", "ratings", "reasons",
    "trimmed", "requests", "notes", "warnings", "claim",
}  # fmt: skip


FIGURES = [ComparisonReport, Panel, model.LengthControl, model.Health, model.OverlapReport]
PARTS = [results.Claim, results.Counts, results.LengthFigures, results.StyleTerm, results.StyleControl, results.Part]
DESCRIBED = {"dataset", "judge", "policy", "model", "candidate", "baseline"}


@pytest.mark.parametrize("part", FIGURES + PARTS)
def test_every_figure_is_explained(part):
    assert part.model_fields.keys() - NO_FIGURES - DESCRIBED - NAMED == set()
