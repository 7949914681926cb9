"""The tables of a judge's comparisons, of a panel of judges, and of comparisons over training seeds and in pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple

from instruct.analysis.results import Claim, EqualStyle, ErrorSources
from instruct.analysis.style import STYLE_TERMS
from instruct.reporting.digits import number, span
from instruct.reporting.model import ComparisonReport, Panel, Ratings, ReportData, TallyFigures
from instruct.reporting.tables import EXCLUDED, PAIR, RATE, Column, Table, columns_table, text_columns
from instruct.reporting.text import EXPLORATORY, POLICIES, probability

_RATES = "The win rate is over the pairs with a verdict; a tie counts as half a win."

_SEEDS = (
    "The same comparison with systems trained with different seeds. The standard deviation is between the seeds' "
    "win rates. The interval over seeds (Student's t) covers other trainings, answering these prompts; the one "
    "over both also covers other prompts. The intervals above cover other prompts for one training."
)
_PAIRED = (
    "The first's win rate minus the second's, in points, over the prompts judged for both, with its 95 % "
    "interval and the p-value of the paired test; these two are of one difference alone. "
    "Adjusted: by Holm's method for all of these differences."
)

_ERRORS = (
    "The parts of a win rate's squared error, with what each alone adds to the interval. Number: of prompts (or "
    "clusters), answers to each, verdicts of the judge on each, seeds. What is not repeated is part of what it is in: "
    "with one answer to each prompt, the answers' noise is in that of the prompts. More prompts lower every part but "
    "that of the seeds."
)

# A row of a table: a comparison, and what of it the row is about.
_Rows = Sequence[tuple[ComparisonReport, Any]]


class _Tally(NamedTuple):
    by: str
    figures: TallyFigures


def comparison_tables(comparisons: Sequence[ComparisonReport], named: bool = True) -> list[Table]:
    """The figures of one judge's comparisons.

    Args:
        named: whether the first two columns name candidate and baseline.
    """
    makers = (
        _policies,
        _tests,
        _labels,
        _judge_errors,
        _orders,
        _ratings,
        _parts,
        _lengths,
        _length_bins,
        _style,
        _reasons,
    )
    return [make(comparisons, named) for make in makers]


def _table(
    title: str, rows: _Rows, columns: Sequence[Column], named: bool, note: str = "", exploratory: bool = False
) -> Table:
    """A table with a row per entry, after the names of its comparison if `named`."""
    names = [replace(column, when=named).within(itemgetter(0)) for column in PAIR]
    own = [column.within(itemgetter(1)) for column in columns]
    return columns_table(title, rows, [*names, *own], note, exploratory)


def _parts_of(comparisons: Sequence[ComparisonReport], name: str) -> list[tuple[ComparisonReport, Any]]:
    """The comparisons that have a part of this name, or several of them."""
    parts = [(comparison, getattr(comparison, name)) for comparison in comparisons]
    return [(it, part) for it, value in parts if value for part in (value if isinstance(value, list) else [value])]


def _tallies(comparisons: Sequence[ComparisonReport]) -> list[tuple[ComparisonReport, _Tally]]:
    """The figures under each policy."""
    return [
        (comparison, _Tally(f"{policy} ({'leads' if policy == comparison.leading else 'exploratory'})", figures))
        for comparison in comparisons
        for policy, figures in comparison.policies.items()
    ]


def _policies(comparisons: Sequence[ComparisonReport], named: bool) -> Table:
    """The verdicts and the win rate under each policy."""
    rows = _tallies(comparisons)
    every = [row.figures for _, row in rows]
    used = dict.fromkeys(policy for comparison in comparisons for policy in comparison.policies)
    known = POLICIES | {"single": "each answer judged alone"} if _judged_alone(comparisons) else POLICIES
    meanings = "; ".join(f"{policy}: {known.get(policy, policy)}" for policy in used)
    columns = [Column("policy", "by", text=True), *_tally_columns(every)]
    note = f"Policies: {meanings}. {_RATES}{_tally_note(every)}"
    if any("exploratory" in row.by for _, row in rows):
        note += f" Policies that do not lead: {EXPLORATORY}."
    return _table("Verdicts by policy", rows, columns, named, note)


def brief_table(comparisons: Sequence[ComparisonReport]) -> Table:
    """The counts and win rates in short, for a terminal; baseline and policy are left out where there is one.

    The headlines have the bounds and the kinds of ties.
    """
    columns = [
        PAIR[0],
        replace(PAIR[1], when=len({comparison.baseline for comparison in comparisons}) > 1),
        Column("policy", "leading", text=True, when=len({comparison.leading for comparison in comparisons}) > 1),
        *(Column(key, f"leading_figures.{key}") for key in ("n", "win", "tie", "loss")),
        Column("unread", "leading_figures.unread", when="known"),
        Column("win rate", "leading_figures.win_rate", error="leading_figures.error"),
        Column("95 % CI", "leading_figures.claim.interval"),
    ]
    return columns_table("Verdicts by policy", comparisons, columns)


def _tally_columns(every: Sequence[TallyFigures]) -> list[Column]:
    """The columns of rows with `figures`."""
    counts = ("n", "win", "tie", "contradicted", "identical", "loss", "unparsed", "failed")
    optional = ("contradicted", "identical", "unparsed", "failed")
    weighted = any(figures.kind == "weighted" for figures in every)
    rates = {
        "win rate %": ("win_rate", True),
        "discrete % (exploratory)": ("discrete_win_rate", weighted),
        "std. error": ("standard_error", True),
        "95 % CI": ("claim.interval", True),
        "bounds %": ("bounds", any(figures.unread for figures in every)),
    }
    return [
        *(Column(name, f"figures.{name}", when="known" if name in optional else True) for name in counts),
        *(Column(name, f"figures.{key}", when=when, error="figures.error") for name, (key, when) in rates.items()),
    ]


def _tally_note(every: Sequence[TallyFigures]) -> str:
    """What the columns mean that only some tables have."""
    notes = []
    if any(figures.unread for figures in every):
        notes.append("Bounds: worst- and best-case win rate, with every unparsed and failed pair lost or won.")
    if any(figures.contradicted for figures in every):
        notes.append("Contradicted: the ties of pairs whose verdict changed with the order; they are among the ties.")
    if any(figures.identical for figures in every):
        notes.append(
            "Identical: the ties between two identical answers, which the judge was not asked about; they are among "
            "the ties."
        )
    if any(figures.kind == "weighted" for figures in every):
        notes.append(
            "Weighted judges grade their preference: the win rate is the mean grade; win, tie, loss and the discrete "
            "rate count whom it prefers. A policy for both orders takes the mean of the "
            "two grades."
        )
    return "".join(f" {note}" for note in notes)


def _tests(comparisons: Sequence[ComparisonReport], named: bool) -> Table:
    columns = [
        Column("test", "leading_figures.claim.test"),
        Column("p, not corrected", "leading_figures.claim.p", form=probability),
        Column("pairs without ties", lambda it: it.leading_figures.claim.params["decided"]),
        Column("adjusted p", "leading_figures.claim.adjusted_p", form=probability),
        Column("claims", "leading_figures.claim.claims"),
        EXCLUDED.within(lambda it: it.leading_figures.claim),
        Column("min. detectable", "smallest_difference"),
    ]
    note = (
        "Two-sided p-values under the leading policy, in the worst case of missing verdicts. Adjusted: by Holm's "
        "method for all claims of all judges; the "
        "finding follows it. Minimum detectable difference, where none is claimed: the smallest distance from 50, in "
        "points, that this number of pairs detects with 80 % power at 5 % divided by the number of claims. Excluded "
        "beyond: larger differences, by the 90 % interval."
    )
    return _table("Significance and power", [(it, it) for it in comparisons], columns, named, note)


def _judged_alone(comparisons: Sequence[ComparisonReport]) -> bool:
    """Whether the judge saw one answer at a time, so that a pair has no order."""
    return all(comparison.orders == "alone" for comparison in comparisons)


def _orders(comparisons: Sequence[ComparisonReport], named: bool) -> Table:
    alone = _judged_alone(comparisons)
    columns = [
        Column("orders", text=True, when=not alone),
        Column("pairs judged", lambda it: f"{it.pairs_judged} of {it.pairs_expected}"),
        Column("consistency %", "consistency"),
        Column("of pairs", "consistency_n", when="known"),
        Column("first position %", "first_position_rate"),
        Column("of verdicts", "first_position_n", when="known"),
        Column("trimmed", when="known"),
        Column("requests"),
    ]
    note = (
        "Consistency: the same answer preferred in both orders, over pairs readable in both. First position: share of "
        "verdicts other than ties for the answer shown first; 50 means no position bias."
    )
    if alone:
        note = "Each answer was judged alone, so there is no order that could make a difference."
    title = "Pairs judged" if alone else "Order of the answers"
    return _table(title, [(it, it) for it in comparisons], columns, named, note)


def _labels(comparisons: Sequence[ComparisonReport], named: bool) -> Table:
    columns = [
        Column("labels", lambda people: f"{people.labels} of {people.pairs}"),
        *RATE,
        Column("adjusted p", "claim.adjusted_p", form=probability),
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
    return _table("With people's labels", _parts_of(comparisons, "with_labels"), columns, named, note)


def _judge_errors(comparisons: Sequence[ComparisonReport], named: bool) -> Table:
    columns = [
        *text_columns("errors", "set"),
        Column("labels"),
        Column("sensitivity %", "sensitivity", error="sensitivity_interval"),
        Column("95 % CI", "sensitivity_interval"),
        Column("specificity %", "specificity", error="specificity_interval"),
        Column("95 % CI", "specificity_interval"),
        *RATE,
    ]
    rows = _parts_of(comparisons, "judge_errors")
    note = (
        "A sensitivity analysis, no claim: the win rate if the judge errs as on labels of other pairs (Rogan and "
        "Gladen), with the chance in verdicts and labels. Sensitivity: right where the label is for the candidate, a "
        "tie counting half; specificity: for the other. Shared: errors alike for both systems; apart: from labels "
        "of these two."
    )
    notes = [f"{it.candidate} against {it.baseline}, {rate.set}: {rate.note}." for it, rate in rows if rate.note]
    return _table("If the judge errs as elsewhere", rows, columns, named, " ".join([note, *notes]), True)


def _ratings(comparisons: Sequence[ComparisonReport], named: bool) -> Table:
    rows = _parts_of(comparisons, "ratings")
    columns = [
        Column("candidate's mean", "candidate", form=".2f"),
        Column("other's mean", "baseline", form=".2f"),
        *(
            Column(f"turn {turn + 1}", partial(_turn, turn))
            for turn in range(max((len(ratings.turns) for _, ratings in rows), default=0))
        ),
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
    parts = _parts_of([it for it in comparisons if len(it.parts) > 1], "parts")
    rows = [(it, part) for it, part in parts if part.win_rate is not None]
    counts = [Column("n"), Column("win"), Column("tie"), Column("loss"), Column("no verdict", "unread")]
    columns = [Column("data set", "dataset", text=True), *counts, *RATE]
    return _table("By data set", rows, columns, named, exploratory=True)


def _lengths(comparisons: Sequence[ComparisonReport], named: bool) -> Table:
    rows = [(it, it) for it in comparisons if it.length or it.length_control]
    columns = [
        Column("candidate's mean characters", "length.candidate_mean"),
        Column("other's mean characters", "length.baseline_mean"),
        Column("win rate % at equal length", "length.adjusted.win_rate", error="length.adjusted.interval"),
        Column("95 % CI", "length.adjusted.interval"),
        Column("length", lambda it: _coefficient("length", it.length.adjusted) if it.length else None),
        Column("p of length", _length_p, form=probability),
        *(
            Column(header, f"length_control.{key}", error="length_control.standard_error")
            for header, key in (("length-controlled win rate %", "win_rate"), ("std. error", "standard_error"))
        ),
    ]
    notes = [
        "Win rate at equal length: where d = 0 in a logistic regression of the scores on tanh(d / std(d)), d the "
        "candidate's characters minus the other's; length: its coefficient per standard deviation."
    ]
    for comparison, _ in rows:
        for part in (comparison.length.adjusted if comparison.length else None, comparison.length_control):
            if part and part.note:
                notes.append(f"{comparison.candidate} against {comparison.baseline}: {part.note}.")
    return _table("Length", rows, columns, named, " ".join(notes), True)


def _length_p(comparison: ComparisonReport) -> float | None:
    terms = comparison.length.adjusted.terms if comparison.length else []
    return terms[0].p if terms else None


def _length_bins(comparisons: Sequence[ComparisonReport], named: bool) -> Table:
    rows = [(it, part) for it in comparisons for part in it.bins_by_length]
    columns = [Column("characters longer", lambda part: f"{part.low} to {part.high}"), Column("pairs", "n"), *RATE]
    note = (
        "Fifths of the pairs, or fewer groups of at least 5, by how many characters the candidate's answer is longer "
        "than the other's."
    )
    return _table("Win rate by length difference", rows, columns, named, note, True)


def _style(comparisons: Sequence[ComparisonReport], named: bool) -> Table:
    rows = _parts_of(comparisons, "style")
    columns = [
        Column("win rate % at equal style", "win_rate", error="interval"),
        Column("95 % CI", "interval"),
        Column("Arena-Hard's score", "score", error="score_interval"),
        Column("95 % CI", "score_interval"),
        *(Column(term, partial(_coefficient, term)) for term in STYLE_TERMS),
    ]
    note = (
        "Style control by Arena-Hard's model: a logistic regression on the differences in length, headers, lists and "
        "bold, with the coefficient of each per standard deviation and its 95 % interval. Arena-Hard's score is at the "
        "mean style of these pairs. What a better answer needs of style is taken away, too."
    )
    notes = [f"{it.candidate} against {it.baseline}: {style.note}." for it, style in rows if style.note]
    return _table("Style", rows, columns, named, " ".join([note, *notes]), True)


def _coefficient(name: str, style: EqualStyle) -> str | None:
    for term in style.terms:
        if term.name == name:
            interval = f" ({span(term.interval, sign=True)})" if term.interval else ""
            return f"{number(term.coefficient, term.interval, sign=True)}{interval}"
    return None


def _reasons(comparisons: Sequence[ComparisonReport], named: bool) -> Table:
    columns = [Column("verdict", text=True), Column("reason", text=True), Column("verdicts", "n")]
    note = "Verdicts as shown: a pair judged in both orders has two."
    return _table("Verdicts with a reason", _parts_of(comparisons, "reasons"), columns, named, note)


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
        Column("Cohen's kappa", "kappa", form=".2f"),
    ]
    return [
        columns_table(f"{title}, majority", [_Tally("majority", panel.majority)], tally, note),
        columns_table(f"{title}, agreement", panel.agreements, agreement),
    ]


def seeds_table(claims: Sequence[Claim], run: str = "") -> Table:
    """Comparisons made with several training seeds, over all of them; `run`: which run's, if there are several."""
    columns = [
        *text_columns("judge", "policy"),
        *PAIR,
        Column("seeds", lambda claim: ", ".join(map(str, claim.params["seeds"])), text=True),
        Column("win rates", lambda claim: ", ".join(map(number, claim.params["win_rates"])), text=True),
        Column("mean", "value", error="interval"),
        Column("standard deviation", lambda claim: claim.params["standard_deviation"], error="interval"),
        Column("95 % CI over seeds", lambda claim: claim.params["interval_seeds"], error="interval"),
        Column("over seeds and prompts", "interval"),
        Column("adjusted p", "adjusted_p", form=probability),
        EXCLUDED,
    ]
    return columns_table(f"Training seeds of {run}" if run else "Training seeds", claims, columns, _SEEDS)


def errors_table(report: ReportData) -> Table:
    """Where the errors of win rates come from: of each comparison, over all seeds if it was made with several."""
    rows = [
        ((judge.name, comparison.candidate, comparison.baseline), comparison.error)
        for judge in report.judges
        for comparison in judge.comparisons
        if comparison.error and not comparison.one_seed
    ]
    rows += [
        ((str(claim.judge), claim.candidate, claim.baseline), ErrorSources.model_validate(claim.params["error"]))
        for claim in report.seeds
        if claim.params["error"]
    ]
    columns = [
        Column("judge", lambda row: row[0][0], text=True),
        Column("candidate", lambda row: row[0][1], text=True),
        Column("against", lambda row: row[0][2], text=True),
        Column("source", lambda row: row[1].source, text=True),
        Column("number", lambda row: row[1].n, form="g"),
        Column("± points", lambda row: row[1].half_width),
        Column("% of the squared error", lambda row: row[1].share),
    ]
    said = [f"{names[1]} against {names[2]}, {names[0]}: {error.text}." for names, error in rows]
    lines = [(names, source) for names, error in rows for source in error.sources]
    return columns_table("Where the error comes from", lines, columns, " ".join([_ERRORS, *said]))


def paired_table(claims: Sequence[Claim]) -> Table:
    """Systems that a judge compared with the same third one."""
    columns = [
        *text_columns("judge", "policy"),
        Column("first", "candidate", text=True),
        Column("second", "baseline", text=True),
        Column("both against", "through", text=True),
        Column("prompts", "n"),
        Column("difference", "value", error="interval", sign=True),
        Column("95 % CI", "interval", sign=True),
        Column("p, not corrected", "p", form=probability),
        Column("adjusted p", "adjusted_p", form=probability),
        EXCLUDED,
    ]
    return columns_table("Systems compared with the same third one", claims, columns, _PAIRED)
