"""recipes/audit.py: its dates, its thirds, and the committed tables against the committed scores."""

from __future__ import annotations

import re
from pathlib import Path

import audit as recipe
import pytest

from instruct.analysis.claims import settle
from instruct.base.errors import InputError
from instruct.reporting.bench import ENTROPY, GREEDY, Measured
from instruct.reporting.bundle import check_bundle, read_bundle
from instruct.reporting.compare_bundles import compare_bundles
from instruct.reporting.text import difference, finding

RESULTS = Path(__file__).resolve().parent.parent / "docs" / "results" / "audit_smollm2"


def test_dates_are_different_and_the_same_again():
    rows = [*recipe.velth_dates(300, seed=1)]
    assert rows == [*recipe.velth_dates(300, seed=1)]
    assert len({row["instruction"] for row in rows}) == len({row["output"] for row in rows}) == 300
    assert all(re.fullmatch(r"[a-z]+ [1-9]\d?'\d[a-z]", row["output"]) for row in rows)


def measured(power=0.0, rows="abcdefghi"):
    """Three trainings of mle and of power, which gains on the first, likeliest third of the rows."""
    likelihoods = {row: float(place) for place, row in enumerate(rows)}
    systems = {f"{key}-seed{seed}": (key, seed) for key in ("mle", "power", "late") for seed in (1, 2, 3)}
    answers = {
        name: {
            row: 0.3 + 0.01 * seed * (row in "ceg") + power * (key == "power" and row in "abc") for row in "abcdefghi"
        }
        for name, (key, seed) in systems.items()
        if key != "late"
    }
    scores = {
        ENTROPY: {"base": likelihoods} | {name: dict.fromkeys(rows, 1.0) for name in systems},
        GREEDY: {"base": dict.fromkeys("abcdefghi", 0.1), **answers},
    }
    return Measured({key: [f"{key}-seed{seed}" for seed in (1, 2, 3)] for key in ("mle", "power", "late")}, scores)


def test_thirds_are_by_the_untrained_models_cross_entropy():
    claims = recipe.thirds(measured(0.2))
    gains = {claim.params["third"]: claim.value for claim in claims if claim.measure == GREEDY}
    assert gains == pytest.approx({"likeliest": 0.2, "middle": 0.0, "unlikeliest": 0.0})
    compared = [(claim.measure, claim.candidate) for claim in claims if claim.params["third"] == "middle"]
    assert compared == [(GREEDY, "power"), (ENTROPY, "power"), (ENTROPY, "late")]  # late has no answers
    table = recipe.thirds_table({"dates": measured(0.2)})
    assert "| dates | ROUGE-L of greedy answers | all | base | -0.2" in "\n".join(table)
    with pytest.raises(InputError, match="name their rows in two ways"):
        recipe.thirds(measured(rows="jklmnopqr"))


@pytest.mark.parametrize("cell", sorted(path.stem for path in RESULTS.glob("*.zip")))
def test_the_committed_tables_are_those_of_the_committed_scores(cell):
    bundle = read_bundle(RESULTS / f"{cell}.zip")
    assert (RESULTS / f"{cell}_thirds.md").read_text() == "\n".join(recipe.thirds_table({cell: bundle.measured})) + "\n"
    page = (RESULTS / "README.md").read_text()
    assert f"`{cell}.zip` {bundle.sha256}" in page
    settle(claims := recipe.untrained(bundle.measured))
    rows = [
        f"| {claim.candidate} | {claim.measure} | {difference(claim)} | {finding(claim)} |"
        for claim in [*bundle.claims.objectives, *claims]
    ]
    rows += [*recipe.figures_table(bundle.claims.figures), *recipe.rates_table(bundle.claims.figures)]
    assert not [row for row in rows if row not in page]
    assert {finding.state for finding in check_bundle(RESULTS / f"{cell}.zip")} <= {"ok", "warning"}


def test_the_page_says_what_compare_says_of_the_primary_outcomes():
    page = " ".join((RESULTS / "README.md").read_text().split())
    headlines = compare_bundles(sorted(RESULTS.glob("*.zip"))).headlines()
    assert len(headlines) > 10
    assert not [line for line in headlines if line not in page]
