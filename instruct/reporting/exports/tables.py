"""The tables that only exports have: leading figures, win rates by system and judge, and every figure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter, itemgetter
from typing import NamedTuple

from instruct.analysis.results import Significance
from instruct.reporting.cautions import judge_warnings
from instruct.reporting.model import ComparisonReport, JudgeReport, Panel, ReportData, TallyFigures
from instruct.reporting.tables import Column, Table, Value, columns_table
from instruct.reporting.text import number, span

_COMPARED = ("pairs_judged", "pairs_expected", "partial", "consistency", "first_position_rate")
_COUNTS = ("win", "tie", "contradicted", "identical", "loss", "unparsed", "failed")


class _Row(NamedTuple):
    """A comparison under a policy, by a judge or, without one, by the majority of a panel."""

    judge: JudgeReport | None
    claim: ComparisonReport | Panel
    policy: str

    @property
    def comparison(self) -> ComparisonReport | None:
        return self.claim if isinstance(self.claim, ComparisonReport) else None

    @property
    def figures(self) -> TallyFigures:
        claim = self.claim
        return claim.majority if isinstance(claim, Panel) else claim.policies[self.policy]

    @property
    def leads(self) -> bool:
        claim = self.claim
        return not claim.one_seed if isinstance(claim, Panel) else self.policy == claim.leading

    @property
    def tests(self) -> Significance | None:
        return self.claim.significance if self.leads or self.judge is None else None


def leading_table(comparisons: Sequence[tuple[JudgeReport, ComparisonReport]]) -> Table:
    """The leading figures of comparisons by several judges."""
    columns = [
        Column("judge", "judge.name", text=True),
        Column("baseline", "claim.baseline", text=True),
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
    rows += [_Row(None, panel, "majority") for panel in report.panels]
    return columns_table("Figures", rows, [Column("run", lambda _: report.run), *_FIGURES])


def _ends(name: str, of: str) -> list[Column]:
    """The columns of an interval."""
    interval = attrgetter(f"figures.{of}")
    return [Column(f"{name}_{end}", itemgetter(i)).within(interval) for i, end in enumerate(("low", "high"))]


def _leading(header: str, value: Callable[[ComparisonReport], Value]) -> Column:
    return Column(header, lambda row: value(row.comparison) if row.comparison and row.leads else None)


_TALLY = [
    *(Column(key, f"figures.{key}") for key in ("kind", "n", "n_judged", *_COUNTS)),
    *(Column(key, f"figures.{key}") for key in ("win_rate", "discrete_win_rate", "standard_error", "interval_method")),
    *_ends("interval", "interval"),
    *_ends("bound", "bounds"),
    Column("finding", "figures.finding"),
]
_OF = attrgetter("comparison")
_TESTS = [
    Column("sign_test_p", "sign_test.p"),
    Column("permutation_test_p", "permutation_test.p"),
    *(Column(key) for key in ("adjusted_p", "claims")),
]
_FIGURES = [
    Column("judge", lambda row: row.judge.name if row.judge else f"majority of {', '.join(row.claim.policies)}"),
    Column("judge_model", lambda row: row.judge and row.judge.model),
    *(Column(key, f"claim.{key}") for key in ("candidate", "baseline")),
    Column("policy"),
    Column("leading", "leads"),
    *_TALLY,
    *(column.within(attrgetter("tests")) for column in _TESTS),
    _leading("length_adjusted_win_rate", lambda it: it.length.adjusted.win_rate if it.length else None),
    _leading("style_controlled_win_rate", lambda it: it.style.win_rate if it.style else None),
    Column("length_controlled_win_rate", lambda it: it.length_control and it.length_control.win_rate).within(_OF),
    *(Column(key).within(_OF) for key in _COMPARED),
    Column("agreement_with_people", lambda row: row.judge and row.judge.agreement),
    _leading("which_figure_leads", lambda it: it.leads),
    Column("warnings", lambda it: it.judge and "; ".join(map(str, [*judge_warnings(it.judge), *it.claim.warnings]))),
]
