"""MAUVE from features: equal to mauve-text on given histograms, within seed noise on features."""

from __future__ import annotations

import numpy as np
import pytest

from instruct.analysis.jackknife import estimate
from instruct.base.errors import InputError
from instruct.measuring import mauve as ours


@pytest.fixture(scope="module")
def library():
    return pytest.importorskip("mauve.compute_mauve")


def samples(n: int, shift: float, seed: int = 0, n_reference: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Features of human and of system texts whose means differ by `shift`."""
    rng, scale = np.random.default_rng(seed), np.geomspace(3, 0.2, 24)
    human = rng.normal(size=(n_reference or n, 24)) * scale + 1
    return human, (rng.normal(size=(n, 24)) + shift) * scale + 1


def test_known_histograms_have_the_values_of_mauve_text():
    p, q = np.array([0.5, 0.3, 0.2, 0]), np.array([0.1, 0.2, 0.3, 0.4])
    assert float(ours.area(p, q)) == pytest.approx(0.2711696522515651, abs=1e-12)
    assert ours.frontier_integral(p, q) == pytest.approx(0.31226213121594043, abs=1e-12)
    assert ours.divergence_curve(p, q)[13] == pytest.approx([0.4117549, 0.26516504], abs=1e-7)


@pytest.mark.slow
def test_mauve_star_and_the_frontier_integral_equal_mauve_text(library):
    human, texts = samples(300, 0.3, n_reference=337)
    theirs = library.compute_mauve(p_features=human, q_features=texts, seed=0)
    counts = [np.rint(each * n).astype(int) for each, n in ((theirs.p_hist, 337), (theirs.q_hist, 300))]
    for smooth, mauve, integral in (
        (False, theirs.mauve, theirs.frontier_integral),
        (True, theirs.mauve_star, theirs.frontier_integral_star),
    ):
        p, q = (ours.histogram(each, smooth) for each in counts)
        assert float(ours.area(p, q)) == pytest.approx(mauve, abs=1e-9)
        assert ours.frontier_integral(p, q) == pytest.approx(integral, abs=1e-9)
    assert theirs.num_buckets == ours.cluster_count(337, 300)


@pytest.mark.slow
def test_mauve_of_features_is_mauve_text_s_within_seed_noise(library):
    human, texts = samples(300, 0.5)
    theirs = [library.compute_mauve(p_features=human, q_features=texts, seed=seed).mauve for seed in range(8)]
    found = ours.mauve(human, texts, range(8))
    noise = np.hypot(np.std(theirs, ddof=1), np.std(found.by_seed, ddof=1)) / np.sqrt(8)
    assert abs(found.value - np.mean(theirs)) < 4 * noise
    assert noise < 0.03


def test_what_mauve_is_not_defined_for_is_refused():
    human, texts = samples(200, 0.0)
    with pytest.raises(InputError, match=r"199 texts are too few, 200 are needed.*cut into windows"):
        ours.mauve(human, texts[:-1])
    texts[17, 3] = np.nan
    with pytest.raises(InputError, match="text 17 are not finite"):
        ours.mauve(human, texts)


@pytest.mark.slow
def test_the_standard_error_is_that_of_new_texts():
    found = [ours.mauve(*samples(300, 0.8, seed), [0, 1]) for seed in range(60)]
    actual = np.std([each.value for each in found], ddof=1)
    intervals = [estimate([each.value], [each.without], each.variance).interval for each in found]
    assert 0.75 * actual < np.mean([(high - low) / 2 / 2.02 for low, high in intervals]) < 1.5 * actual
