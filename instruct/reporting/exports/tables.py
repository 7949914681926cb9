"""The tables that only exports have: leading figures, win rates by system and judge, and every figure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import attrgetter, itemgetter
from typing import NamedTuple

from instruct.reporting.cautions import judge_warnings
from instruct.reporting.model import ComparisonReport, JudgeReport, Panel, ReportData, TallyFigures
from instruct.reporting.tables import Column, Table, Value, columns_table
from instruct.reporting.text import number, span

_COUNTS = ("win", "tie", "contradicted", "identical", "loss", "unparsed", "failed")


class _Row(NamedTuple):
    judge: JudgeReport
    comparison: ComparisonReport
    policy: str

    @property
    def figures(self) -> TallyFigures:
        return self.comparison.policies[self.policy]

    @property
    def leads(self) -> bool:
        return self.policy == self.comparison.leading


class _Majority(NamedTuple):
    panel: Panel

    @property
    def figures(self) -> TallyFigures:
        return self.panel.majority


def leading_table(comparisons: Sequence[tuple[JudgeReport, ComparisonReport]]) -> Table:
    """The leading figures of comparisons by several judges."""
    columns = [
        Column("judge", "judge.name", text=True),
        Column("baseline", "comparison.baseline", text=True),
        Column("policy", text=True),
        Column("n", "figures.n_judged"),
        Column("no verdict", lambda row: row.figures.unparsed + row.figures.failed),
        Column("win rate %", "figures.win_rate"),
        Column("std. error", "figures.standard_error"),
        Column("95 % CI", "figures.interval"),
    ]
    return columns_table("Leading figures", [_Row(*pair, pair[1].leading) for pair in comparisons], columns)


def win_rate_tables(report: ReportData) -> list[Table]:
    """For each baseline, the systems in rows and the judges in columns, win rates with standard errors in percent.

    The form of Tables 9 and 10 of the EMO paper (Ren et al., ICLR 2024). Each figure is that of the judge's leading
    policy, which the title names with the number of pairs.
    """
    baselines = dict.fromkeys(each.baseline for judge in report.judges for each in judge.comparisons)
    return [_win_rate_table(report, baseline) for baseline in baselines]


def _win_rate_table(report: ReportData, baseline: str) -> Table:
    found: dict[str, dict[str, str | None]] = {}
    captions: dict[str, str] = {}
    notes: list[str] = []
    for judge in report.judges:
        comparisons = [each for each in judge.comparisons if each.baseline == baseline]
        for each in comparisons:
            found.setdefault(each.candidate, {})[judge.name] = _rate(each.leading_figures)
            notes += [f"{judge.name}, {each.candidate}: {each.leads}"] if each.leads else []
        if comparisons:
            policies = "/".join(dict.fromkeys(each.leading for each in comparisons))
            sizes = "/".join(dict.fromkeys(str(each.leading_figures.n_judged) for each in comparisons))
            captions[judge.name] = f"{judge.name}: {policies}, {sizes} pair{'s' * (sizes != '1')} with a verdict"
    rows: list[Sequence[Value]] = [
        [candidate, *(rates.get(judge) for judge in captions)] for candidate, rates in found.items()
    ]
    title = f"Win rate (%) against {baseline}, ± its standard error; a tie counts as half a win"
    return Table(title, ["System", *captions], rows, note="; ".join([*captions.values(), *notes]))


def _rate(figures: TallyFigures) -> str | None:
    if figures.win_rate is None:
        return None
    # Verdicts that are all the same have no standard error to speak of.
    error = figures.standard_error
    return number(figures.win_rate) + (f" ± {number(error)}" if error else f" ({span(figures.interval)})")


def figures_table(report: ReportData) -> Table:
    """Every figure of a report, a row per judge, comparison and policy, and one for each panel's majority.

    Tests and the length-adjusted rate belong to the leading policy and are given in its row only.
    """
    rows = [
        _Row(judge, comparison, policy)
        for judge in report.judges
        for comparison in judge.comparisons
        for policy in comparison.policies
    ]
    table = columns_table("Figures", rows, [Column("run", lambda row: report.run), *_FIGURES])
    majorities = [{column.header: column.of(_Majority(panel)) for column in _MAJORITY} for panel in report.panels]
    further = [[(each | {"run": report.run}).get(header) for header in table.header] for each in majorities]
    return replace(table, rows=[*table.rows, *further])


def _ends(name: str, of: str) -> list[Column]:
    """The columns of an interval."""
    interval = attrgetter(f"figures.{of}")
    return [Column(f"{name}_{end}", itemgetter(i)).within(interval) for i, end in enumerate(("low", "high"))]


def _leading(header: str, value: Callable[[ComparisonReport], Value]) -> Column:
    return Column(header, lambda row: value(row.comparison) if row.leads else None)


_TALLY = [
    *(Column(key, f"figures.{key}") for key in ("kind", "n", "n_judged", *_COUNTS)),
    *(Column(key, f"figures.{key}") for key in ("win_rate", "discrete_win_rate", "standard_error", "interval_method")),
    *_ends("interval", "interval"),
    *_ends("bound", "bounds"),
    Column("finding", "figures.finding"),
]
_FIGURES = [
    Column("judge", "judge.name"),
    Column("judge_model", "judge.model"),
    Column("candidate", "comparison.candidate"),
    Column("baseline", "comparison.baseline"),
    Column("policy"),
    Column("leading", "leads"),
    *_TALLY,
    _leading("sign_test_p", lambda it: it.significance.sign_test.p),
    _leading("permutation_test_p", lambda it: it.significance.permutation_test.p),
    _leading("adjusted_p", lambda it: it.significance.adjusted_p),
    _leading("claims", lambda it: it.significance.claims),
    _leading("length_adjusted_win_rate", lambda it: it.length.adjusted.win_rate if it.length else None),
    _leading("style_controlled_win_rate", lambda it: it.style.win_rate if it.style else None),
    Column("length_controlled_win_rate", "win_rate").within(attrgetter("comparison.length_control")),
    *(Column(key, f"comparison.{key}") for key in ("pairs_judged", "pairs_expected", "partial", "consistency")),
    Column("first_position_rate", "comparison.first_position_rate"),
    Column("agreement_with_people", "judge.agreement"),
    _leading("which_figure_leads", lambda it: it.leads),
    Column("warnings", lambda row: "; ".join(map(str, [*judge_warnings(row.judge), *row.comparison.warnings]))),
]
_TESTS = [
    Column("sign_test_p", "sign_test.p"),
    Column("permutation_test_p", "permutation_test.p"),
    *(Column(key) for key in ("adjusted_p", "claims")),
]
_MAJORITY = [
    Column("judge", lambda row: f"majority of {', '.join(row.panel.policies)}"),
    *(Column(key, f"panel.{key}") for key in ("candidate", "baseline")),
    Column("policy", lambda row: "majority"),
    Column("leading", lambda row: not row.panel.one_seed),
    *_TALLY,
    *(column.within(attrgetter("panel.significance")) for column in _TESTS),
]
