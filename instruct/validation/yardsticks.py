"""What a judge must beat to be worth asking: verdicts that cost nothing, compared with the same labels.

`the longer answer` and `the shorter answer` go by characters; equal lengths are a tie. `always first` and `always
second` are the set's own order, whatever the judge was shown. `the majority label` is the one that most pairs have.
`a coin` is a fair draw between the two answers: its agreement is the expected one, half of the pairs whose label
is not a tie.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypedDict

import numpy as np

from instruct.analysis.inference import sign_test
from instruct.judging.human_agreement import SIGNIFICANT
from instruct.validation.human_sets import HumanPair
from instruct.validation.rates import NO_VERDICT, TIE, Rate, accuracy, codes, interval, kappa, ratio

COIN = "a coin"
# The only ones by which models have different win rates.
LENGTH_YARDSTICKS = ("the longer answer", "the shorter answer")


class Agreeing(TypedDict):
    """One way to give verdicts, compared with the labels of all pairs.

    accuracy: verdicts equal to the label. decided: the same in percent of the pairs whose label is not a tie, a tie
    counting as half, so that guessing earns as much as abstaining; with its interval. kappa: Cohen's, with the labels.
    """

    accuracy: Rate
    decided: float | None
    decided_interval: list[float] | None
    kappa: float | None


class Paired(TypedDict):
    """A judge and the best yardstick on the same pairs.

    difference: the judge's accuracy minus the yardstick's, in points, with its bootstrap interval. judge_alone,
    yardstick_alone: pairs on which only one of them is right. p: McNemar's exact test, two-sided; None if no pair tells
    them apart. beats: the judge is right more often, and p is below 0.05.
    """

    difference: float
    interval: list[float] | None
    judge_alone: int
    yardstick_alone: int
    p: float | None
    beats: bool


class Yardsticks(TypedDict):
    """All yardsticks on a set, the best of them, and the judge next to it.

    decided_pairs: those whose label is not a tie. best: of the yardsticks other than the coin, the one that is right
    most often; it is chosen on the same pairs, which favors it slightly. judge, paired: for each way to take the
    judge's verdicts.
    """

    decided_pairs: int
    yardsticks: dict[str, Agreeing]
    best: str
    judge: dict[str, Agreeing]
    paired: dict[str, Paired]


def yardstick_verdicts(pairs: Sequence[HumanPair]) -> dict[str, list[str]]:
    """The verdicts of every yardstick but the coin, by its name: `first`, `second` or `tie` for each pair."""
    longer = [_longer(pair) for pair in pairs]
    exchanged = {"first": "second", "second": "first", "tie": "tie"}
    majority = Counter(pair.label for pair in pairs).most_common(1)[0][0]
    return {
        "the longer answer": longer,
        "the shorter answer": [exchanged[verdict] for verdict in longer],
        "always first": ["first"] * len(pairs),
        "always second": ["second"] * len(pairs),
        f"the majority label, {majority}": [majority] * len(pairs),
    }


def compare_with_yardsticks(pairs: Sequence[HumanPair], judge: Mapping[str, Sequence[str]]) -> Yardsticks:
    """A judge's verdicts and the yardsticks', compared with the labels of the pairs.

    Args:
        judge: one verdict per pair (`first`, `second`, `tie`, `unparsed` or `failed`, of the answers in the set's
            order), for each way to take the judge's verdicts, such as each order alone.

    Raises:
        ValueError: there are no pairs, or not exactly one verdict per pair.
    """
    if not pairs or any(len(verdicts) != len(pairs) for verdicts in judge.values()):
        raise ValueError("needs pairs, and one verdict for each of them")
    gold = codes(pair.label for pair in pairs)
    free = {name: codes(verdicts) for name, verdicts in yardstick_verdicts(pairs).items()}
    best = max(free, key=lambda name: (free[name] == gold).sum())
    asked = {name: codes(verdicts) for name, verdicts in judge.items()}
    return {
        "decided_pairs": int((gold != TIE).sum()),
        "yardsticks": {**{name: _agreeing(gold, said) for name, said in free.items()}, COIN: _coin(gold)},
        "best": best,
        "judge": {name: _agreeing(gold, said) for name, said in asked.items()},
        "paired": {name: _paired(gold == said, gold == free[best]) for name, said in asked.items()},
    }


def _longer(pair: HumanPair) -> str:
    difference = len(pair.first) - len(pair.second)
    return "first" if difference > 0 else "second" if difference < 0 else "tie"


def _agreeing(gold: np.ndarray, said: np.ndarray) -> Agreeing:
    decided = gold != TIE
    points = np.where(said == TIE, 0.5, (said == gold) & (said != NO_VERDICT)) * decided
    return {
        "accuracy": accuracy(gold, said),
        "decided": 100 * float(points.sum()) / int(decided.sum()) if decided.any() else None,
        "decided_interval": interval(ratio, points, decided) if decided.any() else None,
        "kappa": kappa(gold, said),
    }


def _coin(gold: np.ndarray) -> Agreeing:
    """The expected agreement; without an interval, since it is not one draw."""
    decided = int((gold != TIE).sum())
    expected: Rate = {"count": decided // 2, "n": len(gold), "percent": 50 * decided / len(gold), "interval": None}
    return {
        "accuracy": expected,
        "decided": 50.0 if decided else None,
        "decided_interval": None,
        "kappa": 0.0,
    }


def _paired(judge: np.ndarray, yardstick: np.ndarray) -> Paired:
    """McNemar's exact test is the sign test over the pairs on which only one of the two is right."""
    alone, other = int((judge & ~yardstick).sum()), int((yardstick & ~judge).sum())
    p = sign_test(alone, other)
    difference = judge.astype(int) - yardstick.astype(int)
    return {
        "difference": 100 * float(difference.mean()),
        "interval": interval(ratio, difference, np.ones_like(difference)),
        "judge_alone": alone,
        "yardstick_alone": other,
        "p": p,
        "beats": alone > other and p is not None and p < SIGNIFICANT,
    }
