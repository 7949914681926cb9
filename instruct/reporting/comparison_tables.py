"""The tables of comparisons: of each, of judges' agreement, of training seeds, of pairs, of each over each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from statistics import fmean
from typing import Any, NamedTuple

from instruct.analysis.results import SINGLE_SEEDS, Claim, LengthFigures, StyleControl, StyleTerm
from instruct.analysis.style import STYLE_TERMS
from instruct.reporting.digits import number, span
from instruct.reporting.model import (
    ComparisonReport,
    LengthControl,
    Panel,
    Ratings,
    ReportData,
    compared_by,
)
from instruct.reporting.tables import (
    DIFFERENCE,
    PAIR,
    RATE,
    TESTED,
    Column,
    Table,
    columns_table,
    text_columns,
)
from instruct.reporting.text import EXPLORATORY, POLICIES, probability
from instruct.scores.claims import mirrored

_SEEDS = (
    "The same comparison with systems trained with different seeds. The standard deviation is between the seeds' "
    "win rates. The interval over seeds (Student's t) covers other trainings, answering these prompts; the one "
    "over both also covers other prompts. The intervals above cover other prompts for one training."
)
_PAIRED = (
    "The candidate's win rate minus the other's, in points, over the prompts judged for both, with its 95 % "
    "interval and the p-value of the paired test; these two are of one difference alone. "
    "p (Holm) is corrected for all of these differences."
)


# All, those without a verdict, too.
PAIRS = Column("pairs", "counts.n")


class _Specification(NamedTuple):
    """A table of a comparison, without the notes of its rows."""

    title: str
    rows: Sequence[Any]
    columns: Sequence[Column]
    note: str = ""
    exploratory: bool = False


def comparison_tables(comparison: ComparisonReport) -> list[Table]:
    """The figures of a comparison."""
    makers = (
        _policies,
        _tests,
        _labels,
        _orders,
        _ratings,
        _parts,
        _lengths,
        _style,
        _reasons,
    )
    tables = []
    for title, rows, columns, note, exploratory in (make(comparison) for make in makers):
        notes = dict.fromkeys(text for row in rows if (text := getattr(row, "note", None)))
        about = f"{comparison.candidate} against {comparison.baseline}"
        note = " ".join(filter(None, [note, *(f"{about}: {text}." for text in notes)]))
        tables.append(columns_table(title, rows, columns, note, exploratory))
    return tables


def _policies(comparison: ComparisonReport) -> _Specification:
    """The verdicts and the win rate under each policy."""
    claims = [claim for claim in (comparison.claim, comparison.strict) if claim is not None]
    used = dict.fromkeys(str(claim.policy) for claim in claims)
    known = POLICIES | {"single": "each answer judged alone"} if _judged_alone(comparison) else POLICIES
    meanings = "; ".join(f"{policy}: {known.get(policy, policy)}" for policy in used)
    note = f"Policies: {meanings}."
    if comparison.strict is not None:
        note += f" Those that do not lead: {EXPLORATORY}."
    return _Specification("Verdicts by policy", claims, _COUNTED, note)


def brief_table(comparisons: Sequence[ComparisonReport]) -> Table:
    """The counts and win rates in short, for a terminal; baseline and policy are left out where there is one.

    The headlines have the bounds and the kinds of ties.
    """
    columns = [
        PAIR[0],
        replace(PAIR[1], when=len({comparison.baseline for comparison in comparisons}) > 1),
        Column("policy", "claim.policy", text=True, when=len({each.claim.policy for each in comparisons}) > 1),
        PAIRS,
        *(Column(key, f"counts.{key}") for key in ("win", "tie", "loss")),
        Column("unread", "counts.unread", when="known"),
        Column("win rate", "claim.value", error="claim.error"),
        Column("95 % CI", "claim.interval"),
    ]
    return columns_table("Verdicts by policy", comparisons, columns)


# Of claims on a judge's verdicts.
_COUNTED = [
    Column("policy", lambda claim: f"{claim.policy} ({'leads' if claim.family else 'exploratory'})", text=True),
    PAIRS,
    *(Column(name, f"counts.{name}") for name in ("win", "tie")),
    Column(
        "contradicted",
        "counts.contradicted",
        when="known",
        note="Contradicted: the ties of pairs whose verdict changed with the order; they are among the ties.",
    ),
    Column(
        "identical",
        "counts.identical",
        when="known",
        note="Identical: the ties between two identical answers, which the judge was not asked about; they are among "
        "the ties.",
    ),
    Column("loss", "counts.loss"),
    *(Column(name, f"counts.{name}", when="known") for name in ("unparsed", "failed")),
    Column(
        "win rate %",
        "value",
        error="error",
        note="The win rate is over the pairs with a verdict; a tie counts as half a win.",
    ),
    Column("std. error", "standard_error", error="error"),
    Column("95 % CI", "interval"),
    Column(
        "discrete % (exploratory)",
        "counts.discrete_win_rate",
        error="error",
        note="Weighted judges grade their preference: the win rate is the mean grade; win, tie, loss and the discrete "
        "rate count whom it prefers. A policy for both orders takes the mean of the two grades.",
    ).within(lambda claim: claim if claim.counts.weighted else None),
    Column(
        "bounds %",
        "counts.bounds",
        error="error",
        note="Bounds: the win rate with every unparsed and failed pair lost or won.",
    ).within(lambda claim: claim if claim.counts.unread else None),
]


def _tests(comparison: ComparisonReport) -> _Specification:
    columns = [
        Column("test"),
        Column("pairs without ties", "counts.decided"),
        *TESTED,
        Column("claims", when="known"),
    ]
    least = Column(
        "min. detectable",
        "detectable",
        note="Minimum detectable difference, where none is claimed: the smallest distance from 50, in points, that "
        "this number of pairs detects with 80 % power at 5 % divided by the number of claims.",
    )
    note = (
        "Two-sided p-values under the leading policy, with missing verdicts lost or won; p (Holm) is corrected for "
        "all claims of all judges, and the finding follows it."
    )
    columns.append(least.within(lambda claim: None if claim.has_winner else claim))
    return _Specification("Significance and power", [comparison.claim], columns, note)


def _judged_alone(comparison: ComparisonReport) -> bool:
    """Whether the judge saw one answer at a time, so that a pair has no order."""
    return comparison.orders == "alone"


def _orders(comparison: ComparisonReport) -> _Specification:
    alone = _judged_alone(comparison)
    columns = [
        Column("orders", text=True, when=not alone),
        Column("pairs judged", lambda it: f"{it.pairs_judged} of {it.pairs_expected}"),
        Column(
            "consistency %",
            "consistency",
            note="Consistency: the same answer preferred in both orders, over pairs readable in both.",
        ),
        Column("of pairs", "consistency_n", when="known"),
        Column(
            "first position %",
            "first_position_rate",
            note="First position: share of verdicts other than ties for the answer shown first; 50 means no position "
            "bias.",
        ),
        Column("of verdicts", "first_position_n", when="known"),
        Column("trimmed", when="known"),
        Column("requests"),
    ]
    note = "Each answer was judged alone, so there is no order that could make a difference." if alone else ""
    title = "Pairs judged" if alone else "Order of the answers"
    return _Specification(title, [comparison], columns, note)


def _labels(comparison: ComparisonReport) -> _Specification:
    columns = [
        Column("labels", lambda people: f"{people.labels} of {people.pairs}"),
        *RATE,
        Column("p (Holm)", "claim.adjusted_p", form=probability),
        Column("labels alone % (exploratory)", "labels_only", error="labels_only_interval"),
        Column("95 % CI", "labels_only_interval"),
        Column("judge alone % (exploratory)", "judge_only", error="interval"),
        Column("worth labels", "effective_labels"),
        Column(
            "labels for ±2 points",
            lambda it: f"{it.labels_needed:,}" if it.labels_needed else "not reachable with these prompts",
        ),
    ]
    note = (
        "Prediction-powered inference (PPI++): the judge's verdicts on all pairs, corrected by people's labels on "
        "some, which must be a random sample. Worth labels: how many labels alone would give the same interval. The "
        "last column: labels for an interval of ±2 points."
    )
    return _Specification("With people's labels", _known(comparison.with_labels), columns, note)


def _known(part: object) -> list[Any]:
    """The row of a part, or none where it is missing."""
    return [part] if part else []


def _ratings(comparison: ComparisonReport) -> _Specification:
    rows = _known(comparison.ratings)
    columns = [
        Column("candidate's mean", "candidate"),
        Column("other's mean", "baseline"),
        *(
            Column(f"turn {turn + 1}", partial(_turn, turn))
            for turn in range(max((len(ratings.turns) for ratings in rows), default=0))
        ),
        Column("pairs", "n"),
    ]
    how = "Each answer was rated alone" if _judged_alone(comparison) else "Both answers were rated in one reply"
    return _Specification("Mean ratings", rows, columns, f"{how}: the higher rating wins, equal ratings tie.")


def _turn(place: int, ratings: Ratings) -> str | None:
    """The candidate's and the baseline's mean rating in a turn."""
    if place >= len(ratings.turns):
        return None
    return f"{number(ratings.turns[place].candidate)} and {number(ratings.turns[place].baseline)}"


def _parts(comparison: ComparisonReport) -> _Specification:
    parts = comparison.parts if len(comparison.parts) > 1 else []
    rows = [part for part in parts if part.win_rate is not None]
    counts = [Column("n"), Column("win"), Column("tie"), Column("loss"), Column("no verdict", "unread", when="known")]
    columns = [Column("data set", "dataset", text=True), *counts, *RATE]
    return _Specification("By data set", rows, columns, exploratory=True)


class _Length(NamedTuple):
    figures: LengthFigures | None
    control: LengthControl | None

    @property
    def note(self) -> str | None:
        """Why a rate is missing, or a caveat."""
        parts = (self.figures, self.control)
        return "; ".join(part.note for part in parts if part and part.note) or None


def _lengths(comparison: ComparisonReport) -> _Specification:
    length = _Length(comparison.length, comparison.length_control)
    columns = [
        Column("candidate's mean characters", "figures.candidate_mean"),
        Column("other's mean characters", "figures.baseline_mean"),
        Column(
            "length",
            _coefficient,
            note="Length: the coefficient per standard deviation in a logistic regression of the scores on "
            "tanh(d / std(d)), d the candidate's characters minus the other's.",
        ).within(lambda row: row.figures and row.figures.term),
        Column("p of length", "p", form=probability).within(lambda row: row.figures and row.figures.term),
        Column("length-controlled win rate %", "control.win_rate", form=".1f"),
    ]
    return _Specification("Length", [length] if any(length) else [], columns, exploratory=True)


def _style(comparison: ComparisonReport) -> _Specification:
    columns = [
        Column("Arena-Hard's score", "score", error="score_interval"),
        Column("95 % CI", "score_interval"),
        *(Column(term, _coefficient).within(partial(_term, term)) for term in STYLE_TERMS),
    ]
    note = (
        "Style control by Arena-Hard's model: a logistic regression on the differences in length, headers, lists and "
        "bold, with the coefficient of each per standard deviation and its 95 % interval. Arena-Hard's score is at the "
        "mean style of these pairs. What a better answer needs of style is taken away, too."
    )
    return _Specification("Style", _known(comparison.style), columns, note, exploratory=True)


def _term(name: str, style: StyleControl) -> StyleTerm | None:
    return next((term for term in style.terms if term.name == name), None)


def _coefficient(term: StyleTerm) -> str:
    interval = f" ({span(term.interval, sign=True)})" if term.interval else ""
    return f"{number(term.coefficient, term.interval, sign=True)}{interval}"


def _reasons(comparison: ComparisonReport) -> _Specification:
    columns = [Column("verdict", text=True), Column("reason", text=True), Column("verdicts", "n")]
    note = "Verdicts as shown: a pair judged in both orders has two."
    return _Specification("Verdicts with a reason", comparison.reasons, columns, note)


def panel_table(panel: Panel) -> Table:
    """How the judges of one comparison agree."""
    policies = ", ".join(f"{name} ({policy})" for name, policy in panel.policies.items())
    columns = [
        Column("judges", lambda it: " and ".join(it.judges), text=True),
        Column("pairs", "n"),
        Column("agreement %", "agreement"),
        Column("Cohen's kappa", "kappa", form=".2f"),
    ]
    title = f"Agreement between judges: {panel.candidate} against {panel.baseline}"
    return columns_table(title, panel.agreements, columns, f"Judges, each under its leading policy: {policies}.")


def seeds_table(claims: Sequence[Claim]) -> Table:
    """Comparisons made with several training seeds, over all of them."""
    columns = [
        *text_columns("judge", "policy"),
        *PAIR,
        Column("seeds", lambda claim: ", ".join(map(str, claim.params["seeds"])), text=True),
        Column("win rates", lambda claim: ", ".join(map(number, claim.params["win_rates"])), text=True),
        Column("mean", "value", error="interval"),
        Column("standard deviation", "params.standard_deviation", error="interval"),
        Column("95 % CI over seeds", "params.interval_seeds", error="interval"),
        Column("over seeds and prompts", "interval"),
        *TESTED[1:],
    ]
    return columns_table("Training seeds", claims, columns, _SEEDS)


def paired_table(claims: Sequence[Claim]) -> Table:
    """Systems that a judge compared with the same third one."""
    columns = [
        *text_columns("judge", "policy"),
        *PAIR,
        Column("both against", "through", text=True),
        Column("prompts", "n"),
        *DIFFERENCE,
        *TESTED,
    ]
    return columns_table("Systems compared with the same third one", claims, columns, _PAIRED)


def matrix_tables(report: ReportData) -> list[tuple[str, Table]]:
    """The judges with more than two systems, and for each leading policy their table; single seeds are left out."""
    groups: dict[tuple[str, str], list[Claim]] = {}
    for judge, comparison in compared_by(report.judges):
        if comparison.claim.family != SINGLE_SEEDS and comparison.claim.value is not None:
            groups.setdefault((judge.name, str(comparison.claim.policy)), []).append(comparison.claim)
    return [
        (judge, _matrix_table(f"{judge} ({policy})", made))
        for (judge, policy), made in groups.items()
        if len({name for claim in made for name in (claim.candidate, claim.baseline)}) > 2
    ]


def _matrix_table(by: str, made: Sequence[Claim]) -> Table:
    """Systems by their mean win rate, the best first; nothing where two were not compared."""
    rates: dict[str, dict[str, float | None]] = {}
    for seen in (*map(mirrored, made), *made):
        rates.setdefault(seen.candidate, {})[seen.baseline] = seen.value
    names = sorted(rates, key=lambda name: (-fmean(rate or 0.0 for rate in rates[name].values()), name))
    rows = [[name, *(rates[name].get(other) for other in names)] for name in names]
    return Table(
        f"Win rate (%) of row over column by {by}", ["system", *names], rows, note="A tie counts as half a win"
    )
