"""Diversity equals nltk, scipy and plain transcriptions on random texts."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from instruct.text_metrics.diversity import distinct, repeated_fraction, self_bleu, tokens, zipf_coefficient

CORPORA = st.lists(
    st.lists(st.sampled_from(["a", "b", "c", "d", "the", "The", "."]), max_size=14), min_size=2, max_size=7
)


@given(CORPORA)
@settings(max_examples=40, deadline=None)
def test_self_bleu_equals_nltk(texts):
    bleu = pytest.importorskip("nltk.translate.bleu_score")
    smooth = bleu.SmoothingFunction().method1
    expected = [
        bleu.sentence_bleu(texts[:place] + texts[place + 1 :], text, smoothing_function=smooth) if text else 0.0
        for place, text in enumerate(texts)
    ]
    assert self_bleu(texts) == pytest.approx(np.mean(expected), abs=1e-12)


@given(CORPORA, st.integers(1, 4))
@settings(max_examples=20, deadline=None)
def test_distinct_n_counts_n_grams_of_each_text(texts, n):
    grams = [tuple(text[i : i + n]) for text in texts for i in range(len(text) - n + 1)]
    assert distinct(texts, n) == (len(set(grams)) / len(grams) if grams else None)


@given(CORPORA)
@settings(max_examples=20, deadline=None)
def test_the_zipf_coefficient_is_scipy_s_slope(texts):
    from scipy.stats import linregress

    words = [word.lower() for text in texts for word in text]
    counts = sorted((words.count(word) for word in set(words)), reverse=True)
    if len(counts) < 2:
        assert zipf_coefficient(texts) is None
    else:
        slope = linregress(np.log(np.arange(1, len(counts) + 1)), np.log(counts)).slope
        assert zipf_coefficient(texts) == pytest.approx(-slope, abs=1e-12)


def test_the_zipf_coefficient_of_a_zipf_law_is_its_exponent():
    texts = [[f"w{rank}"] * round(1e5 * rank**-1.3) for rank in range(1, 40)]
    assert zipf_coefficient(texts) == pytest.approx(1.3, abs=1e-3)


def test_copies_are_not_diverse_and_different_words_are():
    same, other = [tokens("one two three four five")] * 3, [[f"{i}{j}" for j in range(6)] for i in range(3)]
    assert self_bleu(same) == 1
    assert distinct(same, 1) == pytest.approx(1 / 3)
    assert self_bleu(other) == 0
    assert distinct(other, 2) == 1


def test_nothing_has_no_diversity():
    assert self_bleu([["a"]]) is None
    assert distinct([[], []], 1) is None
    assert self_bleu([[], []]) == 0
    assert zipf_coefficient([]) is None


def repeats(tokens, n=4):
    """Welleck et al.'s figure by counting: every occurrence of an n-gram after its first, over all of them."""
    counts = Counter(tuple(tokens[start : start + n]) for start in range(len(tokens) - n + 1))
    return sum(count - 1 for count in counts.values()) / max(1, counts.total())


@pytest.mark.parametrize("seed", range(5))
def test_the_repeated_fraction_follows_the_paper(seed):
    words = [f"w{number}" for number in np.random.default_rng(seed).integers(0, 2 + seed, 60)]
    assert repeated_fraction(" ".join(words)) == pytest.approx(repeats(words))
    assert repeated_fraction("\n".join(words), 2) == pytest.approx(repeats(words, 2))


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", []),
        ("one two three", ["one", "two", "three"]),
        ("a b, a b, a b, a b,", ["a", "b", ","] * 4),
        ("!" * 40, ["!"] * 40),
        ("我不知道" * 10, list("我不知道" * 10)),
        ("ไม่รู้" * 6, list("ไม่รู้" * 6)),
        ("été d'été " * 5, ["été", "d", "'", "été"] * 5),
        ("\x00\ud800 \u202e a", ["\x00", "\ud800", "\u202e", "a"]),
    ],
)
def test_repetition_counts_words_punctuation_and_unspaced_characters(text, tokens):
    assert repeated_fraction(text) == pytest.approx(repeats(tokens))
