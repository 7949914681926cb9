"""MAUVE from features: equal to mauve-text on given histograms, within seed noise on features."""

from __future__ import annotations

import importlib
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from instruct.base.errors import InputError
from instruct.measuring.texts import mauve as ours

COUNTS = arrays.arrays(np.int64, st.shared(st.integers(2, 12), key="clusters"), elements=st.integers(0, 40))


@pytest.fixture(scope="module")
def library():
    pytest.importorskip("mauve")
    return sys.modules.get("mauve.compute_mauve") or importlib.import_module("mauve.compute_mauve")


def samples(n: int, shift: float, seed: int = 0, n_reference: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Features of human and of system texts whose means differ by `shift`."""
    rng, scale = np.random.default_rng(seed), np.geomspace(3, 0.2, 24)
    human = rng.normal(size=(n_reference or n, 24)) * scale + 1
    return human, (rng.normal(size=(n, 24)) + shift) * scale + 1


def test_known_histograms_have_the_values_of_mauve_text():
    p, q = np.array([0.5, 0.3, 0.2, 0]), np.array([0.1, 0.2, 0.3, 0.4])
    assert ours.mauve_of(p, q) == pytest.approx(0.2711696522515651, abs=1e-12)
    assert float(ours.frontier_integral(p, q)) == pytest.approx(0.31226213121594043, abs=1e-12)
    curve = ours.divergence_curve(p, q)
    assert len(curve) == 27
    assert curve[13] == pytest.approx([0.4117549, 0.26516504], abs=1e-7)


@pytest.mark.slow
@given(COUNTS.filter(np.any), COUNTS.filter(np.any))
@settings(max_examples=60, deadline=None)
def test_the_curve_and_its_area_equal_mauve_text_on_given_histograms(library, first, second):
    p, q = ours.histogram(first), ours.histogram(second)
    curve = library.get_divergence_curve_for_multinomials(p, q, np.linspace(1e-6, 1 - 1e-6, 25), 5)
    found = ours.divergence_curve(p, q)
    by_side = np.array(curve)[np.lexsort((-np.array(curve)[:, 1], np.array(curve)[:, 0]))]
    ordered = found[np.lexsort((-found[:, 1], found[:, 0]))]
    assert np.allclose(by_side, ordered, atol=1e-9)


@pytest.mark.slow
def test_mauve_star_and_the_frontier_integral_equal_mauve_text(library):
    human, texts = samples(300, 0.3, n_reference=337)
    theirs = library.compute_mauve(p_features=human, q_features=texts, seed=0)
    counts = [np.rint(each * n).astype(int) for each, n in ((theirs.p_hist, 337), (theirs.q_hist, 300))]
    p, q = (ours.histogram(each) for each in counts)
    assert ours.mauve_of(p, q) == pytest.approx(theirs.mauve, abs=1e-9)
    assert float(ours.frontier_integral(p, q)) == pytest.approx(theirs.frontier_integral, abs=1e-9)
    p, q = (ours.histogram(each, smooth=True) for each in counts)
    assert ours.mauve_of(p, q) == pytest.approx(theirs.mauve_star, abs=1e-9)
    assert float(ours.frontier_integral(p, q)) == pytest.approx(theirs.frontier_integral_star, abs=1e-9)
    assert theirs.num_buckets == ours.cluster_count(337, 300)


@pytest.mark.slow
@pytest.mark.parametrize("shift", [pytest.param(0.0, marks=pytest.mark.full), 0.5])
def test_mauve_of_features_is_mauve_text_s_within_seed_noise(library, shift):
    human, texts = samples(300, shift)
    theirs = [library.compute_mauve(p_features=human, q_features=texts, seed=seed).mauve for seed in range(8)]
    found = ours.mauve(human, texts, range(8))
    noise = np.hypot(np.std(theirs, ddof=1), np.std(found.by_seed, ddof=1)) / np.sqrt(8)
    assert abs(found.value - np.mean(theirs)) < 4 * noise
    assert noise < 0.03


def test_the_length_of_a_feature_does_not_matter():
    human, texts = samples(200, 0.4)
    scale = np.random.default_rng(1).uniform(0.1, 10, size=(200, 1))
    assert ours.mauve(human * scale, texts, [0]).value == pytest.approx(ours.mauve(human, texts, [0]).value, abs=1e-12)


def test_equal_histograms_have_one_and_disjoint_ones_nearly_none():
    even, left, right = np.full(4, 0.25), np.array([0.5, 0.5, 0, 0]), np.array([0, 0, 0.5, 0.5])
    assert ours.mauve_of(even, even) == pytest.approx(1)
    assert ours.mauve_of(left, right) == pytest.approx(0.0041, abs=5e-4)  # the limit for c = 5
    assert [float(ours.frontier_integral(*pair)) for pair in ((even, even), (left, right))] == pytest.approx([0, 1])


def test_the_components_hold_ninety_percent_of_the_variance():
    from sklearn.decomposition import PCA

    human, texts = samples(200, 0.2)
    unit = np.concatenate([human, texts])
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    expected = PCA(0.9, svd_solver="full").fit_transform(unit)
    found = np.concatenate(ours.reduce_features([human, texts]))
    assert found.shape == expected.shape
    assert np.allclose(np.abs(found), np.abs(expected), atol=1e-10)  # the sign of a component is arbitrary


def test_the_same_features_give_the_same_result():
    human, texts = samples(200, 0.2)
    assert ours.mauve(human, texts).by_seed == ours.mauve(human, texts).by_seed


def test_few_texts_are_refused_with_a_remedy():
    human, texts = samples(199, 0.0, n_reference=300)
    with pytest.raises(InputError, match=r"199 texts are too few, 200 are needed.*cut into windows"):
        ours.mauve(human, texts)


def test_features_that_do_not_fit_are_refused():
    human, texts = samples(200, 0.0)
    with pytest.raises(InputError, match=r"\(200, 23\) against \(200, 24\); compute both with one model"):
        ours.mauve(human, texts[:, :-1])
    texts[17, 3] = np.nan
    with pytest.raises(InputError, match="text 17 are not finite"):
        ours.mauve(human, texts)


def test_the_interval_is_within_the_possible_values():
    found = ours.mauve(*samples(200, 0.0), [0])
    low, high = found.interval
    assert 0 <= low < found.value < high <= 1


@pytest.mark.slow
@pytest.mark.parametrize("shift", [pytest.param(0.3, marks=pytest.mark.full), 0.8])
def test_the_standard_error_is_that_of_new_texts(shift):
    found = [ours.mauve(*samples(300, shift, seed), [0, 1]) for seed in range(60)]
    actual = np.std([each.value for each in found], ddof=1)
    estimated = np.mean([(each.interval[1] - each.interval[0]) / 2 / 2.02 for each in found])
    assert 0.75 * actual < estimated < 1.5 * actual
