"""Several systems: simultaneous intervals, rank intervals, Bradley-Terry strengths."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from instruct.analysis.inference import score_interval
from instruct.analysis.ranking import bradley_terry, standings

Scores = dict[str, float | None]
# choix 0.4.1: opt_pairwise(3, data), where a beat b 7:3, b beat c 6:4 and a beat c 8:2.
CHOIX = [0.740569663, -0.149102199, -0.591467464]


def by_prompt(values: np.ndarray | list[float]) -> Scores:
    return {f"prompt {number}": float(value) for number, value in enumerate(values)}


def drawn(rates: Mapping[str, float], prompts: int, seed: int = 0) -> dict[str, Scores]:
    """Systems that find the same prompts hard."""
    rng = np.random.default_rng(seed)
    hard = rng.random(prompts)
    return {name: by_prompt((0.7 * hard + 0.3 * rng.random(prompts) < rate) * 1.0) for name, rate in rates.items()}


def test_simultaneous_intervals_are_wider_than_each_ones_own() -> None:
    scores = drawn({"a": 0.3, "b": 0.5, "c": 0.7}, 400)
    for standing in standings(scores):
        own = score_interval(np.array(list(scores[standing.name].values()), dtype=float))
        assert own is not None
        assert standing.interval[1] - standing.interval[0] > own[1] - own[0]
        assert standing.interval[0] < standing.win_rate < standing.interval[1]


def test_simultaneous_intervals_contain_all_rates_at_once() -> None:
    rates = {f"system {number}": 0.5 for number in range(6)}
    missed = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        scores = {name: by_prompt((rng.random(60) < rate) * 1.0) for name, rate in rates.items()}
        missed += any(not each.interval[0] <= 50 <= each.interval[1] for each in standings(scores))
    assert missed <= 5  # 5 % expected; one interval at a time would miss in a quarter of the draws


def test_ranks_leave_open_what_is_not_told_apart() -> None:
    found = {each.name: each for each in standings(drawn({"low": 0.2, "b": 0.5, "a": 0.505, "high": 0.8}, 800, seed=1))}
    assert (found["high"].rank, found["high"].rank_interval) == (1, [1, 1])
    assert (found["low"].rank, found["low"].rank_interval) == (4, [4, 4])
    assert found["a"].rank_interval == found["b"].rank_interval == [2, 3]


def test_shared_prompts_tell_apart_what_separate_intervals_do_not() -> None:
    rng = np.random.default_rng(0)
    base = (rng.random(400) < 0.5) * 1.0
    better = base.copy()
    better[np.flatnonzero(base == 0)[:20]] = 1
    found = standings({"base": by_prompt(base), "better": by_prompt(better)})
    assert found[0].interval[0] < found[1].interval[1]  # they overlap
    assert [each.rank_interval for each in found] == [[1, 1], [2, 2]]


def test_a_missing_verdict_does_not_count() -> None:
    scores = drawn({"a": 0.3, "b": 0.6}, 100)
    scores["a"]["prompt 7"] = None
    found = {each.name: each for each in standings(scores)}
    assert (found["a"].n, found["b"].n) == (99, 100)


def test_equal_systems_share_a_rank() -> None:
    scores = by_prompt([1, 0, 1, 0.5])
    assert [(each.rank, each.rank_interval) for each in standings({"a": scores, "b": scores})] == [(1, [1, 2])] * 2


def test_one_system_is_no_ranking() -> None:
    with pytest.raises(ValueError, match="two systems"):
        standings({"a": by_prompt([1, 0])})


def test_strengths_equal_choix() -> None:
    games = [
        ("a", "b", by_prompt([1] * 7 + [0] * 3)),
        ("b", "c", by_prompt([1] * 6 + [0] * 4)),
        ("a", "c", by_prompt([1] * 8 + [0] * 2)),
    ]
    found = bradley_terry(games)
    assert found is not None
    assert [each.name for each in found] == ["a", "b", "c"]
    assert [each.strength for each in found] == pytest.approx(CHOIX, abs=1e-6)
    assert all(each.interval[0] < each.strength < each.interval[1] for each in found)


def test_a_tie_is_half_a_win_for_either() -> None:
    found = bradley_terry([("a", "b", by_prompt([0.5, 0.5]))])
    assert found is not None
    assert [each.strength for each in found] == pytest.approx([0, 0], abs=1e-9)


def test_order_of_candidate_and_baseline_does_not_matter() -> None:
    one = bradley_terry([("a", "b", by_prompt([1, 1, 0])), ("b", "c", by_prompt([1, 0, 0.5]))])
    other = bradley_terry([("b", "a", by_prompt([0, 0, 1])), ("c", "b", by_prompt([0, 1, 0.5]))])
    assert one is not None
    assert other is not None
    assert {each.name: each.strength for each in one} == pytest.approx({each.name: each.strength for each in other})


@pytest.mark.parametrize(
    "games",
    [
        [("a", "b", by_prompt([1, 1, 1]))],
        [("a", "b", by_prompt([1, 0])), ("c", "d", by_prompt([1, 0]))],
    ],
    ids=["a system without a point", "two groups that never met"],
)
def test_undetermined_strengths_are_none(games: list[tuple[str, str, Scores]]) -> None:
    assert bradley_terry(games) is None
