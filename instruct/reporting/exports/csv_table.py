"""Every figure of a report as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from typing import Any

from instruct.errors import one_line
from instruct.reporting.render.text import judge_warnings
from instruct.reporting.schema import Comparison, Judge, Report

# What makes a cell a formula to a spreadsheet (OWASP, CSV injection); tabs and line breaks are gone by then.
_FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
_ENDS = ("low", "high")


def figures_csv(report: Report) -> str:
    """A row per judge, comparison and policy; RFC 4180 with line feeds.

    Rates, errors, intervals and bounds in percent, empty where they are not defined; `leading` tells the policy that
    the judge's card puts first, of which alone tests and the length-adjusted rate are. Foreign names are one
    line, and cannot be formulas: see `cell`.
    """
    return csv_text(
        _row(report, judge, comparison, policy)
        for judge in report["judges"]
        for comparison in judge["comparisons"]
        for policy in comparison["policies"]
    )


def csv_text(rows: Iterable[Mapping[str, Any]]) -> str:
    """Rows that have the same keys as CSV with a header; nothing without rows."""
    found = list(rows)
    if not found:
        return ""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(found[0])
    writer.writerows([cell(value) for value in row.values()] for row in found)
    return text.getvalue()


def cell(value: object) -> object:
    """A value for a cell: text on one line, after an apostrophe where a spreadsheet would take it for a formula."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str):
        return value
    line = one_line(value, 1000)
    return f"'{line}" if line.startswith(_FORMULA) else line


def _end(values: list[float] | None, end: str) -> float | None:
    return values[_ENDS.index(end)] if values else None


def _row(report: Report, judge: Judge, comparison: Comparison, policy: str) -> dict[str, Any]:
    figures = comparison["policies"][policy]
    spans = {"interval": figures["interval"], "second_interval": figures["second_interval"], "bound": figures["bounds"]}
    leads = policy == comparison["leading"]
    significance, length = comparison["significance"], comparison["length"]
    controlled = comparison["length_control"]
    return {
        "run": report["run"],
        "judge": judge["name"],
        "judge_model": judge["model"],
        "candidate": comparison["candidate"],
        "baseline": comparison["baseline"],
        "policy": policy,
        "leading": leads,
        "kind": figures["kind"],
        **{key: figures[key] for key in ("n", "n_judged", "win", "tie", "loss", "unparsed", "failed")},
        "win_rate": figures["win_rate"],
        "discrete_win_rate": figures["discrete_win_rate"],
        "standard_error": figures["standard_error"],
        "interval_method": figures["interval_method"],
        **{f"{name}_{end}": _end(values, end) for name, values in spans.items() for end in _ENDS},
        "finding": figures["finding"],
        "sign_test_p": significance["sign_test"]["p"] if leads else None,
        "permutation_test_p": significance["permutation_test"]["p"] if leads else None,
        "length_adjusted_win_rate": length["adjusted"]["win_rate"] if leads and length else None,
        "length_controlled_win_rate": controlled["win_rate"] if controlled else None,
        "pairs_judged": comparison["pairs_judged"],
        "pairs_expected": comparison["pairs_expected"],
        "partial": comparison["partial"],
        "consistency": comparison["consistency"],
        "first_position_rate": comparison["first_position_rate"],
        "agreement_with_people": judge["agreement"],
        "warnings": "; ".join([*judge_warnings(judge), *comparison["warnings"]]),
    }
