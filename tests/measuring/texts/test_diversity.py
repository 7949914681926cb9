"""Diversity equals plain transcriptions on random texts."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from instruct.analysis.jackknife import kept
from instruct.measuring.texts.diversity import NAMES, diversity, repeated_fraction, tokens

CORPORA = st.lists(
    st.lists(st.sampled_from(["a", "b", "c", "d", "the", "The", "."]), max_size=14), min_size=2, max_size=7
)


@given(CORPORA, st.integers(1, 4))
@settings(max_examples=20, deadline=None)
def test_distinct_n_counts_n_grams_of_each_text(texts, n):
    grams = [tuple(text[i : i + n]) for text in texts for i in range(len(text) - n + 1)]
    expected = len(set(grams)) / len(grams) if grams else np.nan
    assert diversity(texts)[f"distinct_{n}"][0] == pytest.approx(expected, nan_ok=True)


def test_copies_are_not_diverse_and_different_words_are():
    same, other = [tokens("one two three four five")] * 3, [[f"{i}{j}" for j in range(6)] for i in range(3)]
    first, second = diversity(same), diversity(other)
    assert first["distinct_1"] == pytest.approx(1 / 3)
    assert second["distinct_2"] == 1


def test_nothing_has_no_diversity():
    assert np.isnan(diversity([["a"]])["distinct_2"][0])
    assert all(np.isnan(diversity([])[name][0]) for name in NAMES)


@pytest.mark.parametrize("seed", range(3))
def test_a_selection_has_the_figures_of_its_texts_alone(seed):
    rng = np.random.default_rng(seed)
    texts = [[f"w{word}" for word in rng.zipf(1.5, size=rng.integers(0, 30)) % 50] for _ in range(50)]
    chosen = kept(np.arange(len(texts)))
    together = diversity(texts, chosen)
    for place in (0, 7, 39):
        alone = diversity([text for text, keep in zip(texts, chosen[place], strict=True) if keep])
        assert {name: together[name][place] for name in NAMES} == pytest.approx(
            {name: alone[name][0] for name in NAMES}
        )


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
