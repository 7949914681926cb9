"""The mean of a judge's samples, and its noise against a simulation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from instruct.analysis.error_sources import error_sources
from instruct.analysis.outcomes import PairResult, outcome_of_score
from instruct.analysis.panel import judge_noise, mean_of_samples


def pairs(*scores: float | None) -> list[PairResult]:
    return [
        PairResult(str(number), "", "unparsed" if score is None else outcome_of_score(score), score)
        for number, score in enumerate(scores)
    ]


def test_a_pair_has_the_mean_of_its_samples_if_more_than_half_have_a_verdict():
    smoothed = mean_of_samples([pairs(1, 0), pairs(1, 0), pairs(1, 1)], smoothing=0.5)
    assert [pair.score for pair in smoothed] == [3.5 / 4, 1.5 / 4]
    found = mean_of_samples([pairs(1, 1, None, 1), pairs(0, 1, 1, None), pairs(1, 1, 0, None)])
    assert [pair.score for pair in found] == [pytest.approx(2 / 3), 1, 0.5, None]
    assert [pair.outcome for pair in found] == ["win", "win", "tie", "unparsed"]
    assert found[2].tie == "contradicted"


def test_the_judges_part_is_that_of_the_win_rate_when_the_same_pairs_are_asked_again():
    """A judge that prefers each pair's answer with a probability of its own, asked three times about 200 pairs."""
    rng = np.random.default_rng(0)
    chances = rng.beta(2, 2, size=200)
    drawn = rng.random((2000, 3, 200)) < chances
    again = 100 * drawn.mean(axis=(1, 2)).std()  # other samples, the same prompts
    found = [error_sources([[pairs(*map(float, one)) for one in run]]).sources[1] for run in drawn[:40]]
    assert np.mean([judge.half_width for judge in found]) == pytest.approx(1.96 * again, rel=0.03)
    other = np.var([(rng.random((3, 200)) < rng.beta(2, 2, size=200)).mean() for _ in range(4000)])
    assert np.mean([judge.share for judge in found]) == pytest.approx((again / 100) ** 2 / other * 100, rel=0.1)


@pytest.mark.parametrize("seeds", [1, 6])
def test_the_parts_are_those_that_the_scores_were_drawn_with(seeds):
    """Means over experiments with 15 prompts, 2 answers to each, 2 verdicts on each."""
    prompts, answers, verdicts, runs = 15, 2, 2, 80
    deviations = {"seeds": 0.1, "prompts": 0.1, "prompts by seeds": 0.08, "answers": 0.15, "judge": 0.2}
    sizes = {"seeds": seeds, "prompts": prompts, "prompts by seeds": prompts * seeds}
    sizes |= {"answers": prompts * answers * seeds, "judge": prompts * answers * verdicts * seeds}
    true = {source: deviation**2 / sizes[source] for source, deviation in deviations.items()}
    if seeds == 1:  # one training does not show what another would change
        true["prompts"] += true.pop("prompts by seeds")
        del true["seeds"]
    rng, parts = np.random.default_rng(0), {source: [] for source in true}
    for _ in range(runs):
        of_prompt, trainings = rng.normal(0, deviations["prompts"], (prompts, 1)), []
        for _ in range(seeds):
            own = rng.normal(0, deviations["seeds"]) + rng.normal(0, deviations["prompts by seeds"], (prompts, 1))
            of_answer = (0.5 + of_prompt + own + rng.normal(0, deviations["answers"], (prompts, answers))).ravel()
            samples = [of_answer + rng.normal(0, deviations["judge"], of_answer.shape) for _ in range(verdicts)]
            named = [
                [replace(pair, conversation=f"p{place // answers}") for place, pair in enumerate(pairs(*one))]
                for one in samples
            ]
            trainings.append(named)
        found = error_sources(trainings)
        assert {one.source for one in found.sources} == true.keys()
        assert sum(one.share for one in found.sources) == pytest.approx(100)
        for one in found.sources:
            parts[one.source].append((one.half_width / 196) ** 2)
    for source, variance in true.items():
        assert np.mean(parts[source]) == pytest.approx(variance, rel=0.3), source
    assert found.text == "15 prompts are too few to say which part of the win rate's squared error is the largest"
    others = error_sources(trainings, repeated=False)
    assert others.text == found.text.replace("prompts", "clusters")


def test_one_source_alone_has_no_share():
    assert error_sources([[pairs(1, 0, 1, 0)]]) is None
    assert error_sources([[pairs(1, 1, 1), pairs(1, 1, 1)]]) is None  # nothing varies


def test_a_judge_that_never_changes_has_no_noise():
    noise = judge_noise([pairs(1, 0, 1), pairs(1, 0, 1)])
    assert (noise.changed, noise.standard_deviation, noise.missing) == (0, 0, 0)
    assert judge_noise([pairs(1, None), pairs(1, 1)]) is None
