"""The win rate if a judge errs as it did on labels of other pairs."""

from __future__ import annotations

import numpy as np
import pytest

from instruct.analysis.inference import score_interval
from instruct.analysis.judge_errors import Rate, corrected_rate


def rate(points: float, n: int) -> Rate:
    scores = np.repeat([1.0, 0.0], [round(points), n - round(points)])
    return Rate(100 * float(scores.mean()), score_interval(scores) or [0.0, 100.0])


def test_the_rate_is_rogan_and_gladens():
    judged, sensitivity, specificity = rate(65, 100), rate(90, 100), rate(70, 100)
    value, interval = corrected_rate(judged, [sensitivity, specificity])
    assert value == pytest.approx(100 * (0.65 + 0.7 - 1) / (0.9 + 0.7 - 1))
    assert interval is not None
    assert interval[1] - interval[0] > (judged.interval[1] - judged.interval[0]) / 0.6
    assert corrected_rate(judged, [sensitivity])[0] == pytest.approx(100 * (0.65 + 0.9 - 1) / (0.9 + 0.9 - 1))


def test_the_interval_is_the_verdicts_own_if_the_judge_is_known_to_be_right():
    judged, certain = rate(60, 100), Rate(100.0, [100.0, 100.0])
    for right in ([certain], [certain, certain]):
        value, interval = corrected_rate(judged, right)
        assert value == pytest.approx(judged.value)
        assert interval == pytest.approx(judged.interval, abs=0.01)


def test_the_other_side_sees_the_mirror_image():
    judged, right = rate(60, 100), [rate(90, 100), rate(70, 100)]
    value, interval = corrected_rate(judged, right)
    mirrored = Rate(100 - judged.value, [100 - end for end in reversed(judged.interval)])
    seen = corrected_rate(mirrored, right[::-1])
    assert (100 - seen[0], [100 - end for end in reversed(seen[1] or [])]) == (
        pytest.approx(value),
        pytest.approx(interval),
    )


@pytest.mark.parametrize("points", [420, 433, 460])
def test_errors_that_are_alike_for_both_systems_never_reverse_a_result(points):
    judged = rate(points, 805)
    for right in (rate(60, 100), rate(15, 20)):
        _, interval = corrected_rate(judged, [right])
        assert interval is not None
        assert (interval[0] > 50) == (judged.interval[0] > 50)


def test_few_labels_of_a_weak_judge_leave_all_open():
    for right, known in (([70], True), ([58], False), ([95, 30], True), ([95, 10], False)):
        value, _ = corrected_rate(rate(50, 100), [rate(points, 100) for points in right])
        assert (value is not None) == known
    assert corrected_rate(rate(52, 100), [rate(5, 10)])[1] == [0.0, 100.0]


def test_verdicts_that_no_win_rate_gives_have_no_interval():
    assert corrected_rate(rate(5, 500), [rate(900, 1000), rate(700, 1000)])[1] is None
