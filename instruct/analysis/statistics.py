"""From the outcomes of pairs to figures: win rate, standard error, intervals, bounds, and the judge's position bias."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from instruct.analysis.inference import Estimate, mean_test, mean_tests, score_interval, sign_test
from instruct.analysis.outcomes import (
    POINTS,
    PREFERENCES,
    UNKNOWN_ORDER,
    Outcome,
    PairResult,
    ShownVerdict,
    is_identical,
    outcome_of,
    unit_scores,
    weighted_scores,
)


@dataclass(frozen=True)
class Tally:
    """Outcomes of one comparison for its candidate, in pairs. `unparsed` and `failed` pairs have no verdict.

    `contradicted` of the ties are pairs on which the verdict changed with the order, `identical` of them have two
    identical answers, which no judge was asked about; the judge called the other ties.

    `scores` are a weighted judge's, one for each pair with a verdict: 1 the candidate is surely better, 0 the baseline,
    1/2 a tie. They make the win rate and its error, and the counts are of scores above, at and below 1/2. Scores of
    pairs that count unequally may be below 0 or above 1: see `scores_of_units`.

    `conversations` are the scores of the conversations that the pairs are turns of. Standard error, interval and test
    are then of these; the counts and the win rate stay those of the turns. `weights`: of pairs or conversations that
    count unequally, relative to their mean; None: equal ones. `filled`: scores or conversations with all pairs without
    a verdict lost, and won, if there are such pairs.

    Raises:
        ValueError: another number of scores than of verdicts, or more ties of a kind than ties.
    """

    win: int = 0
    tie: int = 0
    loss: int = 0
    unparsed: int = 0
    failed: int = 0
    scores: tuple[float, ...] | None = None
    contradicted: int = 0
    identical: int = 0
    conversations: tuple[float, ...] | None = None
    weights: tuple[float, ...] | None = None
    filled: tuple[Tally, Tally] | None = None

    def __post_init__(self) -> None:
        if self.scores is not None and len(self.scores) != self.n_judged:
            raise ValueError(f"{len(self.scores)} scores for {self.n_judged} verdicts")
        if self.contradicted + self.identical > self.tie:
            raise ValueError(f"{self.contradicted} contradicted and {self.identical} identical among {self.tie} ties")

    @property
    def n(self) -> int:
        """All pairs that were put to the judge."""
        return self.n_judged + self.unread

    @property
    def n_judged(self) -> int:
        """Pairs with a verdict: the denominator of the win rate."""
        return self.win + self.tie + self.loss

    @property
    def unread(self) -> int:
        """Pairs without a verdict."""
        return self.unparsed + self.failed

    @property
    def points(self) -> float:
        """The sum of the scores; without scores a win is 1 and a tie 1/2."""
        return self.win + self.tie / 2 if self.scores is None else math.fsum(self.scores)

    @property
    def win_rate(self) -> float | None:
        """Percent: 100 * mean(q), q the score or one of 1, 1/2, 0; None without a verdict (AlpacaEval's `win_rate`)."""
        return 100 * self.points / self.n_judged if self.n_judged else None

    @property
    def discrete_win_rate(self) -> float | None:
        """Percent, a win 1 and a tie 1/2 whatever the scores are (AlpacaEval's `discrete_win_rate`)."""
        return 100 * (self.win + self.tie / 2) / self.n_judged if self.n_judged else None

    @property
    def standard_error(self) -> float | None:
        """Of the win rate, in percentage points: 100 * std(q, ddof=1) / sqrt(n) (AlpacaEval).

        None with fewer than two verdicts.
        """
        values = self.values
        return None if len(values) < 2 else 100 * float(values.std(ddof=1)) / math.sqrt(len(values))

    @property
    def weighted(self) -> bool:
        """Whether the judge grades its preferences."""
        return self.scores is not None

    @property
    def graded(self) -> bool:
        """Whether what is tested has other values than a win, a tie and a loss."""
        return self.scores is not None or self.conversations is not None

    @property
    def values(self) -> NDArray[np.float64]:
        """The scores of what is drawn at random: shape (conversations,) or (n_judged,)."""
        if self.graded:
            return np.array(self.scores if self.conversations is None else self.conversations, dtype=np.float64)
        return np.repeat([1.0, 0.5, 0.0], [self.win, self.tie, self.loss])

    @property
    def interval(self) -> list[float] | None:
        """The 95 % interval of the win rate, in percent; None without a verdict."""
        return self.estimate.interval

    @property
    def p(self) -> float | None:
        """Of the test that decides: the sign test, or the test of the mean of graded preferences."""
        return self.estimate.p

    @property
    def preferences(self) -> Tally:
        """A weighted judge's preferences without their grades."""
        return Tally(self.win, self.tie, self.loss, self.unparsed, self.failed)

    @property
    def extremes(self) -> tuple[Tally, Tally]:
        """The worst and the best case: every pair without a verdict lost, or won."""
        if self.filled or not self.unread:
            return self.filled or (self, self)
        return Tally(self.win, self.tie, self.loss + self.unread), Tally(self.win + self.unread, self.tie, self.loss)

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Worst- and best-case win rate in percent; None without pairs."""
        lost, won = (each.win_rate for each in self.extremes)
        return None if lost is None or won is None else (lost, won)

    @property
    def estimate(self) -> Estimate:
        """The win rate in percent with its interval and p."""
        if self.graded and self.weights:
            weights, mean = np.array(self.weights), self.values.mean()
            return mean_test(mean + (self.values - mean) / weights, weights)
        if self.graded:
            return mean_test(self.values)
        rate = math.nan if self.win_rate is None else self.win_rate
        tests = mean_tests(self.values) if self.n_judged else None
        return Estimate(rate, score_interval(self.values), sign_test(self.win, self.loss), tests)


@dataclass(frozen=True)
class PositionStatistics:
    """How much the order of the answers matters.

    `consistent` of `in_both` pairs that were readable in both orders got the same verdict for the same answer;
    `first` of `decided` verdicts that are not ties went to the answer shown first. Pairs with identical answers, which
    are not shown to the judge, and verdicts whose order is not known do not count.
    """

    in_both: int
    consistent: int
    decided: int
    first: int

    @property
    def consistency(self) -> float | None:
        """Percent of pairs readable in both orders; None without any."""
        return 100 * self.consistent / self.in_both if self.in_both else None

    @property
    def first_position_rate(self) -> float | None:
        """Percent of verdicts that are not ties; 50 without position bias. None without any."""
        return 100 * self.first / self.decided if self.decided else None


def position_statistics(judgments: Iterable[ShownVerdict]) -> PositionStatistics:
    """Consistency and first-position rate of one comparison's judgements (of one order or of both)."""
    shown = [judgment for judgment in judgments if not is_identical(judgment) and judgment.reason != UNKNOWN_ORDER]
    outcomes: dict[str, dict[str, Outcome]] = {}
    for judgment in shown:
        if judgment.verdict in PREFERENCES:
            outcomes.setdefault(judgment.instruction, {})[judgment.position] = outcome_of(judgment)
    both = [orders for orders in outcomes.values() if len(orders) == 2]
    verdicts = Counter(judgment.verdict for judgment in shown)
    return PositionStatistics(
        in_both=len(both),
        consistent=sum(orders["first"] == orders["second"] for orders in both),
        decided=verdicts["first"] + verdicts["second"],
        first=verdicts["first"],
    )


def tally_pairs(pairs: Sequence[PairResult]) -> Tally:
    """The pairs' outcomes, their scores if these are graded, and those of the conversations that they are turns of."""
    scores, counts = weighted_scores(pairs), Counter(pair.outcome for pair in pairs)
    counted = Tally(
        **cast(Any, counts),
        scores=tuple(scores) if any(score not in (0, 0.5, 1) for score in scores) else None,
        contradicted=sum(pair.tie == "contradicted" for pair in pairs),
        identical=sum(pair.tie == "identical" for pair in pairs),
        conversations=tuple(unit_scores(pairs).values()) if any(pair.conversation for pair in pairs) else None,
    )
    if not counted.graded:
        return counted
    weights = unit_scores([replace(pair, score=None if pair.score is None else 1.0) for pair in pairs], at=0.0)
    counted = replace(counted, weights=tuple(weights.values()))
    if not counted.unread:
        return counted
    heaviest = max(pair.weight for pair in pairs)
    lost, won = (
        tally_pairs(
            [
                replace(pair, outcome=outcome, score=POINTS[outcome], weight=heaviest) if pair.score is None else pair
                for pair in pairs
            ]
        )
        for outcome in ("loss", "win")
    )
    return replace(counted, filled=(lost, won))
