"""ROUGE equals Google's rouge-score."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from instruct.measuring.texts.rouge import NAMES, has_tokens, rouge

TEXTS = st.one_of(
    st.lists(st.sampled_from(["a", "b", "the", "The", "cat", "c3", "don't", "é", ",", "x-y", "\n"]), max_size=25).map(
        " ".join
    ),
    st.text(max_size=40),
)


@pytest.fixture(scope="module")
def scorer():
    return pytest.importorskip("rouge_score.rouge_scorer").RougeScorer(list(NAMES), use_stemmer=False)


@given(TEXTS, TEXTS)
@settings(max_examples=60, deadline=None)
def test_rouge_equals_rouge_score_on_random_texts(scorer, reference, text):
    expected = {name: score.fmeasure for name, score in scorer.score(reference, text).items()}
    assert rouge(reference, text) == pytest.approx(expected, abs=1e-12)


def test_rouge_of_known_texts():
    found = rouge("the cat sat on the mat", "the cat lay on a mat")
    assert found == pytest.approx({"rouge1": 4 / 6, "rouge2": 1 / 5, "rougeL": 4 / 6})
    found = rouge("the cat sat on the mat", "the cat lay on a mat today")  # precision and recall differ
    assert found == pytest.approx({"rouge1": 8 / 13, "rouge2": 2 / 11, "rougeL": 8 / 13})


def test_an_empty_text_shares_nothing():
    assert rouge("", "") == rouge("a", "") == rouge("", "a") == dict.fromkeys(NAMES, 0.0)


def test_other_scripts_have_no_tokens():
    assert not has_tokens("Ω 日本")
    assert has_tokens("日本 ABC")
