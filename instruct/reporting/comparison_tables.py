"""The tables of a judge's comparisons, and of a panel of judges."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

from instruct.analysis.results import StyleControl
from instruct.analysis.style import STYLE_TERMS
from instruct.reporting.model import ComparisonReport, Panel, Ratings, TallyFigures
from instruct.reporting.tables import Column, Table, columns_table
from instruct.reporting.text import POLICIES, probability

_RATES = (
    "The win rate is over the pairs with a verdict; a tie counts as half a win. Bounds: worst- and best-case win rate, "
    "with every unparsed and failed pair lost or won."
)
_WEIGHTED = (
    " Weighted judges grade their preference: the win rate is the mean grade, and the discrete rate counts which side "
    "of a tie it is on, as do win, tie and loss. A policy for both orders takes the mean of the two grades."
)
_IDENTICAL = (
    " Identical: the ties between two identical answers, which the judge was not asked about; they are among the ties."
)
_CONTRADICTED = " Contradicted: the ties of pairs whose verdict changed with the order; they are among the ties."
_ORDERS = (
    "Consistency: the same answer preferred in both orders, over pairs readable in both. First position: share of "
    "verdicts other than ties for the answer shown first; 50 means no position bias."
)
_POWER = (
    "Two-sided p-values under the leading policy. Adjusted: by Holm's method for all claims of the judge; the finding "
    "follows it. Minimum detectable difference: the smallest distance from 50, in "
    "points, that this number of pairs detects with 80 % power at the 5 % level; pairs needed: for the difference "
    "observed."
)
_LABELS = (
    "Prediction-powered inference (PPI++): the judge's verdicts on all pairs, corrected by people's labels on "
    "some, which must be a random sample. Worth labels: how many labels alone would give the same interval. The "
    "last column: labels for an interval of ±2 points."
)
_BINS = (
    "Fifths of the pairs, or fewer groups of at least 5, by how many characters the candidate's answer is longer than "
    "the baseline's."
)
_STYLE = (
    "Style control by Arena-Hard's model: a logistic regression on the differences in length, headers, lists and bold, "
    "with the coefficient of each per standard deviation and its 95 % interval. Arena-Hard's score is at the mean "
    "style of these pairs. What a better answer needs of style is taken away, too."
)
_NOISE = (
    "The judge was asked several times about each pair, whose score is the mean. Changed: pairs whose verdicts differ. "
    "Standard deviation: of one verdict's score within a pair, in points. Then what this noise alone adds to the win "
    "rate's interval, and its part of the variance; prompts are the rest, which more samples do not lower."
)

# A row of a table: a comparison, and what of it the row is about.
_Rows = Sequence[tuple[ComparisonReport, Any]]


class _Tally(NamedTuple):
    by: str
    figures: TallyFigures


def comparison_tables(comparisons: Sequence[ComparisonReport], named: bool = True) -> list[Table]:
    """The figures of one judge's comparisons; tables without rows are left out.

    Args:
        named: whether the first two columns name candidate and baseline.
    """
    makers = (
        policy_table,
        _tests,
        _labels,
        _orders,
        _ratings,
        _parts,
        _lengths,
        _length_bins,
        _style,
        _noise,
        _reasons,
    )
    return [table for table in (make(comparisons, named) for make in makers) if table.rows]


def _table(title: str, rows: _Rows, columns: Sequence[Column], named: bool, note: str = "") -> Table:
    """A table with a row per entry, after the names of its comparison if `named`."""
    names = [Column(name, text=True, when=named).within(itemgetter(0)) for name in ("candidate", "baseline")]
    own = [column.within(itemgetter(1)) for column in columns]
    return columns_table(title, rows, [*names, *own], note)


def _itself(comparisons: Sequence[ComparisonReport]) -> _Rows:
    return [(comparison, comparison) for comparison in comparisons]


def policy_table(comparisons: Sequence[ComparisonReport], named: bool = True) -> Table:
    """The verdicts and the win rate under each policy."""
    rows = [
        (comparison, _Tally(f"{policy} (leads)" if policy == comparison.leading else policy, figures))
        for comparison in comparisons
        for policy, figures in comparison.policies.items()
    ]
    every = [row.figures for _, row in rows]
    used = dict.fromkeys(policy for comparison in comparisons for policy in comparison.policies)
    known = POLICIES | {"single": "each answer judged alone"} if _judged_alone(comparisons) else POLICIES
    meanings = "; ".join(f"{policy}: {known.get(policy, policy)}" for policy in used)
    columns = [Column("policy", "by", text=True), *_tally_columns(every)]
    return _table("Verdicts by policy", rows, columns, named, f"Policies: {meanings}. {_RATES}{_tally_note(every)}")


def brief_table(comparisons: Sequence[ComparisonReport]) -> Table:
    """The counts and win rates in short, for a terminal; of several baselines the leading policies alone.

    The headlines have the bounds, the kinds of ties and the discrete rates; names and policies are left out where
    there is one.
    """
    baselines = {comparison.baseline for comparison in comparisons}
    rows = [
        (comparison, policy, figures)
        for comparison in comparisons
        for policy, figures in comparison.policies.items()
        if policy == comparison.leading or len(baselines) == 1
    ]
    policies = {policy for _, policy, _ in rows}
    columns = [
        Column("candidate", "candidate", text=True).within(itemgetter(0)),
        Column("baseline", "baseline", text=True, when=len(baselines) > 1).within(itemgetter(0)),
        Column("policy", lambda row: f"{row[1]}{' (leads)' * (row[1] == row[0].leading)}", True, len(policies) > 1),
        *(Column(key).within(itemgetter(2)) for key in ("n", "win", "tie", "loss")),
        Column("unread", lambda row: row[2].unparsed + row[2].failed, when="known"),
        Column("win rate", lambda row: row[2].win_rate),
        Column("95 % CI", lambda row: row[2].interval),
    ]
    return columns_table("Verdicts by policy", rows, columns)


def _tally_columns(every: Sequence[TallyFigures]) -> list[Column]:
    """The columns of rows with `figures`."""
    counts = ("n", "win", "tie", "contradicted", "identical", "loss", "unparsed", "failed")
    optional = ("contradicted", "identical")
    return [
        *(Column(name, f"figures.{name}", when="known" if name in optional else True) for name in counts),
        Column("win rate %", "figures.win_rate"),
        Column("discrete %", "figures.discrete_win_rate", when=_weighted(every)),
        Column("std. error", "figures.standard_error"),
        Column("95 % CI", "figures.interval"),
        Column("bounds %", "figures.bounds"),
    ]


def _weighted(every: Sequence[TallyFigures]) -> bool:
    return any(figures.kind == "weighted" for figures in every)


def _tally_note(every: Sequence[TallyFigures]) -> str:
    """What the columns mean that only some tables have."""
    return (
        _CONTRADICTED * any(figures.contradicted for figures in every)
        + _IDENTICAL * any(figures.identical for figures in every)
        + _WEIGHTED * _weighted(every)
    )


def _tests(comparisons: Sequence[ComparisonReport], named: bool) -> Table:
    columns = [
        Column("sign test p", lambda it: probability(it.significance.sign_test.p)),
        Column("pairs without ties", "significance.sign_test.n"),
        Column("permutation p", lambda it: probability(it.significance.permutation_test.p)),
        Column("resamples", "significance.permutation_test.resamples"),
        Column("adjusted p", lambda it: probability(it.significance.adjusted_p)),
        Column("claims", "significance.claims"),
        Column("min. detectable", "power.smallest_difference"),
        Column("pairs needed", lambda it: None if it.power.pairs_needed is None else f"{it.power.pairs_needed:,}"),
    ]
    return _table("Significance and power", _itself(comparisons), columns, named, _POWER)


def _judged_alone(comparisons: Sequence[ComparisonReport]) -> bool:
    """Whether the judge saw one answer at a time, so that a pair has no order."""
    return all(comparison.orders == "alone" for comparison in comparisons)


def _orders(comparisons: Sequence[ComparisonReport], named: bool) -> Table:
    alone = _judged_alone(comparisons)
    columns = [
        Column("orders", text=True, when=not alone),
        Column("pairs judged", lambda it: f"{it.pairs_judged} of {it.pairs_expected}"),
        Column("consistency %", "consistency", when=not alone),
        Column("of pairs", "consistency_n", when=not alone),
        Column("first position %", "first_position_rate", when=not alone),
        Column("of verdicts", "first_position_n", when=not alone),
        Column("trimmed"),
        Column("requests"),
    ]
    note = "Each answer was judged alone, so there is no order that could make a difference." if alone else _ORDERS
    return _table("Pairs judged" if alone else "Order of the answers", _itself(comparisons), columns, named, note)


def _labels(comparisons: Sequence[ComparisonReport], named: bool) -> Table:
    rows = [(comparison, people) for comparison in comparisons if (people := comparison.with_labels)]
    columns = [
        Column("labels", lambda people: f"{people.labels} of {people.pairs}"),
        Column("win rate %", "win_rate"),
        Column("95 % CI", "interval"),
        Column("labels alone %", "labels_only"),
        Column("95 % CI", "labels_only_interval"),
        Column("judge alone %", "judge_only"),
        Column("worth labels", "effective_labels"),
        Column(
            "labels for ±2 points",
            lambda it: f"{it.labels_needed:,}" if it.labels_needed else "not reachable with these prompts",
        ),
    ]
    return _table("With people's labels", rows, columns, named, _LABELS)


def _ratings(comparisons: Sequence[ComparisonReport], named: bool) -> Table:
    rows = [(comparison, comparison.ratings) for comparison in comparisons if comparison.ratings]
    most = max((len(ratings.turns) for _, ratings in rows), default=0)
    columns = [
        Column("candidate's mean", lambda ratings: f"{ratings.candidate:.2f}"),
        Column("baseline's mean", lambda ratings: f"{ratings.baseline:.2f}"),
        *(Column(f"turn {number + 1}", partial(_turn, number)) for number in range(most)),
        Column("pairs", "n"),
    ]
    together = any(comparison.orders != "alone" for comparison, _ in rows)
    how = "Both answers were rated in one reply" if together else "Each answer was rated alone"
    return _table("Mean ratings", rows, columns, named, f"{how}: the higher rating wins, equal ratings tie.")


def _turn(number: int, ratings: Ratings) -> str | None:
    """The candidate's and the baseline's mean rating in a turn."""
    if number >= len(ratings.turns):
        return None
    return f"{ratings.turns[number].candidate:.2f} and {ratings.turns[number].baseline:.2f}"


def _parts(comparisons: Sequence[ComparisonReport], named: bool) -> Table:
    rows = [(it, part) for it in comparisons for part in it.parts if len(it.parts) > 1]
    counts = [Column("n"), Column("win"), Column("tie"), Column("loss"), Column("no verdict", "unread")]
    rates = [Column("win rate %", "win_rate"), Column("95 % CI", "interval")]
    return _table("By data set", rows, [Column("data set", "dataset", text=True), *counts, *rates], named)


def _lengths(comparisons: Sequence[ComparisonReport], named: bool) -> Table:
    rows = [(it, it) for it in comparisons if it.length or it.length_control]

    lengths = [
        Column("candidate's mean characters", "candidate_mean"),
        Column("baseline's mean characters", "baseline_mean"),
        Column("win rate % at equal length", "adjusted.win_rate"),
        Column("95 % CI", "adjusted.interval"),
        Column("p of length", lambda length: probability(length.adjusted.slope_p)),
    ]
    controlled = any(comparison.length_control for comparison, _ in rows)
    rates = [
        Column("length-controlled win rate %", "win_rate", when=controlled),
        Column("std. error", "standard_error", when=controlled),
    ]
    columns = [column.within(attrgetter("length")) for column in lengths]
    columns += [column.within(attrgetter("length_control")) for column in rates]
    notes: dict[str, None] = {}
    for comparison, _ in rows:
        said = [comparison.length_control.note] if comparison.length_control else []
        if comparison.length:
            adjusted = comparison.length.adjusted
            notes[f"Win rate at equal length: {adjusted.model}."] = None
            said = [adjusted.note, *said] if adjusted.note else said
        notes |= dict.fromkeys(f"{comparison.candidate} against {comparison.baseline}: {text}." for text in said)
    return _table("Length", rows, columns, named, " ".join(notes))


def _length_bins(comparisons: Sequence[ComparisonReport], named: bool) -> Table:
    rows = [(it, part) for it in comparisons if it.length for part in it.length.by_difference]
    columns = [
        Column("characters longer", lambda part: f"{part.low} to {part.high}"),
        Column("pairs", "n"),
        Column("win rate %", "win_rate"),
        Column("95 % CI", "interval"),
    ]
    return _table("Win rate by length difference", rows, columns, named, _BINS)


def _style(comparisons: Sequence[ComparisonReport], named: bool) -> Table:
    rows = [(it, it.style) for it in comparisons if it.style]
    columns = [
        Column("win rate % at equal style", "win_rate"),
        Column("95 % CI", "interval"),
        Column("Arena-Hard's score", "score"),
        Column("95 % CI", "score_interval"),
        *(Column(term, partial(_coefficient, term)) for term in STYLE_TERMS),
    ]
    notes = [f"{it.candidate} against {it.baseline}: {style.note}." for it, style in rows if style.note]
    return _table("Style", rows, columns, named, " ".join([_STYLE, *notes]))


def _noise(comparisons: Sequence[ComparisonReport], named: bool) -> Table:
    rows = [(it, it.noise) for it in comparisons if it.noise]
    columns = [
        *(Column(key) for key in ("samples", "changed")),
        Column("of pairs", "n"),
        Column("missing"),
        Column("std. deviation", "standard_deviation"),
        Column("± points", "half_width"),
        Column("% of the variance", "share"),
    ]
    return _table("The judge's own noise", rows, columns, named, _NOISE)


def _coefficient(term: str, style: StyleControl) -> str | None:
    found = next((each for each in style.terms if each.name == term), None)
    if found is None:
        return None
    return f"{found.coefficient:+.2f}" + (" ({:+.2f} to {:+.2f})".format(*found.interval) if found.interval else "")


def _reasons(comparisons: Sequence[ComparisonReport], named: bool) -> Table:
    rows = [(comparison, reason) for comparison in comparisons for reason in comparison.reasons]
    columns = [Column("verdict", text=True), Column("reason", text=True), Column("verdicts", "n")]
    note = "Verdicts as shown: a pair judged in both orders has two."
    return _table("Verdicts with a reason", rows, columns, named, note)


def panel_tables(panel: Panel) -> list[Table]:
    """How the judges of one comparison agree, and what most of them say."""
    title = f"Panel: {panel.candidate} against {panel.baseline}"
    policies = ", ".join(f"{name} ({policy})" for name, policy in panel.policies.items())
    every = [panel.majority]
    note = (
        f"Judges, each under its leading policy: {policies}. Majority: the outcome that most judges gave; a tie "
        "between outcomes is a tie. A pair on which no more than half of the panel gave a verdict has none. "
        f"{_RATES}{_tally_note(every)}"
    )
    tally = [Column("by", text=True), *_tally_columns(every)]
    agreement = [
        Column("judges", lambda it: " and ".join(it.judges), text=True),
        Column("pairs", "n"),
        Column("agreement %", "agreement"),
        Column("Cohen's kappa", lambda it: None if it.kappa is None else f"{it.kappa:.2f}"),
    ]
    return [
        columns_table(f"{title}, majority", [_Tally("majority", panel.majority)], tally, note),
        columns_table(f"{title}, agreement", panel.agreements, agreement),
    ]
