"""The tables of a judge's comparisons, of a panel of judges, and of comparisons over training seeds and in pairs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple

from instruct.analysis.results import Claim, EqualStyle, ErrorSources
from instruct.analysis.style import STYLE_TERMS
from instruct.reporting.model import ComparisonReport, Panel, Ratings, ReportData, TallyFigures
from instruct.reporting.tables import EXCLUDED, RATE, Column, Table, columns_table, text_columns
from instruct.reporting.text import POLICIES, number, probability

_RATES = (
    "The win rate is over the pairs with a verdict; a tie counts as half a win. Bounds: worst- and best-case win rate, "
    "with every unparsed and failed pair lost or won."
)

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
    """The figures of one judge's comparisons; tables without rows are left out.

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
    return [table for table in (make(comparisons, named) for make in makers) if table.rows]


def _table(title: str, rows: _Rows, columns: Sequence[Column], named: bool, note: str = "") -> Table:
    """A table with a row per entry, after the names of its comparison if `named`."""
    names = [Column(name, text=True, when=named).within(itemgetter(0)) for name in ("candidate", "baseline")]
    own = [column.within(itemgetter(1)) for column in columns]
    return columns_table(title, rows, [*names, *own], note)


def _parts_of(comparisons: Sequence[ComparisonReport], name: str) -> list[tuple[ComparisonReport, Any]]:
    """The comparisons that have a part of this name, or several of them."""
    parts = [(comparison, getattr(comparison, name)) for comparison in comparisons]
    return [(it, part) for it, value in parts if value for part in (value if isinstance(value, list) else [value])]


def _tallies(comparisons: Sequence[ComparisonReport], leading: bool = False) -> list[tuple[ComparisonReport, _Tally]]:
    """The figures under each policy, or under those that lead."""
    return [
        (comparison, _Tally(f"{policy} (leads)" if policy == comparison.leading else policy, figures))
        for comparison in comparisons
        for policy, figures in comparison.policies.items()
        if policy == comparison.leading or not leading
    ]


def _policies(comparisons: Sequence[ComparisonReport], named: bool) -> Table:
    """The verdicts and the win rate under each policy."""
    rows = _tallies(comparisons)
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
    several = len({comparison.baseline for comparison in comparisons}) > 1
    rows = _tallies(comparisons, leading=several)
    names = [Column("candidate", text=True), Column("baseline", text=True, when=several)]
    figures = [
        Column("policy", "by", text=True, when=len({row.by for _, row in rows}) > 1),
        *(Column(key, f"figures.{key}") for key in ("n", "win", "tie", "loss")),
        Column("unread", "figures.unread", when="known"),
        Column("win rate", "figures.win_rate"),
        Column("95 % CI", "figures.claim.interval"),
    ]
    columns = [column.within(itemgetter(part)) for part, own in enumerate((names, figures)) for column in own]
    return columns_table("Verdicts by policy", rows, columns)


def _tally_columns(every: Sequence[TallyFigures]) -> list[Column]:
    """The columns of rows with `figures`."""
    counts = ("n", "win", "tie", "contradicted", "identical", "loss", "unparsed", "failed")
    optional = ("contradicted", "identical")
    return [
        *(Column(name, f"figures.{name}", when="known" if name in optional else True) for name in counts),
        Column("win rate %", "figures.win_rate"),
        Column("discrete %", "figures.discrete_win_rate", when=any(figures.kind == "weighted" for figures in every)),
        Column("std. error", "figures.standard_error"),
        Column("95 % CI", "figures.claim.interval"),
        Column("bounds %", "figures.bounds"),
    ]


def _tally_note(every: Sequence[TallyFigures]) -> str:
    """What the columns mean that only some tables have."""
    notes = []
    if any(figures.contradicted for figures in every):
        notes.append("Contradicted: the ties of pairs whose verdict changed with the order; they are among the ties.")
    if any(figures.identical for figures in every):
        notes.append(
            "Identical: the ties between two identical answers, which the judge was not asked about; they are among "
            "the ties."
        )
    if any(figures.kind == "weighted" for figures in every):
        notes.append(
            "Weighted judges grade their preference: the win rate is the mean grade, and the discrete rate counts "
            "which side of a tie it is on, as do win, tie and loss. A policy for both orders takes the mean of the "
            "two grades."
        )
    return "".join(f" {note}" for note in notes)


def _tests(comparisons: Sequence[ComparisonReport], named: bool) -> Table:
    columns = [
        Column("test", "leading_figures.claim.test"),
        Column("p", "leading_figures.claim.p", form=probability),
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
        Column("consistency %", "consistency", when=not alone),
        Column("of pairs", "consistency_n", when=not alone),
        Column("first position %", "first_position_rate", when=not alone),
        Column("of verdicts", "first_position_n", when=not alone),
        Column("trimmed"),
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
        Column("labels alone %", "labels_only"),
        Column("95 % CI", "labels_only_interval"),
        Column("judge alone %", "judge_only"),
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
        Column("sensitivity %", "sensitivity"),
        Column("95 % CI", "sensitivity_interval"),
        Column("specificity %", "specificity"),
        Column("95 % CI", "specificity_interval"),
        *RATE,
    ]
    rows = _parts_of(comparisons, "judge_errors")
    note = (
        "A sensitivity analysis, no claim: the win rate if the judge errs as on labels of other pairs (Rogan and "
        "Gladen), with the chance in verdicts and labels. Sensitivity: right where the label is for the candidate, a "
        "tie counting half; specificity: for the baseline. Shared: errors alike for both systems; apart: from labels "
        "of these two."
    )
    notes = [f"{it.candidate} against {it.baseline}, {rate.set}: {rate.note}." for it, rate in rows if rate.note]
    return _table("If the judge errs as elsewhere", rows, columns, named, " ".join([note, *notes]))


def _ratings(comparisons: Sequence[ComparisonReport], named: bool) -> Table:
    rows = _parts_of(comparisons, "ratings")
    columns = [
        Column("candidate's mean", "candidate", form=".2f"),
        Column("baseline's mean", "baseline", form=".2f"),
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
    rows = _parts_of([it for it in comparisons if len(it.parts) > 1], "parts")
    counts = [Column("n"), Column("win"), Column("tie"), Column("loss"), Column("no verdict", "unread")]
    return _table("By data set", rows, [Column("data set", "dataset", text=True), *counts, *RATE], named)


def _lengths(comparisons: Sequence[ComparisonReport], named: bool) -> Table:
    rows = [(it, it) for it in comparisons if it.length or it.length_control]
    controlled = any(comparison.length_control for comparison, _ in rows)
    columns = [
        Column("candidate's mean characters", "length.candidate_mean"),
        Column("baseline's mean characters", "length.baseline_mean"),
        Column("win rate % at equal length", "length.adjusted.win_rate"),
        Column("95 % CI", "length.adjusted.interval"),
        Column("length", lambda it: _coefficient("length", it.length.adjusted) if it.length else None),
        Column("p of length", _length_p, form=probability),
        Column("length-controlled win rate %", "length_control.win_rate", when=controlled),
        Column("std. error", "length_control.standard_error", when=controlled),
    ]
    notes = [
        "Win rate at equal length: where d = 0 in a logistic regression of the scores on tanh(d / std(d)), d the "
        "candidate's characters minus the baseline's; length: its coefficient per standard deviation."
    ]
    for comparison, _ in rows:
        for part in (comparison.length.adjusted if comparison.length else None, comparison.length_control):
            if part and part.note:
                notes.append(f"{comparison.candidate} against {comparison.baseline}: {part.note}.")
    return _table("Length", rows, columns, named, " ".join(notes))


def _length_p(comparison: ComparisonReport) -> float | None:
    terms = comparison.length.adjusted.terms if comparison.length else []
    return terms[0].p if terms else None


def _length_bins(comparisons: Sequence[ComparisonReport], named: bool) -> Table:
    rows = [(it, part) for it in comparisons if it.length for part in it.length.by_difference]
    columns = [Column("characters longer", lambda part: f"{part.low} to {part.high}"), Column("pairs", "n"), *RATE]
    note = (
        "Fifths of the pairs, or fewer groups of at least 5, by how many characters the candidate's answer is longer "
        "than the baseline's."
    )
    return _table("Win rate by length difference", rows, columns, named, note)


def _style(comparisons: Sequence[ComparisonReport], named: bool) -> Table:
    rows = _parts_of(comparisons, "style")
    columns = [
        Column("win rate % at equal style", "win_rate"),
        Column("95 % CI", "interval"),
        Column("Arena-Hard's score", "score"),
        Column("95 % CI", "score_interval"),
        *(Column(term, partial(_coefficient, term)) for term in STYLE_TERMS),
    ]
    note = (
        "Style control by Arena-Hard's model: a logistic regression on the differences in length, headers, lists and "
        "bold, with the coefficient of each per standard deviation and its 95 % interval. Arena-Hard's score is at the "
        "mean style of these pairs. What a better answer needs of style is taken away, too."
    )
    notes = [f"{it.candidate} against {it.baseline}: {style.note}." for it, style in rows if style.note]
    return _table("Style", rows, columns, named, " ".join([note, *notes]))


def _coefficient(name: str, style: EqualStyle) -> str | None:
    for term in style.terms:
        if term.name == name:
            interval = " ({:+.2f} to {:+.2f})".format(*term.interval) if term.interval else ""
            return f"{term.coefficient:+.2f}{interval}"
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
        *text_columns("judge", "policy", "candidate", "baseline"),
        Column("seeds", lambda claim: ", ".join(map(str, claim.params["seeds"])), text=True),
        Column("win rates", lambda claim: ", ".join(map(number, claim.params["win_rates"])), text=True),
        Column("mean", "value"),
        Column("standard deviation", lambda claim: claim.params["standard_deviation"]),
        Column("95 % CI over seeds", lambda claim: claim.params["interval_seeds"]),
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
        Column("baseline", lambda row: row[0][2], text=True),
        Column("source", lambda row: row[1].source, text=True),
        Column("number", lambda row: row[1].n, form="g"),
        Column("± points", lambda row: row[1].half_width),
        Column("% of the squared error", lambda row: row[1].share),
    ]
    said = [f"{names[1]} against {names[2]}, {names[0]}: {error.text}." for names, error in rows]
    lines = [(names, source) for names, error in rows for source in error.sources]
    return columns_table("Where the error comes from", lines, columns, " ".join([_ERRORS, *said]))


def paired_table(claims: Sequence[Claim]) -> Table:
    """Systems that a judge compared with the same baseline."""
    columns = [
        *text_columns("judge", "policy"),
        Column("first", "candidate", text=True),
        Column("second", "baseline", text=True),
        Column("baseline", "through", text=True),
        Column("prompts", "n"),
        Column("difference", "value"),
        Column("95 % CI", "interval"),
        Column("p", form=probability),
        Column("adjusted p", "adjusted_p", form=probability),
        EXCLUDED,
    ]
    return columns_table("Systems with the same baseline", claims, columns, _PAIRED)
