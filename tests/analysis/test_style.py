"""Style control on Arena-Hard's prompts and answers: counts, scores and coefficients that its own formulas give.

The verdicts are made up by a rule, as no judgments are at hand. The figures were computed once by a program of its
own that follows lmarena/arena-hard-auto (utils/add_markdown_info.py, show_result.py, utils/math_utils.py) without the
bootstrap, in float64 with its optimizer, lengths in characters.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.genmod.families import Binomial
from statsmodels.genmod.generalized_linear_model import GLM

from instruct.analysis.style import (
    Scored,
    fractional_logit,
    style_control,
    style_counts,
    style_features,
)

BASELINE = "gpt-4-0314"
COUNTS = {
    BASELINE: [928417, 9, 2572, 45],
    "gpt-4-0613": [780771, 1, 1784, 603],
    "gpt-3.5-turbo-0125": [731457, 23, 2204, 553],
}
FIGURES = {
    "gpt-4-0613": (56.19844470, [0.38512215, -0.04807285, 0.00667517, -0.00160478]),
    "gpt-3.5-turbo-0125": (55.37800633, [0.44384174, 0.00112819, -0.02837485, -0.02323790]),
}


def styles(folder: Path, system: str) -> dict[str, list[int]]:
    rows = map(json.loads, (folder / "arena_hard" / f"v0.1.{system}.jsonl").open(encoding="utf-8"))
    answers = {row["uid"]: row["messages"][-1]["content"]["answer"] for row in rows}
    return {uid: list(style_counts(answers[uid])) for uid in sorted(answers)}


def made_up(prompts: list[str], features: np.ndarray) -> np.ndarray:
    """A verdict by hash, but a win wherever the answer is longer than usual by more than a standard deviation."""
    scores = np.array([[0, 0.5, 1, 1, 0][hashlib.sha256(uid.encode()).digest()[0] % 5] for uid in prompts])
    length = features[:, 0]
    return np.where((length - length.mean()) / length.std(ddof=1) > 1, 1.0, scores)


def sample(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    features = rng.normal(0.3, 0.2, size=(n, 4))
    return (rng.random(n) < 1 / (1 + np.exp(-2 * features[:, 0]))).astype(float), features


@pytest.mark.parametrize("system", COUNTS)
def test_headers_lists_and_bold_are_counted_as_arena_hard_counts_them(system, shared_data):
    assert np.array(list(styles(shared_data, system).values())).sum(axis=0).tolist() == COUNTS[system]


@pytest.mark.parametrize("system", FIGURES)
def test_scores_and_coefficients_are_those_of_arena_hards_formulas(system, shared_data):
    ours, theirs = styles(shared_data, system), styles(shared_data, BASELINE)
    assert list(ours) == list(theirs)
    features = style_features(np.array(list(ours.values()), float), np.array(list(theirs.values()), float))
    found = style_control(Scored(made_up(list(ours), features)), features)
    score, coefficients = FIGURES[system]
    assert found.score == pytest.approx(score, abs=1e-4)  # where its optimizer stops
    assert [term.coefficient for term in found.terms] == pytest.approx(coefficients, abs=1e-5)


def test_intervals_are_those_of_statsmodels():
    """The larger of its robust and its binomial model's; of counted verdicts without ties, dispersion is about 1."""
    scores, features = sample(300)
    mean, spread = features.mean(axis=0), features.std(axis=0, ddof=1)
    model = GLM(scores, np.column_stack([np.ones(300), (features - mean) / spread]), Binomial())
    robust, binomial = model.fit(cov_type="HC0"), model.fit()
    found = style_control(Scored(scores), features)
    half = 1.968 * np.maximum(robust.bse, binomial.bse)[1:]
    expected = np.column_stack([robust.params[1:] - half, robust.params[1:] + half])
    np.testing.assert_allclose([term.interval for term in found.terms], expected, atol=4e-3)
    middle = np.array([[1.0, 0, 0, 0, 0]])
    assert found.score == pytest.approx(100 * robust.predict(middle)[0], abs=1e-5)
    ends = np.array([fit.get_prediction(middle).conf_int()[0] for fit in (robust, binomial)])
    np.testing.assert_allclose(found.score_interval, [100 * ends[:, 0].min(), 100 * ends[:, 1].max()], atol=0.2)


@pytest.mark.parametrize(
    ("scores", "features", "why"),
    [
        (*sample(49), "fewer than 50 pairs"),
        (sample(50)[0], sample(50)[1] + [0, 9, 0, -9], "every pair differs in the same direction in headers, bold"),
        ((sample(50)[1][:, 0] > 0.3).astype(float), sample(50)[1], "bold separates wins from losses"),
    ],
)
def test_what_cannot_be_estimated_says_why(scores, features, why):
    found = style_control(Scored(scores), features)
    assert why in found.note
    assert (found.score, found.score_interval, found.terms) == (None, None, [])


def test_features_in_which_no_pair_differs_are_left_out():
    scores, features = sample(300)
    found = style_control(Scored(scores), features * [1, 0, 1, 0])
    assert [term.name for term in found.terms] == ["length", "lists"]
    assert "too few pairs differ in headers and bold" in found.note


@given(st.text(alphabet="1.-*+ \t\n\r\x0b\x85\u2028#_`a", max_size=40))
def test_list_items_are_those_that_arena_hards_patterns_find(answer):
    counted = answer
    for block in re.findall(r"```([^`]*)```", answer):
        counted = counted.replace(block, "")
    found = sum(len(re.findall(pattern, counted, re.MULTILINE)) for pattern in (r"^\s*\d+\.\s", r"^\s*[-*+]\s"))
    assert style_counts(answer)[2] == found


def test_a_long_answer_is_counted_at_once():
    began = time.process_time()
    style_counts(200_000 * "\n ")
    assert time.process_time() - began < 2


def test_graded_pairs_count_as_the_battles_that_arena_hard_makes_of_them():
    rng = np.random.default_rng(3)
    features = rng.normal(size=(120, 4))
    labels = ([1] * 3, [1], [0.5], [0], [0] * 3)
    battles = [[*labels[one], *labels[other]] for one, other in rng.integers(5, size=(120, 2))]
    counts = np.array([len(each) for each in battles])
    official = style_control(Scored(np.concatenate(battles)), np.repeat(features, counts, axis=0))
    found = style_control(Scored(np.array([np.mean(each) for each in battles]), counts.astype(float)), features)
    assert [term.coefficient for term in found.terms] == pytest.approx([term.coefficient for term in official.terms])
    assert found.score == official.score
    # The battles of a pair are not independent: its interval is wider than that of as many pairs.
    assert np.diff(found.score_interval) > np.diff(official.score_interval)


def test_the_covariance_of_a_regression_is_that_of_conversations():
    """Every pair twice, as two turns that are alike, has the covariance of one."""
    rng = np.random.default_rng(3)
    x = np.column_stack([np.ones(60), rng.normal(size=60)])
    scores = rng.random(60)
    once = fractional_logit(Scored(scores), x)
    twice = fractional_logit(Scored(np.repeat(scores, 2), units=np.repeat(np.arange(60), 2)), np.repeat(x, 2, axis=0))
    assert twice.beta == pytest.approx(once.beta)
    assert twice.robust == pytest.approx(once.robust)
    assert twice.modeled == pytest.approx(once.modeled)
    assert twice.freedom == once.freedom
