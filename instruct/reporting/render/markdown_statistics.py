"""The statistics of report.md: intervals by method, tests, lengths, parts and systems pair by pair."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from instruct.reporting.render.text import escape_markdown, number, probability, span
from instruct.reporting.schema import Comparison, Report


def statistics_section(comparisons: Sequence[Comparison]) -> list[str]:
    """The tables of one judge's comparisons; what each figure means stands in docs/statistics.md."""
    return [*_significance(comparisons), *_lengths(comparisons), *_parts(comparisons)]


def paired_section(report: Report) -> list[str]:
    """Two systems that were judged against one baseline."""
    rows = [
        [
            *(escape_markdown(each[key]) for key in ("judge", "policy", "first", "second", "baseline")),
            str(each["n"]),
            number(each["difference"]),
            span(each["interval"]),
            probability(each["p"]),
        ]
        for each in report["paired"]
    ]
    if not rows:
        return []
    header = ["judge", "policy", "first", "second", "baseline", "prompts", "difference", "95 % interval", "p"]
    text = (
        "The first's win rate minus the second's in points, over the prompts judged for both, with its bootstrap "
        "interval and the p-value of the paired permutation test. Nothing is corrected for how many are compared."
    )
    return ["## Systems with one baseline", "", *table(header, rows, left=5), "", text, ""]


def _significance(comparisons: Sequence[Comparison]) -> list[str]:
    rows = []
    for comparison in comparisons:
        sign, permutation = comparison["significance"]["sign_test"], comparison["significance"]["permutation_test"]
        needed = comparison["power"]["pairs_needed"]
        rows.append(
            [
                *_names(comparison),
                probability(sign["p"]),
                str(sign["n"]),
                probability(permutation["p"]),
                number(comparison["power"]["smallest_difference"]),
                "-" if needed is None else f"{needed:,}",
            ]
        )
    header = ["candidate", "baseline", "sign test p", "without ties", "permutation p", "could show", "pairs needed"]
    text = (
        "Two-sided p-values under the leading policy. Could show: the smallest difference from 50 in points that so "
        "many pairs show in four of five experiments; pairs needed: for the difference seen."
    )
    return [*table(header, rows, left=2), "", text, ""]


def _lengths(comparisons: Sequence[Comparison]) -> list[str]:
    found = [(_names(comparison), comparison["length"]) for comparison in comparisons]
    lengths = [(names, length) for names, length in found if length is not None]
    if not lengths:
        return []
    rows = []
    for names, length in lengths:
        adjusted = length["adjusted"]
        rate = [number(adjusted["win_rate"]), span(adjusted["interval"]), escape_markdown(adjusted["note"] or "-")]
        rows.append([*names, rate[2], number(length["candidate_mean"]), number(length["baseline_mean"]), *rate[:2]])
    header = ["candidate", "baseline", "note", "its mean characters", "the baseline's", "at equal length %", "95 %"]
    model = escape_markdown(lengths[0][1]["adjusted"]["model"], 400)
    lines = [*table(header, rows, left=3), "", f"The win rate at equal length is by {model}.", ""]
    bins = [
        [*names, f"{each['low']} to {each['high']}", str(each["n"]), number(each["win_rate"]), span(each["interval"])]
        for names, length in lengths
        for each in length["by_difference"]
    ]
    header = ["candidate", "baseline", "characters longer", "pairs", "win rate %", "95 % interval"]
    return [*lines, *table(header, bins, left=2), "", "Fifths of the pairs by how much longer the candidate is.", ""]


def _parts(comparisons: Sequence[Comparison]) -> list[str]:
    rows = [
        [
            *_names(comparison),
            escape_markdown(part["dataset"]),
            *(str(part[key]) for key in ("n", "win", "tie", "loss", "unread")),
            number(part["win_rate"]),
            span(part["interval"]),
        ]
        for comparison in comparisons
        for part in comparison["parts"]
        if len(comparison["parts"]) > 1
    ]
    header = ["candidate", "baseline", "data set", "n", "win", "tie", "loss", "unread", "win rate %", "95 % interval"]
    return [*table(header, rows, left=3), ""] if rows else []


def _names(comparison: Comparison) -> list[str]:
    return [escape_markdown(comparison["candidate"]), escape_markdown(comparison["baseline"])]


def table(header: Sequence[str], rows: Iterable[Sequence[str]], left: int) -> list[str]:
    """A Markdown table whose first `left` columns are text and the others numbers."""
    rule = ["---" if index < left else "---:" for index in range(len(header))]
    return ["| " + " | ".join(cells) + " |" for cells in [header, rule, *rows]]
