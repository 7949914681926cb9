"""Judges that grade by labels: Arena-Hard's cards, and the leaderboard's score from them."""

from __future__ import annotations

import random

import pytest
from counted import claimed

from instruct.analysis.outcomes import results_by_policy
from instruct.base.replies import Completion
from instruct.judging.cards import load_judge_card
from instruct.judging.store import Judgment
from instruct.judging.verdicts import SEVERAL, UNKNOWN, margins, read_verdict
from instruct.reporting.comparison import _parts

# lmarena/arena-hard-auto, show_result.py: label_to_score with weight 3.
BATTLES = {
    "A>B": [1], "A>>B": [1] * 3, "A=B": [0.5], "A<<B": [0] * 3, "A<B": [0],
    "B>A": [0], "B>>A": [0] * 3, "B=A": [0.5], "B<<A": [1] * 3, "B<A": [1],
}  # fmt: skip


def judgment(number: int, position: str, label: str | None, dataset: str) -> Judgment:
    read = read_verdict(load_judge_card("arena_hard"), Completion(f"Mine is [x].\nMy final verdict is: [[{label}]]"))
    about = {"verdict": read.verdict, "reason": read.reason, "preference": read.preference}
    return Judgment("arena_hard", "emo", "gpt-4-0314", number, f"prompt {number}", dataset, position, "k", **about)


def test_the_score_is_that_of_the_official_script():
    draw, card = random.Random(0), load_judge_card("arena_hard")
    judged, official = [], {"hard_prompt": [], "creative_writing": []}
    for number in range(300):
        category = draw.choice([*official])
        # The first game shows the baseline first, and None is a reply without a label.
        games = [draw.choice([*BATTLES, *["A>>B"] * 3, None]) for _ in range(2)]
        positions = ("second", "first")
        judged += [judgment(number, *shown, category) for shown in zip(positions, games, strict=True)]
        if None not in games:
            official[category] += [*BATTLES[games[1]], *(1 - score for score in BATTLES[games[0]])]
    by_policy = results_by_policy(judged, None, margins(card, judged, {}))
    assert set(by_policy) == {"single", "strict"}
    claim, every = claimed(by_policy["strict"]), [*official["hard_prompt"], *official["creative_writing"]]
    assert claim.value == pytest.approx(100 * sum(every) / len(every), abs=1e-6)
    assert claim.missing == sum(pair.score is None for pair in by_policy["strict"]) > 0
    assert claim.interval[0] < claim.value < claim.interval[1]
    for part in _parts(by_policy["strict"]):
        battles = official[part.dataset]
        assert part.win_rate == pytest.approx(100 * sum(battles) / len(battles), abs=1e-6)


@pytest.mark.parametrize(
    ("name", "text", "verdict", "reason"),
    [
        ("arena_hard", "[[A>>B]]", "first", None),
        ("arena_hard", "[[B>A]] or [[A>B]]", "unparsed", SEVERAL),
        ("arena_hard_v2", "[[B>A]] or [[a=b]]", "tie", None),
        ("arena_hard", "[[A>>>B]]", "unparsed", UNKNOWN),
    ],
)
def test_labels_are_read_as_in_the_official_scripts(name, text, verdict, reason):
    reading = read_verdict(load_judge_card(name), Completion(text))
    assert (reading.verdict, reading.reason) == (verdict, reason)
