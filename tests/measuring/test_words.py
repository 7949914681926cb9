"""ROUGE equals Google's rouge-score; diversity and repetition equal plain transcriptions."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from instruct.measuring.words import ROUGE, answers_rouge, distinct, has_rouge_tokens, repeated_fraction, rouge, tokens

TEXTS = st.one_of(
    st.lists(st.sampled_from(["a", "b", "the", "The", "cat", "c3", "don't", "é", ",", "x-y", "\n"]), max_size=25).map(
        " ".join
    ),
    st.text(max_size=40),
)


@pytest.fixture(scope="module")
def scorer():
    return pytest.importorskip("rouge_score.rouge_scorer").RougeScorer(list(ROUGE), use_stemmer=False)


@given(TEXTS, TEXTS)
@settings(max_examples=60, deadline=None)
def test_rouge_equals_rouge_score_on_random_texts(scorer, reference, text):
    expected = {name: score.fmeasure for name, score in scorer.score(reference, text).items()}
    assert rouge(reference, text) == pytest.approx(expected, abs=1e-12)


def test_rouge_of_known_texts():
    found = rouge("the cat sat on the mat", "the cat lay on a mat today")  # precision and recall differ
    assert found == pytest.approx({"rouge1": 8 / 13, "rouge2": 2 / 11, "rougeL": 8 / 13})
    assert rouge("", "") == rouge("a", "") == rouge("", "a") == dict.fromkeys(ROUGE, 0.0)
    assert not has_rouge_tokens("Ω 日本")
    assert has_rouge_tokens("日本 ABC")


def test_answers_are_compared_with_those_to_the_same_prompts():
    def row(prompt: str, output: str, **more: bool) -> dict:
        return {"instruction": prompt, "output": output, **more}

    references = [row("p", "the cat"), row("q", "a dog"), row("r", "one")]
    ours = [row("q", "a dog"), row("p", "the dog"), row("r", "", failed=True), row("other", "x")]
    assert list(answers_rouge({"baseline": references, "emo": ours})["emo"].values()) == [1.0, 0.5, None]
    assert answers_rouge({"emo": ours}) == {"emo": {}}


def repeats(tokens, n):
    """Welleck et al.'s figure by counting: every occurrence of an n-gram after its first, over all of them."""
    counts = Counter(tuple(tokens[start : start + n]) for start in range(len(tokens) - n + 1))
    return sum(count - 1 for count in counts.values()) / max(1, counts.total())


@given(
    st.lists(st.lists(st.sampled_from(["a", "b", "c", "the", "The", "."]), max_size=14), max_size=7),
    st.integers(1, 4),
    st.integers(1, 3),
)
@settings(max_examples=40, deadline=None)
def test_distinct_n_counts_n_grams_of_all_texts_and_without_each_group(texts, n, count):
    def share(some):
        grams = [tuple(text[i : i + n]) for text in some for i in range(len(text) - n + 1)]
        return len(set(grams)) / len(grams) if grams else None

    groups = np.arange(len(texts)) % count
    found = distinct([tokens(" ".join(text)) for text in texts], n, groups)
    without = [
        share([text for text, own in zip(texts, groups, strict=True) if own != group]) for group in np.unique(groups)
    ]
    if found is None:
        assert share(texts) is None
    else:
        assert (found[0], found[1].tolist()) == (share(texts), [] if None in without else without)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("a b, a b, a b, a b,", ["a", "b", ","] * 4),
        ("a b a c a b a d a b a c a b a", list("abacabadabacaba")),
        ("我不知道" * 10, list("我不知道" * 10)),
        ("été d'été " * 5, ["été", "d", "'", "été"] * 5),
        ("\x00\ud800 \u202e a", ["\x00", "\ud800", "\u202e", "a"]),
    ],
)
def test_repetition_counts_words_punctuation_and_unspaced_characters(text, tokens):
    for n in (2, 4):
        assert repeated_fraction(text, n) == pytest.approx(repeats(tokens, n))
