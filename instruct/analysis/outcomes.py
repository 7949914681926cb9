"""From verdicts in the order shown to the outcome and the score of each pair, as the candidate sees it."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, cast, get_args

import numpy as np
from numpy.typing import NDArray

from instruct.analysis.inference import cluster_values

Policy = Literal["single", "strict", "upstream", "averaged"]
Outcome = Literal["win", "tie", "loss", "unparsed", "failed"]
# Why a pair is a tie: the judge called it one, its verdict changed with the order, or both answers are the same.
TieKind = Literal["called", "contradicted", "identical"]

# AlpacaEval's coding of a verdict, in the order shown.
PREFERENCES = {"first": 1.0, "tie": 1.5, "second": 2.0}
# The verdict if the answers were swapped; any other verdict stays the same.
EXCHANGED = {"first": "second", "second": "first"}
# The reason of a tie that no judge was asked about: both answers are the same.
IDENTICAL = "identical outputs"
# The reason of a verdict from a file that does not say which answer was shown first: its position means nothing.
UNKNOWN_ORDER = "the file does not say which answer was shown first"


@dataclass(frozen=True)
class ShownVerdict:
    """One verdict, in the order shown.

    Attributes:
        pair: the pair's index in the comparison.
        position: where the candidate was shown, "first" or "second".
        key: of the completion that the verdict was read from; "" if nothing was asked; two keys separated by a space
            for two single ratings.
        verdict: which answer is better, as in PREFERENCES, or "unparsed" or "failed".
        preference: a weighted judge's, in AlpacaEval's coding and the order shown: 1 prefers the first answer, 2 the
            second, 1.5 neither.
        ratings: of the answers shown first and second.
        trimmed: the answers were cut to fit the judge's context.
    """

    judge: str
    candidate: str
    baseline: str
    pair: int
    instruction: str
    dataset: str
    position: str
    key: str
    verdict: str
    reason: str | None = None
    preference: float | None = None
    ratings: tuple[float, float] | None = None
    trimmed: bool = False


def candidate_is_second(instruction: str) -> bool:
    """AlpacaEval's rule for one order per pair: whether the candidate is shown second.

    The package calls the baseline output_1 and the candidate output_2, and switches them when this draw is True
    (alpaca_eval.annotators, `is_switched_outputs`).
    """
    return not random.Random(f"is_switched_outputs{instruction}0").choices([False, True], k=1)[0]


def is_identical(judgment: ShownVerdict) -> bool:
    """Whether the verdict is the tie of two identical answers, which no judge is asked about."""
    return judgment.verdict == "tie" and judgment.reason == IDENTICAL


def outcome_of(judgment: ShownVerdict) -> Outcome:
    """One verdict, as seen by the candidate."""
    if judgment.verdict in ("tie", "unparsed", "failed"):
        return judgment.verdict  # type: ignore[return-value]
    return "win" if judgment.verdict == judgment.position else "loss"


def _outcome(orders: Mapping[str, ShownVerdict], policy: Policy, judge_rule: str | None) -> Outcome:
    """The candidate's outcome of a pair; `orders`: the verdict or verdicts that the policy goes by, by position."""
    if len(orders) == 1:
        return outcome_of(next(iter(orders.values())))
    first, second = orders["first"], orders["second"]
    both = cast(Outcome, strict(outcome_of(first), outcome_of(second)))
    if policy == "upstream" and judge_rule == "pandalm" and both not in ("failed", "unparsed"):
        return "tie" if first.verdict == second.verdict else outcome_of(first)
    return both


def strict(one: str, other: str) -> str:
    """The outcome of a pair in two orders: a tie if they disagree.

    A verdict that is missing is never a tie: `failed` before `unparsed`.
    """
    for missing in ("failed", "unparsed"):
        if missing in (one, other):
            return missing
    return one if one == other else "tie"


@dataclass(frozen=True)
class Margins:
    """How far verdicts prefer the answer shown first: log-odds in nats, or the difference of two ratings.

    `shown`: log-odds from the labels' log-probabilities, by instruction and position; a weighted judge's preference and
    ratings are in the verdicts themselves. `tie`: a smaller mean of both orders is a tie. `largest_grade`: of a judge
    whose preferences are grades, see `graded`; None for others.
    """

    shown: Mapping[tuple[str, str], float] = field(default_factory=dict)
    tie: float = 0.0
    largest_grade: float | None = None

    def of(self, judgment: ShownVerdict) -> float | None:
        """The margin of a readable verdict, in the order shown; None if the judge gave a bare verdict."""
        if is_identical(judgment):
            return 0.0
        if judgment.preference is not None:
            share = 2.0 - judgment.preference  # of the answer shown first
            return math.inf if share >= 1 else -math.inf if share <= 0 else math.log(share / (1 - share))
        if judgment.ratings is not None:
            return judgment.ratings[0] - judgment.ratings[1]
        return self.shown.get((judgment.instruction, judgment.position))


NO_MARGINS = Margins()


def averaged(shown_first: float, shown_second: float) -> float:
    """The mean margin of one answer over both orders.

    What a judge adds for a position is added once and subtracted once, so a position bias that is additive cancels.
    For two ratings this is half of the difference of the sums over both orders (balanced position calibration, Wang et
    al., Large Language Models are not Fair Evaluators, arXiv 2305.17926).

    Args:
        shown_first: the margin for the answer shown first, in the order in which the answer was shown first.
        shown_second: the same in the other order, in which the other answer was shown first.
    """
    mean = (shown_first - shown_second) / 2
    # Two certainties that contradict each other are a tie; so is a rest of rounding.
    return 0.0 if math.isnan(mean) or abs(mean) < 1e-9 else mean


def outcome_of_margin(margin: float, tie: float) -> Outcome:
    """`win` for a positive margin, `tie` for none or one below `tie`."""
    return "tie" if margin == 0 or abs(margin) < tie else "win" if margin > 0 else "loss"


POINTS: dict[Outcome, float] = {"win": 1.0, "tie": 0.5, "loss": 0.0}


def outcome_of_score(score: float) -> Outcome:
    """`win` for the candidate above 1/2, `tie` at 1/2."""
    return "tie" if score == 0.5 else "win" if score > 0.5 else "loss"


@dataclass(frozen=True)
class PairResult:
    """The result of one pair under a policy.

    `score`: 1 the candidate is better, 0 the baseline, 1/2 a tie, and a weighted judge's grades in between; None
    without a verdict. `tie`: why the pair is a tie; None if it is none. `weight`: how often the pair counts, by a judge
    whose grades say so. `conversation`: of which the pair is a turn; empty if it stands for itself.
    """

    instruction: str
    dataset: str
    outcome: Outcome
    score: float | None
    tie: TieKind | None = None
    weight: float = 1.0
    conversation: str = ""

    @property
    def unit(self) -> str:
        """What is drawn at random: the conversation, or the pair."""
        return self.conversation or self.instruction

    @property
    def mirrored(self) -> PairResult:
        """The result as the baseline sees it."""
        outcome = {"win": "loss", "loss": "win"}.get(self.outcome, self.outcome)
        return replace(self, outcome=cast(Outcome, outcome), score=None if self.score is None else 1 - self.score)


def weighted_scores(pairs: Sequence[PairResult | None]) -> NDArray[np.float64]:
    """The score of each pair, so that their mean is the weighted one; NaN: it has no verdict."""
    scores = np.array([math.nan if pair is None or pair.score is None else pair.score for pair in pairs], dtype=float)
    weights = np.array([1.0 if pair is None else pair.weight for pair in pairs])
    judged = np.flatnonzero(np.isfinite(scores))
    if len(judged):
        scores[judged] = cluster_values(scores[judged], np.arange(len(judged)), weights[judged])
    return scores


def graded(grades: Sequence[float]) -> tuple[float, float]:
    """The score of a pair in all its orders, and its weight.

    A verdict counts as often as its grade is large, and a tie once: Arena-Hard's rule (lmarena/arena-hard-auto,
    show_result.py), which counts A>>B as three wins.

    Args:
        grades: of the verdicts, positive if the candidate is better.
    """
    weights = [abs(grade) or 1.0 for grade in grades]
    points = sum(weight * (0.5 if grade == 0 else grade > 0) for grade, weight in zip(grades, weights, strict=True))
    return points / sum(weights), sum(weights)


def is_weighted(judgments: Sequence[ShownVerdict]) -> bool:
    """Whether the judge graded its preferences: one of them is not a plain win, tie or loss."""
    return any(judgment.preference not in (None, *PREFERENCES.values()) for judgment in judgments)


def results_by_policy(
    judgments: Sequence[ShownVerdict], judge_rule: str | None = None, margins: Margins = NO_MARGINS
) -> dict[Policy, list[PairResult]]:
    """Each pair's result under every policy that the judgments allow.

    Without a pair shown in both orders this is `single` alone. Under a policy for both orders, pairs shown in only one
    are left out. `upstream` is for judges whose authors have a rule that is not `strict`; `averaged` needs a margin of
    every readable verdict.

    Args:
        judge_rule: as in pair_results.
        margins: those that are not in the verdicts themselves.
    """
    times = Counter(judgment.instruction for judgment in judgments)
    results: dict[Policy, list[PairResult]] = {"single": pair_results(judgments, "single", judge_rule, margins)}
    if both := [judgment for judgment in judgments if times[judgment.instruction] == 2]:
        further = {"strict": True, "upstream": judge_rule == "pandalm", "averaged": _have_margins(both, margins)}
        for policy in get_args(Policy):
            if further.get(policy):
                results[policy] = pair_results(both, policy, judge_rule, margins)
    return results


def _have_margins(judgments: Sequence[ShownVerdict], margins: Margins) -> bool:
    asked = [j for j in judgments if j.verdict not in ("unparsed", "failed") and not is_identical(j)]
    return margins.largest_grade is None and bool(asked) and all(margins.of(judgment) is not None for judgment in asked)


def leading_policy(by_policy: Collection[Policy], wanted: Policy) -> Policy:
    """The policy whose figures lead: the one wanted, if the pairs were shown in the orders it needs."""
    if wanted == "upstream" and wanted not in by_policy:
        wanted = "strict"  # which it is for a judge whose authors have no other rule
    return wanted if wanted in by_policy else "single"


def pair_results(
    judgments: Sequence[ShownVerdict], policy: Policy, judge_rule: str | None = None, margins: Margins = NO_MARGINS
) -> list[PairResult]:
    """Each pair's result, in the order of the judgments; `margins` as in results_by_policy.

    `single`: one order per pair, drawn from a seed. `strict`: both orders; a tie if they disagree. `upstream`: what the
    judge's authors do (`judge_rule`, the parser's name): PandaLM takes the first order's verdict unless the swap shows
    that it preferred a position; for all other judges `upstream` is `strict`. `averaged`: the side that the mean margin
    of both orders is on; a weighted judge's score is the logistic function of that mean.

    A missing verdict is never a tie: `failed` before `unparsed`, and a pair with one has no result under a policy for
    both orders.

    Under the other policies a weighted judge's score is its preference for the candidate, or the mean of the two if the
    policy takes both orders: this is to graded preferences what a tie for disagreement is to counted ones. A judge that
    grades by labels has the score and weight of `graded`.
    """
    from scipy.special import expit  # takes half a second

    weighted, largest = is_weighted(judgments), margins.largest_grade
    pairs: dict[str, dict[str, ShownVerdict]] = {}
    for judgment in judgments:
        pairs.setdefault(judgment.instruction, {})[judgment.position] = judgment
    results = []
    for instruction, orders in pairs.items():
        if policy == "single" and len(orders) == 2:
            drawn = "second" if candidate_is_second(instruction) else "first"
            orders = {drawn: orders[drawn]}
        outcome = _outcome(orders, policy, judge_rule)
        score, weight = POINTS.get(outcome), 1.0
        if policy == "averaged" and score is not None:
            mean = _mean_margin(orders, margins)
            outcome = outcome_of_margin(mean, 0.0 if weighted else margins.tie)
            score = float(expit(mean)) if weighted else POINTS[outcome]
        elif largest and score is not None:
            score, weight = graded([round((2 * _score(verdict) - 1) * largest, 6) for verdict in orders.values()])
            outcome = outcome_of_score(score)
        elif weighted and score is not None:
            score = sum(map(_score, orders.values())) / len(orders)
            outcome = outcome_of_score(score)
        tie = _tie_kind(orders.values()) if outcome == "tie" else None
        results.append(PairResult(instruction, next(iter(orders.values())).dataset, outcome, score, tie, weight))
    return results


def _tie_kind(orders: Collection[ShownVerdict]) -> TieKind:
    if all(map(is_identical, orders)):
        return "identical"
    return "called" if len(set(map(outcome_of, orders))) == 1 else "contradicted"


def _mean_margin(orders: Mapping[str, ShownVerdict], margins: Margins) -> float:
    """The candidate's, from both orders.

    Raises:
        ValueError: an order is missing, or a verdict has no margin.
    """
    one, other = (margins.of(orders[position]) if position in orders else None for position in ("first", "second"))
    if one is None or other is None:
        raise ValueError("the policy averaged needs both orders, and a margin of each verdict")
    return averaged(one, other)


def _score(judgment: ShownVerdict) -> float:
    """A readable verdict's preference for the candidate, 0 to 1."""
    # A pair that needed no request, such as two equal answers, has a verdict but no preference.
    preference = PREFERENCES[judgment.verdict] if judgment.preference is None else judgment.preference
    return 2.0 - preference if judgment.position == "first" else preference - 1.0


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
