"""What a judge must beat to be worth asking: verdicts that cost nothing, compared with the same labels.

`the longer answer` and `the shorter answer` go by characters; equal lengths are a tie. `always first` and `always
second` are the set's own order, whatever the judge was shown. `the majority label` is the one that most pairs have.
`a coin` is a fair draw between the two answers: its agreement is the expected one, half of the pairs whose label
is not a tie.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from instruct.analysis.inference import sign_test
from instruct.analysis.outcomes import EXCHANGED
from instruct.judging.human_agreement import SIGNIFICANT
from instruct.validation.human_sets import HumanPair
from instruct.validation.rates import NO_VERDICT, TIE, Record, accuracy, codes, interval, kappa, ratio

COIN = "a coin"
# The only ones by which models have different win rates.
LENGTH_YARDSTICKS = ("the longer answer", "the shorter answer")


def yardstick_verdicts(pairs: Sequence[HumanPair]) -> dict[str, list[str]]:
    """The verdicts of every yardstick but the coin, by its name: `first`, `second` or `tie` for each pair."""
    longer = longer_answers(pairs)
    majority = Counter(pair.label for pair in pairs).most_common(1)[0][0]
    return {
        "the longer answer": longer,
        "the shorter answer": [EXCHANGED.get(verdict, verdict) for verdict in longer],
        "always first": ["first"] * len(pairs),
        "always second": ["second"] * len(pairs),
        f"the majority label, {majority}": [majority] * len(pairs),
    }


def compare_with_yardsticks(pairs: Sequence[HumanPair], judge: Mapping[str, Sequence[str]]) -> Record:
    """A judge's verdicts and the yardsticks', compared with the labels of the pairs.

    decided_pairs: those whose label is not a tie. best: of the yardsticks other than the coin, the one that is right
    most often; it is chosen on the same pairs, which favors it slightly. judge, paired: for each way to take the
    judge's verdicts, these alone and next to the best yardstick. by_length: the accuracy on the decided pairs whose
    label is the shorter answer, and on those whose label is the longer one: what follows length alone is right on none
    of the former.

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
        "by_length": {
            better: {name: accuracy(gold[among], said[among]) for name, said in asked.items()}
            for better, among in _better_answers(pairs, gold).items()
        },
    }


def longer_answers(pairs: Sequence[HumanPair]) -> list[str]:
    """Of each pair the answer with more characters; `tie` for equal lengths."""
    differences = (len(pair.first) - len(pair.second) for pair in pairs)
    return ["first" if gap > 0 else "second" if gap < 0 else "tie" for gap in differences]


def _better_answers(pairs: Sequence[HumanPair], gold: np.ndarray) -> dict[str, np.ndarray]:
    """The decided pairs whose label is the shorter answer, and those whose label is the longer one."""
    longer = codes(longer_answers(pairs))
    decided = (gold != TIE) & (longer != TIE)
    return {"shorter": decided & (gold != longer), "longer": decided & (gold == longer)}


def _agreeing(gold: np.ndarray, said: np.ndarray) -> Record:
    """One way to give verdicts, compared with the labels of all pairs.

    decided: the verdicts equal to the label in percent of the pairs whose label is not a tie, a tie counting as half,
    so that guessing earns as much as abstaining.
    """
    decided = gold != TIE
    points = np.where(said == TIE, 0.5, (said == gold) & (said != NO_VERDICT)) * decided
    return {
        "accuracy": accuracy(gold, said),
        "decided": 100 * float(points.sum()) / int(decided.sum()) if decided.any() else None,
        "decided_interval": interval(ratio, points, decided) if decided.any() else None,
        "kappa": kappa(gold, said),
    }


def _coin(gold: np.ndarray) -> Record:
    """The expected agreement; without an interval, since it is not one draw."""
    decided = int((gold != TIE).sum())
    expected = {"count": decided // 2, "n": len(gold), "percent": 50 * decided / len(gold), "interval": None}
    return {"accuracy": expected, "decided": 50.0 if decided else None, "decided_interval": None, "kappa": 0.0}


def _paired(judge: np.ndarray, yardstick: np.ndarray) -> Record:
    """A judge and a yardstick on the same pairs.

    difference: of their accuracies, in points. p: McNemar's exact test, two-sided, which is the sign test over the
    pairs on which only one of the two is right; None if there are none. beats: p is below 0.05 for the judge.
    """
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
