"""The tables that only exports have: leading figures, win rates by system and judge, and every figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from instruct.reporting.model import Comparison, Judge, ReportData, TallyFigures
from instruct.reporting.tables import Table, Value, table_of
from instruct.reporting.text import judge_warnings, number

_COUNTS = ("win", "tie", "contradicted", "identical", "loss", "unparsed", "failed")
_ENDS = ("low", "high")


def leading_table(comparisons: Sequence[tuple[Judge, Comparison]]) -> Table:
    """The leading figures of comparisons by several judges."""
    rows: list[Sequence[Value]] = []
    for judge, each in comparisons:
        figures = each.leading_figures
        missing = figures.unparsed + figures.failed
        rates = [figures.win_rate, figures.standard_error, figures.interval]
        rows.append([judge.name, each.baseline, each.leading, figures.n_judged, missing, *rates])
    header = ["judge", "baseline", "policy", "n", "no verdict", "win rate %", "std. error", "95 % CI"]
    return Table("Leading figures", header, rows, left=3)


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
    for judge in report.judges:
        comparisons = [each for each in judge.comparisons if each.baseline == baseline]
        for each in comparisons:
            found.setdefault(each.candidate, {})[judge.name] = _rate(each.leading_figures)
        if comparisons:
            policies = "/".join(dict.fromkeys(each.leading for each in comparisons))
            sizes = "/".join(dict.fromkeys(str(each.leading_figures.n_judged) for each in comparisons))
            captions[judge.name] = f"{judge.name}: {policies}, {sizes} pair{'s' * (sizes != '1')} with a verdict"
    rows: list[Sequence[Value]] = [
        [candidate, *(rates.get(judge) for judge in captions)] for candidate, rates in found.items()
    ]
    title = f"Win rate (%) against {baseline}, ± its standard error; a tie counts as half a win"
    return Table(title, ["System", *captions], rows, note="; ".join(captions.values()))


def _rate(figures: TallyFigures) -> str | None:
    if figures.win_rate is None:
        return None
    error = figures.standard_error
    return number(figures.win_rate) + ("" if error is None else f" ± {number(error)}")


def figures_table(report: ReportData) -> Table:
    """Every figure of a report, a row per judge, comparison and policy.

    Tests and the length-adjusted rate belong to the leading policy and are given in its row only.
    """
    rows = [
        _figures(report, judge, comparison, policy)
        for judge in report.judges
        for comparison in judge.comparisons
        for policy in comparison.policies
    ]
    return table_of("Figures", rows)


def _figures(report: ReportData, judge: Judge, comparison: Comparison, policy: str) -> dict[str, Any]:
    figures = comparison.policies[policy]
    leads = policy == comparison.leading
    spans = {"interval": figures.interval, "second_interval": figures.second_interval, "bound": figures.bounds}
    tests, length, controlled = comparison.significance, comparison.length, comparison.length_control
    return {
        "run": report.run,
        "judge": judge.name,
        "judge_model": judge.model,
        "candidate": comparison.candidate,
        "baseline": comparison.baseline,
        "policy": policy,
        "leading": leads,
        "kind": figures.kind,
        **{key: getattr(figures, key) for key in ("n", "n_judged", *_COUNTS)},
        "win_rate": figures.win_rate,
        "discrete_win_rate": figures.discrete_win_rate,
        "standard_error": figures.standard_error,
        "interval_method": figures.interval_method,
        **{f"{name}_{end}": ends[i] if ends else None for name, ends in spans.items() for i, end in enumerate(_ENDS)},
        "finding": figures.finding,
        "sign_test_p": tests.sign_test.p if leads else None,
        "permutation_test_p": tests.permutation_test.p if leads else None,
        "length_adjusted_win_rate": length.adjusted.win_rate if leads and length else None,
        "length_controlled_win_rate": controlled.win_rate if controlled else None,
        "pairs_judged": comparison.pairs_judged,
        "pairs_expected": comparison.pairs_expected,
        "partial": comparison.partial,
        "consistency": comparison.consistency,
        "first_position_rate": comparison.first_position_rate,
        "agreement_with_people": judge.agreement,
        "warnings": "; ".join([*judge_warnings(judge), *comparison.warnings]),
    }
