"""Several judges of one comparison: their agreement against scikit-learn."""

from __future__ import annotations

import math
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score

from instruct.analysis.agreement import agreements

OUTCOMES = ["win", "tie", "loss", "unparsed", "failed"]


@given(st.lists(st.tuples(st.sampled_from(OUTCOMES[:3]), st.sampled_from(OUTCOMES[:3])), max_size=30))
@settings(deadline=None)  # the first call imports
def test_kappa_equals_scikit_learn(pairs):
    judges = [{str(place): outcomes[side] for place, outcomes in enumerate(pairs)} for side in (0, 1)]
    (found,) = agreements({"one": judges[0], "other": judges[1]})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = cohen_kappa_score(*zip(*pairs, strict=True)) if pairs else math.nan
    assert (math.nan if found.kappa is None else found.kappa) == pytest.approx(theirs, abs=1e-6, nan_ok=True)


def test_agreement_covers_pairs_with_a_verdict_of_both_judges():
    one = {"a": "win", "b": "loss", "c": "tie", "d": "failed", "e": "win"}
    other = {"a": "win", "b": "win", "c": "unparsed", "d": "win"}
    (found,) = agreements({"one": one, "other": other})
    assert found.model_dump() == {"judges": ["one", "other"], "n": 2, "agreement": 50.0, "kappa": 0.0}
    (nothing,) = agreements({"one": {"a": "failed"}, "other": {"b": "win"}})
    assert (nothing.n, nothing.agreement, nothing.kappa) == (0, None, None)
