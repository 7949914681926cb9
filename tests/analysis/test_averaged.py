"""The policy `averaged`: the mean of both orders' margins."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instruct.analysis.outcomes import (
    Margins,
    averaged,
    pair_results,
    results_by_policy,
)
from instruct.judging.store import Judgment

margins = st.floats(-20, 20)


def pair(number, first, second):
    """Both orders of a pair: the verdict with the candidate first, and with it second; a dict has other fields."""
    shown = {"first": first, "second": second}
    return [
        Judgment("j", "emo", "mle", number, f"prompt {number}", "d", position, "k", **fields)
        for position, fields in shown.items()
    ]


def read(value, tie=0.0):
    """A verdict in the order shown, read from log-odds."""
    return {"verdict": "tie" if abs(value) < tie or value == 0 else "first" if value > 0 else "second"}


def shown(number, first, second):
    return {(f"prompt {number}", "first"): first, (f"prompt {number}", "second"): second}


@given(quality=margins, bias=margins)
def test_an_additive_position_bias_cancels(quality, bias):
    assert averaged(quality + bias, -quality + bias) == pytest.approx(quality if abs(quality) >= 1e-9 else 0, abs=1e-8)


@pytest.mark.parametrize(
    ("first", "second", "tie", "outcome"),
    [(1.0, 0.9, 0.1, "tie"), (1.0, 0.9, 0.0, "win"), (0.4, 1.0, 0.1, "loss"), (0.3, 0.3, 0.0, "tie")],
)
def test_the_tie_margin_applies_to_the_mean(first, second, tie, outcome):
    """Of log-odds for the answer shown first: of the candidate, and of the baseline."""
    judgments = pair(0, read(first, tie), read(second, tie))
    found = results_by_policy(judgments, None, Margins(shown(0, first, second), tie))
    assert found["averaged"][0].outcome == outcome
    assert found["averaged"][0].score == {"win": 1.0, "tie": 0.5, "loss": 0.0}[outcome]  # counted, not graded
    assert found["strict"][0].outcome == "tie"


def test_a_weighted_judges_score_is_the_logistic_function_of_its_mean_log_odds():
    one, other = 0.9, 0.4  # its probability for the answer shown first
    judgments = pair(
        0, {"verdict": "first", "preference": 2 - one}, {"verdict": "second", "preference": 2 - other}
    )  # fmt: skip
    found = results_by_policy(judgments)["averaged"][0]
    mean = (math.log(one / (1 - one)) - math.log(other / (1 - other))) / 2
    assert found.score == pytest.approx(1 / (1 + math.exp(-mean)))
    assert found.outcome == "win"


@pytest.mark.parametrize(("first", "second", "score"), [(1.0, 1.0, 0.5), (1.0, 1.2, 1.0), (2.0, 1.0, 0.0)])
def test_certain_preferences_have_infinite_log_odds_and_contradictory_ones_are_a_tie(first, second, score):
    verdicts = [
        {"verdict": "first" if value < 1.5 else "second", "preference": value} for value in (first, second)
    ]  # fmt: skip
    graded = pair(1, {"verdict": "first", "preference": 1.3}, {"verdict": "first", "preference": 1.3})
    found = results_by_policy([*pair(0, *verdicts), *graded])["averaged"]
    assert found[0].score == score
    assert found[0].outcome == {1.0: "win", 0.5: "tie", 0.0: "loss"}[score]
    assert found[1].score == 0.5


def test_two_scores_are_summed_over_both_orders():
    # candidate 9 + 7, baseline 8.5 + 8: balanced position calibration
    judgments = pair(0, {"verdict": "first", "ratings": (9.0, 8.5)}, {"verdict": "first", "ratings": (8.0, 7.0)})
    found = results_by_policy(judgments)["averaged"][0]
    assert (found.outcome, found.score) == ("loss", 0.0)
    tied = pair(0, {"verdict": "first", "ratings": (8.2, 8.1)}, {"verdict": "first", "ratings": (8.1, 8.0)})
    assert results_by_policy(tied)["averaged"][0].outcome == "tie"  # 16.2 and 16.2, whatever floats make of it


@pytest.mark.parametrize("missing", ["unparsed", "failed"])
def test_a_missing_verdict_is_no_tie(missing):
    judgments = [*pair(0, read(2.0), {"verdict": missing}), *pair(1, read(2.0), read(-2.0))]
    found = results_by_policy(judgments, None, Margins(shown(1, 2.0, -2.0) | {("prompt 0", "first"): 2.0}))
    assert [(each.outcome, each.score) for each in found["averaged"]] == [(missing, None), ("win", 1.0)]


def test_bare_verdicts_have_no_averaged_policy():
    judgments = [*pair(0, read(2.0), read(-2.0)), *pair(1, read(2.0), read(-2.0))]
    assert "averaged" not in results_by_policy(judgments)
    assert "averaged" not in results_by_policy(judgments, None, Margins(shown(0, 2.0, -2.0)))  # one pair has none
    with pytest.raises(ValueError, match="needs both orders, and a margin of each verdict"):
        pair_results(judgments, "averaged")
