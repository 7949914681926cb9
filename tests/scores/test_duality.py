"""Interval, p, exclusion and finding of a claim are four readings of one procedure, whatever the sample is."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from instruct.analysis import jackknife
from instruct.analysis.outcomes import PairResult
from instruct.analysis.results import Claim
from instruct.scores.claims import ALPHA, claim_of, settle
from instruct.scores.samples import Sample, difference, figures, match, match_over_seeds, mean_over_tasks, sides_of
from instruct.scores.scores import Scores

Array = np.ndarray
# An interval's end, in points, and a p-value are found numerically.
POINTS, CHANCE = 1e-4, 1e-6


@dataclass(frozen=True)
class Scored:
    """What two systems scored: of each training and unit, NaN is missing, and the cluster of each unit."""

    ours: Array
    theirs: Array
    clusters: Array

    @property
    def mirrored(self) -> Scored:
        return Scored(self.theirs, self.ours, self.clusters)

    @property
    def preferred(self) -> Array:
        """As a judge would see it: 1 the candidate is better, 0 the baseline."""
        preferred: Array = (1 + self.ours - self.theirs) / 2
        return preferred


def pairs(scores: Array, conversations: Sequence[object] = ()) -> list[PairResult]:
    """A judge's verdicts, from 0 to 1, NaN without one; a pair stands for itself, or is a turn of a conversation."""
    outcomes = ["failed" if math.isnan(s) else "win" if s > 0.5 else "loss" if s < 0.5 else "tie" for s in scores]
    known = [None if math.isnan(score) else float(score) for score in scores]
    chats = [f"chat {each}" for each in conversations] or [""] * len(scores)
    return [
        PairResult(str(place), "d", outcome, score, conversation=chat)
        for place, (outcome, score, chat) in enumerate(zip(outcomes, known, chats, strict=True))
    ]


def of_verdicts(scored: Scored) -> Sample:
    return match(pairs(scored.preferred[0]))


def of_conversations(scored: Scored) -> Sample:
    return match(pairs(scored.preferred[0], scored.clusters.tolist()))


def of_seeds(scored: Scored) -> Sample:
    by_seed = [pairs(training) for training in scored.preferred]
    return match_over_seeds(dict(enumerate(by_seed)), len(by_seed))


def of_difference(scored: Scored) -> Sample:
    return difference(sides_of(scored.ours, scored.theirs))


def of_clusters(scored: Scored) -> Sample:
    return difference(sides_of(scored.ours, scored.theirs), scored.clusters)


def of_ratings(scored: Scored) -> Sample:
    sides = sides_of(scored.ours, scored.theirs)
    return difference(sides, scored.clusters, kind="metric", share=False)


def of_tasks(scored: Scored) -> Sample:
    """Of two tasks, the second of which has half as many units."""
    middle = -(-2 * len(scored.clusters) // 3)
    parts = [part for part in (slice(None, middle), slice(middle, None)) if len(scored.clusters[part])]
    sides = [sides_of(scored.ours[:, part], scored.theirs[:, part]) for part in parts]
    clusters = [np.unique(scored.clusters[part], return_inverse=True)[1] for part in parts]
    return mean_over_tasks(sides, clusters, by_size=False)


def of_figures(scored: Scored) -> Sample:
    """Means of texts, as any figure that is also known without each group of texts."""
    left = jackknife.kept(np.arange(len(scored.clusters)))

    def measured(trainings: Array) -> list[Scores]:
        return [
            Scores("", Path(), "", "", figures={"m": one.mean()}, without={"m": of_groups(one)}, variances={"m": 0.0})
            for one in trainings
        ]

    def of_groups(one: Array) -> Array:
        without: Array = left @ one / np.maximum(left.sum(axis=1), 1)
        return without

    return figures("m", measured(scored.ours), measured(scored.theirs))


# How the sample is made, the values of a system, how many trainings, and whether units are in clusters.
KINDS: dict[str, tuple[Callable[[Scored], Sample], str, int, bool]] = {
    "counted verdicts": (of_verdicts, "right or wrong", 1, False),
    "graded verdicts": (of_verdicts, "grades", 1, False),
    "counted conversations": (of_conversations, "right or wrong", 1, True),
    "graded conversations": (of_conversations, "grades", 1, True),
    "verdicts over seeds": (of_seeds, "right or wrong", 3, False),
    "graded verdicts over seeds": (of_seeds, "grades", 3, False),
    "right or wrong": (of_difference, "right or wrong", 1, False),
    "grades": (of_difference, "grades", 1, False),
    "ratings": (of_ratings, "ratings", 1, False),
    "right or wrong in clusters": (of_clusters, "right or wrong", 1, True),
    "grades in clusters": (of_clusters, "grades", 1, True),
    "ratings in clusters": (of_ratings, "ratings", 1, True),
    "right or wrong over seeds": (of_clusters, "right or wrong", 3, False),
    "grades over seeds": (of_clusters, "grades", 3, False),
    "ratings over seeds": (of_ratings, "ratings", 3, False),
    "right or wrong in clusters over seeds": (of_clusters, "right or wrong", 3, True),
    "tasks": (of_tasks, "right or wrong", 1, False),
    "tasks of grades": (of_tasks, "grades", 1, False),
    "tasks of clusters": (of_tasks, "right or wrong", 1, True),
    "tasks over seeds": (of_tasks, "right or wrong", 3, False),
    "figures": (of_figures, "ratings", 1, False),
    "figures over seeds": (of_figures, "ratings", 3, False),
}
MAY_BE_MISSING = [kind for kind, (_, values, _, _) in KINDS.items() if values != "ratings"]
EACH_KIND = pytest.mark.parametrize("kind", KINDS)


def drawn(kind: str, seed: int, n: int, levels: tuple[float, float], spread: float) -> Scored:
    """Args: levels: about the mean of each system. spread: from all values alike to all at an end of the scale."""
    _, values, trainings, clustered = KINDS[kind]
    rng = np.random.default_rng(seed)

    def scores(level: float) -> Array:
        shape = (trainings, n)
        if values == "right or wrong":
            return (rng.random(shape) < level).astype(float)
        graded = np.clip(level + spread * (rng.random(shape) - 0.5), 0, 1)
        return graded if values == "grades" else 10 * graded + spread * rng.exponential(3, shape)

    clusters = np.arange(n)
    if clustered:
        clusters = np.unique(rng.integers(0, 1 + n // 2, n) ** 2 // (1 + n // 2), return_inverse=True)[1]
    return Scored(scores(levels[0]), scores(levels[1]), clusters)


LEVELS = st.sampled_from([0.0, 0.05, 0.3, 0.5, 0.6, 0.95, 1.0])
DRAWN = st.tuples(
    st.integers(0, 10_000),
    st.one_of(st.integers(1, 12), st.integers(13, 60), st.just(200)),
    st.tuples(LEVELS, LEVELS),
    st.sampled_from([0.0, 0.1, 0.5, 1.0]),
)


def claims_of(samples: Sequence[Sample], simultaneous: int = 1) -> list[Claim]:
    names = {"measure": "m", "candidate": "ours", "baseline": "theirs", "family": "f"}
    claims = [claim_of(sample, simultaneous, **names) for sample in samples]
    settle(claims)
    return claims


def claimed(kind: str, scored: Scored) -> Claim:
    return claims_of([KINDS[kind][0](scored)])[0]


def excludes(claim: Claim) -> bool:
    """Whether the interval excludes equality."""
    return claim.interval is not None and not claim.interval[0] <= claim.null <= claim.interval[1]


def holds(wide: Sequence[float], narrow: Sequence[float]) -> bool:
    return wide[0] <= narrow[0] + POINTS and narrow[1] - POINTS <= wide[1]


@EACH_KIND
@given(case=DRAWN, together=st.sampled_from([1, 1, 3]))
@settings(max_examples=12)
def test_a_winner_is_found_exactly_if_interval_and_p_exclude_equality(kind, case, together):
    for claim in claims_of([KINDS[kind][0](drawn(kind, *case))] * together):
        assume(claim.adjusted_p is None or abs(claim.adjusted_p - ALPHA) > CHANCE)
        rejected = claim.adjusted_p is not None and claim.adjusted_p <= ALPHA
        assert claim.has_winner == (rejected and excludes(claim) and claim.enough is True)
        if claim.has_winner:
            assert (claim.finding == "candidate") == (claim.value > claim.null)
        if claim.p is not None and together == 1 and claim.enough:
            assert claim.interval is not None
            assert excludes(claim) == rejected


@EACH_KIND
@given(case=DRAWN)
@settings(max_examples=8)
def test_what_is_excluded_lies_outside_the_interval_of_its_level(kind, case):
    """That of 90 % of one claim, a wider one of one among many; those that hold at once are wider than one of 95 %."""
    sample = KINDS[kind][0](drawn(kind, *case))
    (claim,) = claims_of([sample])
    (wide,) = claims_of([sample], simultaneous=2)
    if (at_once := wide.params["simultaneous"]) is not None and claim.interval is not None:
        assert holds(at_once, claim.interval)
    if claim.excluding is None:
        return
    assert claim.interval is not None
    assert holds(claim.interval, claim.excluding)
    assert claim.excluding[0] - POINTS <= claim.value <= claim.excluding[1] + POINTS
    among = claims_of([sample] * 20)[0].excluding
    assert holds(among, claim.excluding)
    width, whole = among[1] - among[0], {"rate": 100, "points": 200}.get(claim.kind, math.inf)
    assert width > claim.excluding[1] - claim.excluding[0] or width == pytest.approx(whole)


@EACH_KIND
@given(case=DRAWN)
@settings(max_examples=12)
def test_mirrored_systems_have_mirrored_claims(kind, case):
    scored = drawn(kind, *case)
    made, mirror = claimed(kind, scored), claimed(kind, scored.mirrored)
    assert made.value + mirror.value == pytest.approx(2 * made.null, abs=POINTS)
    assert (made.p, made.adjusted_p) == pytest.approx((mirror.p, mirror.adjusted_p), abs=CHANCE)
    for ours, theirs in ((made.interval, mirror.interval), (made.excluding, mirror.excluding)):
        mirrored = theirs and [2 * made.null - end for end in reversed(theirs)]
        assert ours == (mirrored and pytest.approx(mirrored, abs=POINTS))
    sides = {"candidate": "baseline", "baseline": "candidate"}
    assert made.finding == sides.get(mirror.finding, mirror.finding)


@pytest.mark.parametrize("kind", MAY_BE_MISSING)
@given(case=DRAWN, share=st.sampled_from([0.02, 0.1, 0.5]), fillings=st.integers(0, 10_000))
@settings(max_examples=12)
def test_a_claim_holds_whatever_is_missing(kind, case, share, fillings):
    """Its interval holds those of values that the missing ones may have had, and a winner is theirs, too; of clusters
    and trainings, with all of them lost, or won."""
    whole = drawn(kind, *case)
    rng = np.random.default_rng(fillings)
    missing = rng.random((2, *whole.ours.shape)) < share
    if KINDS[kind][0] in (of_verdicts, of_conversations, of_seeds):  # of both answers
        missing[1] = missing[0]
    hidden = np.where(missing, math.nan, [whole.ours, whole.theirs])
    claim = claimed(kind, Scored(*hidden, whole.clusters))
    assume(claim.missing and claim.n)
    _, values, trainings, clustered = KINDS[kind]
    lost = np.stack([np.zeros_like(whole.ours), np.ones_like(whole.ours)])
    possible = [lost, lost[::-1]]
    if trainings == 1 and not clustered:
        mixed = rng.random(lost.shape)
        possible += [mixed.round(), mixed if values == "grades" else 1 - mixed.round()]
    for found in possible:
        filled = claimed(kind, Scored(*np.where(missing, found, hidden), whole.clusters))
        if claim.interval and filled.interval:
            assert holds(claim.interval, filled.interval)
        if claim.has_winner:
            assert filled.finding == claim.finding
