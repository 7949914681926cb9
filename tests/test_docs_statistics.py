"""docs/statistics.md explains every figure in report.json."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from instruct.analysis import results as schema_statistics
from instruct.analysis.style import PAIRS_PER_COEFFICIENT
from instruct.measuring.words import REPEATED_ABOVE
from instruct.reporting import model
from instruct.reporting.cautions import FAULTY_PERCENT, LONGER_PERCENT
from instruct.reporting.model import ComparisonReport, Panel
from instruct.scores.samples import LEAST_DECIDED

TEXT = (Path(__file__).parents[1] / "docs" / "statistics.md").read_text(encoding="utf-8")
PROSE = re.sub(r"```.*?```", "", TEXT, flags=re.DOTALL)
NAMED = {word for part in re.findall(r"`([^`]+)`", PROSE) for word in re.findall(r"\w+", part)}
# Keys of a comparison that are not figures.
NO_FIGURES = {
    "candidate", "baseline", "orders", "pairs_judged", "pairs_expected", "partial", "stopped", "ratings", "reasons",
    "trimmed", "requests", "notes", "warnings", "claim",
}  # fmt: skip


@pytest.mark.parametrize("part", [ComparisonReport, Panel, model.LengthControl, model.Health, model.OverlapReport])
def test_every_figure_is_explained(part):
    assert part.model_fields.keys() - NO_FIGURES - NAMED == set()


@pytest.mark.parametrize(
    "name",
    ["Claim", "Counts", "LengthFigures", "StyleTerm", "StyleControl", "Part"],
)
def test_every_part_of_a_figure_is_explained(name):
    described = {"dataset", "judge", "policy", "model", "candidate", "baseline"}
    assert getattr(schema_statistics, name).model_fields.keys() - described - NAMED == set()


def test_the_numbers_are_those_of_the_code():
    words = " ".join(TEXT.split())
    assert f"fewer than {PAIRS_PER_COEFFICIENT} pairs for each coefficient" in words
    assert LEAST_DECIDED == 6
    assert "fewer than six decided pairs" in words
    assert f"at least {FAULTY_PERCENT} %" in words
    assert f"{LONGER_PERCENT} % or more above" in words
    assert REPEATED_ABOVE == 0.5
    assert "distinct 4-grams / 4-grams > ½" in words


def test_each_section_says_when_the_figure_misleads_and_names_its_source():
    sections = TEXT.split("\n## ")[1:]
    for word in ("*Misleads:*|when it misleads", "*Source:*|*Sources:*"):
        silent = [text.splitlines()[0] for text in sections if not any(each in text for each in word.split("|"))]
        assert silent == [], word
