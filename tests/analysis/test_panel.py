"""Several judges of one comparison: their agreement against scikit-learn, and majority votes."""

from __future__ import annotations

import itertools
import math
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score

from instruct.analysis.agreement import cohen_kappa
from instruct.analysis.panel import agreements, majority, votes
from instruct.analysis.statistics import Tally, tally_pairs

OUTCOMES = ["win", "tie", "loss", "unparsed", "failed"]


@given(st.lists(st.tuples(st.sampled_from(OUTCOMES[:3]), st.sampled_from(OUTCOMES[:3])), max_size=30))
@settings(deadline=None)  # the first call imports
def test_kappa_equals_scikit_learn(pairs):
    ours = cohen_kappa(pairs)
    if not pairs:
        assert ours is None
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = cohen_kappa_score(*zip(*pairs, strict=True))
    if math.isnan(theirs):
        assert ours is None
    else:
        assert ours == pytest.approx(theirs, abs=1e-12)


def test_agreement_covers_pairs_with_a_verdict_of_both_judges():
    one = {"a": "win", "b": "loss", "c": "tie", "d": "failed", "e": "win"}
    other = {"a": "win", "b": "win", "c": "unparsed", "d": "win"}
    (found,) = agreements({"one": one, "other": other})
    assert found.model_dump() == {"judges": ["one", "other"], "n": 2, "agreement": 50.0, "kappa": 0.0}
    (nothing,) = agreements({"one": {"a": "failed"}, "other": {"b": "win"}})
    assert (nothing.n, nothing.agreement, nothing.kappa) == (0, None, None)


def test_the_majority_is_right_for_every_combination_of_three_votes():
    readable = OUTCOMES[:3]
    for cast in itertools.product(OUTCOMES, repeat=3):
        (found,) = majority({f"j{number}": {"pair": vote} for number, vote in enumerate(cast)})
        outcome = found.outcome
        counts = {name: cast.count(name) for name in readable if name in cast}
        if sum(counts.values()) < 2:
            assert outcome == ("failed" if "failed" in cast else "unparsed")
        else:
            leaders = [name for name in counts if counts[name] == max(counts.values())]
            assert outcome == (leaders[0] if len(leaders) == 1 else "tie"), cast


def test_a_pair_takes_votes_of_more_than_half_of_the_panel():
    one = {"a": "win", "b": "win", "c": "win", "d": "win"}
    silent = {"a": "win", "b": "unparsed", "c": "failed"}
    assert tally_pairs(majority({"one": one, "other": silent})) == Tally(win=1, unparsed=1, failed=2)
    assert tally_pairs(majority({"one": one, "other": silent, "third": {}})) == Tally(win=1, failed=3)
    assert tally_pairs(majority({"one": one, "other": one, "third": {}, "fourth": {}})) == Tally(failed=4)
    assert tally_pairs(majority({"one": one, "other": one, "third": silent})) == Tally(win=4)


def test_identical_pairs_are_counted_in_the_majority_and_not_in_the_agreement():
    judges = {"one": {"a": "win", "b": "tie"}, "other": {"a": "loss", "b": "tie"}}
    assert tally_pairs(majority(judges, {"b"})) == Tally(tie=2, identical=1)
    (found,) = agreements(judges, {"b"})
    assert (found.n, found.agreement) == (1, 0.0)


def test_votes_are_verdicts_on_two_different_answers():
    judges = {
        "reads": {"a": "win", "b": "failed"},
        "fails": {"a": "failed", "b": "unparsed"},
        "was not asked": {"a": "failed", "same": "tie"},
    }
    assert votes(judges, {"same"}) == {"reads": 1, "fails": 0, "was not asked": 0}
