"""The tables of a report, built once as data; Markdown, page, terminal, CSV and LaTeX render them.

Cells hold values, not markup: foreign text as it is, which each renderer escapes; numbers and intervals unrounded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from instruct.data.overlap import overlap_text
from instruct.reporting.health import REPEATED_RULE
from instruct.reporting.model import Comparison, Panel, ReportData, TallyFigures
from instruct.reporting.text import POLICIES, number, probability, span

# Text, a count, a figure, an interval, or nothing.
Value = str | int | float | Sequence[float] | None


@dataclass(frozen=True)
class Table:
    """`left`: how many of the first columns are text; the others are numbers. `note` explains the figures."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[Value]]
    left: int = 1
    note: str = ""

    def cells(self) -> list[list[str]]:
        """The rows as text: figures to one decimal, a dash for nothing. Foreign text is not escaped."""
        return [[shown(value) for value in row] for row in self.rows]


def table_of(title: str, rows: Sequence[Mapping[str, Any]]) -> Table:
    """A table from rows with the same keys."""
    return Table(title, list(rows[0]) if rows else [], [list(row.values()) for row in rows])


def shown(value: Value) -> str:
    """A cell as text."""
    if value is None or isinstance(value, float):
        return number(value)
    return str(value) if isinstance(value, str | int) else span(value)


_COUNTS = ("n", "win", "tie", "contradicted", "identical", "loss", "unparsed", "failed")
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
_SECOND = " Second interval: the bootstrap's, given where it would lead to another finding."
_ORDERS = (
    "Consistency: the same answer preferred in both orders, over pairs readable in both. First position: share of "
    "verdicts other than ties for the answer shown first; 50 means no position bias."
)


def comparison_tables(comparisons: Sequence[Comparison], named: bool = True) -> list[Table]:
    """The figures of one judge's comparisons; tables without rows are left out.

    Args:
        named: whether the first two columns name candidate and baseline.
    """
    tables = [
        policy_table(comparisons, named),
        _tests(comparisons, named),
        _labels(comparisons, named),
        _orders(comparisons, named),
        _ratings(comparisons, named),
        _parts(comparisons, named),
        _lengths(comparisons, named),
        _length_bins(comparisons, named),
        _reasons(comparisons, named),
    ]
    return [table for table in tables if table.rows]


def _table(
    title: str,
    comparisons: Sequence[tuple[Comparison, Sequence[Value]]],
    header: Sequence[str],
    named: bool,
    left: int = 0,
    note: str = "",
) -> Table:
    """A table with a row per entry, after the names of its comparison if `named`."""
    names = ("candidate", "baseline") if named else ()
    rows = [[*((each.candidate, each.baseline) if named else ()), *cells] for each, cells in comparisons]
    return Table(title, [*names, *header], rows, left + len(names), note)


def policy_table(comparisons: Sequence[Comparison], named: bool = True) -> Table:
    """The verdicts and the win rate under each policy."""
    every = [figures for each in comparisons for figures in each.policies.values()]
    shape = _shape(every)
    rows = [
        (each, [f"{policy} (leads)" if policy == each.leading else policy, *_tally(figures, shape)])
        for each in comparisons
        for policy, figures in each.policies.items()
    ]
    used = dict.fromkeys(policy for each in comparisons for policy in each.policies)
    known = POLICIES | {"single": "each answer judged alone"} if _judged_alone(comparisons) else POLICIES
    meanings = "; ".join(f"{policy}: {known.get(policy, policy)}" for policy in used)
    note = f"Policies: {meanings}. {_RATES}{_shape_note(shape)}"
    return _table("Verdicts by policy", rows, ["policy", *_tally_header(shape)], named, left=1, note=note)


class _Shape(NamedTuple):
    """The columns of a table of tallies that only some comparisons need."""

    weighted: bool
    second_interval: bool
    contradicted: bool
    identical: bool


def _shape(every: Sequence[TallyFigures]) -> _Shape:
    return _Shape(
        weighted=any(each.kind == "weighted" for each in every),
        second_interval=any(each.second_interval for each in every),
        contradicted=any(each.contradicted for each in every),
        identical=any(each.identical for each in every),
    )


def _shape_note(shape: _Shape) -> str:
    ties = _CONTRADICTED * shape.contradicted + _IDENTICAL * shape.identical
    return ties + _WEIGHTED * shape.weighted + _SECOND * shape.second_interval


def _tally_header(shape: _Shape) -> list[str]:
    second = ["second interval"] * shape.second_interval
    return [
        *_counts(shape),
        "win rate %",
        *["discrete %"] * shape.weighted,
        "std. error",
        "95 % CI",
        *second,
        "bounds %",
    ]


def _tally(figures: TallyFigures, shape: _Shape) -> list[Value]:
    rates = [figures.win_rate, *[figures.discrete_win_rate] * shape.weighted, figures.standard_error, figures.interval]
    counts = [getattr(figures, name) for name in _counts(shape)]
    return [*counts, *rates, *[figures.second_interval] * shape.second_interval, figures.bounds]


def _counts(shape: _Shape) -> list[str]:
    left_out = {name for name in ("contradicted", "identical") if not getattr(shape, name)}
    return [name for name in _COUNTS if name not in left_out]


def _tests(comparisons: Sequence[Comparison], named: bool) -> Table:
    rows: list[tuple[Comparison, Sequence[Value]]] = []
    for each in comparisons:
        sign, permutation, power = each.significance.sign_test, each.significance.permutation_test, each.power
        tests: list[Value] = [probability(sign.p), sign.n, probability(permutation.p), permutation.resamples]
        needed = None if power.pairs_needed is None else f"{power.pairs_needed:,}"
        rows.append((each, [*tests, power.smallest_difference, needed]))
    header = ["sign test p", "pairs without ties", "permutation p", "resamples", "min. detectable", "pairs needed"]
    note = (
        "Two-sided p-values under the leading policy. Minimum detectable difference: the smallest distance from 50, in "
        "points, that this number of pairs detects with 80 % power at the 5 % level; pairs needed: for the difference "
        "observed."
    )
    return _table("Significance and power", rows, header, named, note=note)


def _judged_alone(comparisons: Sequence[Comparison]) -> bool:
    """Whether the judge saw one answer at a time, so that a pair has no order."""
    return all(each.orders == "alone" for each in comparisons)


def _orders(comparisons: Sequence[Comparison], named: bool) -> Table:
    if _judged_alone(comparisons):
        done: list[tuple[Comparison, Sequence[Value]]] = [
            (each, [f"{each.pairs_judged} of {each.pairs_expected}", each.trimmed, each.requests])
            for each in comparisons
        ]
        note = "Each answer was judged alone, so there is no order that could make a difference."
        return _table("Pairs judged", done, ["pairs judged", "trimmed", "requests"], named, note=note)
    rows: list[tuple[Comparison, Sequence[Value]]] = [
        (
            each,
            [each.orders, f"{each.pairs_judged} of {each.pairs_expected}", each.consistency, each.consistency_n,
             each.first_position_rate, each.first_position_n, each.trimmed, each.requests],
        )
        for each in comparisons
    ]  # fmt: skip
    header = ["orders", "pairs judged", "consistency %", "of pairs", "first position %", "of verdicts", "trimmed"]
    return _table("Order of the answers", rows, [*header, "requests"], named, left=1, note=_ORDERS)


def _labels(comparisons: Sequence[Comparison], named: bool) -> Table:
    rows: list[tuple[Comparison, Sequence[Value]]] = []
    for each in comparisons:
        if people := each.with_labels:
            needed = f"{people.labels_needed:,}" if people.labels_needed else "not reachable with these prompts"
            alone: list[Value] = [people.labels_only, people.labels_only_interval, people.judge_only]
            counts = f"{people.labels} of {people.pairs}"
            rows.append((each, [counts, people.win_rate, people.interval, *alone, people.effective_labels, needed]))
    header = ["labels", "win rate %", "95 % CI", "labels alone %", "95 % CI", "judge alone %", "worth labels"]
    note = (
        "Prediction-powered inference (PPI++): the judge's verdicts on all pairs, corrected by people's labels on "
        "some, which must be a random sample. Worth labels: how many labels alone would give the same interval. The "
        "last column: labels for an interval of ±2 points."
    )
    return _table("With people's labels", rows, [*header, "labels for ±2 points"], named, note=note)


def _ratings(comparisons: Sequence[Comparison], named: bool) -> Table:
    rows: list[tuple[Comparison, Sequence[Value]]] = [
        (each, [f"{each.ratings.candidate:.2f}", f"{each.ratings.baseline:.2f}", each.ratings.n])
        for each in comparisons
        if each.ratings
    ]
    together = any(each.orders != "alone" for each in comparisons if each.ratings)
    how = "Both answers were rated in one reply" if together else "Each answer was rated alone"
    note = f"{how}: the higher rating wins, equal ratings tie."
    return _table("Mean ratings", rows, ["candidate's mean", "baseline's mean", "pairs"], named, note=note)


def _parts(comparisons: Sequence[Comparison], named: bool) -> Table:
    rows: list[tuple[Comparison, Sequence[Value]]] = [
        (each, [part.dataset, part.n, part.win, part.tie, part.loss, part.unread, part.win_rate, part.interval])
        for each in comparisons
        for part in each.parts
        if len(each.parts) > 1
    ]
    header = ["data set", "n", "win", "tie", "loss", "no verdict", "win rate %", "95 % CI"]
    return _table("By data set", rows, header, named, left=1)


def _lengths(comparisons: Sequence[Comparison], named: bool) -> Table:
    found = [(each, each.length) for each in comparisons if each.length or each.length_control]
    controlled = any(each.length_control for each, _ in found)
    rows: list[tuple[Comparison, Sequence[Value]]] = []
    notes: dict[str, None] = {}
    for each, length in found:
        cells: list[Value] = [None] * 5
        if length:
            adjusted = length.adjusted
            slope = probability(adjusted.slope_p)
            cells = [length.candidate_mean, length.baseline_mean, adjusted.win_rate, adjusted.interval, slope]
            notes[f"Win rate at equal length: {adjusted.model}."] = None
            if adjusted.note:
                notes[f"{each.candidate} against {each.baseline}: {adjusted.note}."] = None
        if control := each.length_control:
            notes[f"{each.candidate} against {each.baseline}: {control.note}."] = None
        rate: list[Value] = [control.win_rate, control.standard_error] if control else [None, None]
        rows.append((each, [*cells, *rate * controlled]))
    header = [
        "candidate's mean characters",
        "baseline's mean characters",
        "win rate % at equal length",
        "95 % CI",
        "p of length",
    ]
    more = ["length-controlled win rate %", "std. error"] * controlled
    return _table("Length", rows, [*header, *more], named, note=" ".join(notes))


def _length_bins(comparisons: Sequence[Comparison], named: bool) -> Table:
    rows: list[tuple[Comparison, Sequence[Value]]] = [
        (each, [f"{part.low} to {part.high}", part.n, part.win_rate, part.interval])
        for each in comparisons
        for part in (each.length.by_difference if each.length else ())
    ]
    note = "Fifths of the pairs, by how many characters the candidate's answer is longer than the baseline's."
    header = ["characters longer", "pairs", "win rate %", "95 % CI"]
    return _table("Win rate by length difference", rows, header, named, note=note)


def _reasons(comparisons: Sequence[Comparison], named: bool) -> Table:
    rows: list[tuple[Comparison, Sequence[Value]]] = [
        (each, [reason.verdict, reason.reason, reason.n]) for each in comparisons for reason in each.reasons
    ]
    note = "Verdicts as shown: a pair judged in both orders has two."
    return _table("Verdicts with a reason", rows, ["verdict", "reason", "verdicts"], named, left=2, note=note)


def panel_tables(panel: Panel) -> list[Table]:
    """How the judges of one comparison agree, and what most of them say."""
    title = f"Panel: {panel.candidate} against {panel.baseline}"
    agreements: list[Sequence[Value]] = [
        [" and ".join(each.judges), each.n, each.agreement, None if each.kappa is None else f"{each.kappa:.2f}"]
        for each in panel.agreements
    ]
    policies = ", ".join(f"{name} ({policy})" for name, policy in panel.policies.items())
    note = (
        f"Judges, each under its leading policy: {policies}. Majority: the outcome that most judges gave; a tie "
        f"between judges is a tie, a missing verdict abstains. {_RATES}"
    )
    shape = _shape([panel.majority])
    note += _shape_note(shape)
    majority = ["majority", *_tally(panel.majority, shape)]
    return [
        Table(f"{title}, majority", ["by", *_tally_header(shape)], [majority], note=note),
        Table(f"{title}, agreement", ["judges", "pairs", "agreement %", "Cohen's kappa"], agreements),
    ]


def report_tables(report: ReportData) -> list[Table]:
    """What belongs to no single comparison; tables without rows are left out."""
    return [table for table in (_seeds(report), _paired(report), _systems(report), _trainings(report)) if table.rows]


def _seeds(report: ReportData) -> Table:
    rows: list[Sequence[Value]] = [
        [each.judge, each.policy, each.candidate, each.baseline, ", ".join(map(str, each.seeds)),
         ", ".join(map(number, each.win_rates)), each.mean, each.standard_deviation, each.interval_seeds,
         each.interval_both]
        for each in report.seeds
    ]  # fmt: skip
    note = (
        "The same comparison with systems trained with different seeds. The standard deviation is between the seeds' "
        "win rates. The interval over seeds (Student's t) covers other trainings, answering these prompts; the one "
        "over both also covers other prompts. The intervals above cover other prompts for one training."
    )
    header = ["judge", "policy", "candidate", "baseline", "seeds", "win rates", "mean", "standard deviation",
              "95 % CI over seeds", "over seeds and prompts"]  # fmt: skip
    return Table("Training seeds", header, rows, left=6, note=note)


def _paired(report: ReportData) -> Table:
    rows: list[Sequence[Value]] = [
        [each.judge, each.policy, each.first, each.second, each.baseline, each.n, each.difference, each.interval,
         probability(each.p)]
        for each in report.paired
    ]  # fmt: skip
    note = (
        "The first's win rate minus the second's, in points, over the prompts judged for both, with its bootstrap "
        "interval and the p-value of the paired permutation test. Not corrected for the number of comparisons."
    )
    header = ["judge", "policy", "first", "second", "baseline", "prompts", "difference", "95 % CI", "p"]
    return Table("Systems with the same baseline", header, rows, left=5, note=note)


def _systems(report: ReportData) -> Table:
    """The answers and their faults; a column of unknowns is left out."""
    columns: dict[str, list[Value]] = {}
    for system in report.systems:
        health = system.health
        faults = {name: _share(getattr(health, name), system.n) for name in ("truncated", "empty", "repeated")}
        cells = {
            "system": system.name,
            "generator": system.generator,
            "engine": system.engine,
            "answers": system.n,
            "mean tokens": system.mean_tokens,
            "mean characters": system.mean_characters,
            "median characters": health.median_characters,
        } | faults
        for name, cell in cells.items():
            columns.setdefault(name, []).append(cell)
    columns = {name: cells for name, cells in columns.items() if set(cells) != {None} or name == "truncated"}
    note = (
        "Truncated: cut off at the length limit. Tokens are the model's own, without the end token. Repeated: "
        f"{REPEATED_RULE}. A dash: unknown, for answers from elsewhere."
    )
    rows = list(zip(*columns.values(), strict=True))
    return Table("Answers", list(columns), rows, left=2 + ("engine" in columns), note=note)


def _share(count: int | None, n: int) -> str | None:
    return None if count is None else f"{count} ({100 * count / n:.1f} %)"


def _trainings(report: ReportData) -> Table:
    seeded = any(each.seed is not None for each in report.trainings)
    rows: list[Sequence[Value]] = [
        [each.system, each.objective, *[each.seed] * seeded, each.rows, each.truncated, _plain(each.epochs), each.steps,
         _plain(each.learning_rate)]
        for each in report.trainings
    ]  # fmt: skip
    header = ["system", "objective", *["seed"] * seeded, "rows", "truncated", "epochs", "steps", "learning rate"]
    note = "" if report.overlap is None else f"{overlap_text(report.overlap.model_dump())}."
    return Table("Training", header, rows, left=2, note=note)


def _plain(value: float | None) -> str | None:
    return None if value is None else f"{value:g}"


def lineage_tables(report: ReportData) -> list[Table]:
    """What the report was made from: the experiment, its phases, versions and hashes."""
    machine = report.machine
    gpus = ", ".join(map(str, machine.get("gpus") or [])) or "no GPU"
    processor, cores, memory = (machine.get(key, "?") for key in ("processor", "cores", "memory_gib"))
    experiment = report.config | {
        "machine": f"{processor}, {cores} cores, {memory} GiB, {gpus}",
        "created": report.created,
    }
    hashes = report.sha256 | {f"answers of {system.name}": system.sha256 for system in report.systems}
    phases: list[Sequence[Value]] = [[each.step, each.status, each.minutes, each.attempts] for each in report.phases]
    tables = [
        Table("Experiment", ["part", "value"], list(experiment.items()), left=2),
        Table("Phases", ["phase", "status", "minutes", "attempts"], phases, left=2),
        Table("Versions", ["package", "version"], list(report.versions.items()), left=2),
        Table("Made from", ["file", "SHA-256"], list(hashes.items()), left=2),
    ]
    return [table for table in tables if table.rows]
