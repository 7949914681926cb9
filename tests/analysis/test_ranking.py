"""Several systems: Bradley-Terry strengths."""

from __future__ import annotations

import numpy as np
import pytest

from instruct.analysis.ranking import bradley_terry

Scores = dict[str, float | None]
# choix 0.4.1: opt_pairwise(3, data), where a beat b 7:3, b beat c 6:4 and a beat c 8:2.
CHOIX = [0.740569663, -0.149102199, -0.591467464]


def by_prompt(values: np.ndarray | list[float]) -> Scores:
    return {f"prompt {number}": float(value) for number, value in enumerate(values)}


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
