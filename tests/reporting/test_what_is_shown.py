"""What every output shows of a report: which figures are exploratory, how many digits, and nothing that is empty.

The population: reports of the worlds that benchmarks.worlds draws, through every renderer.
"""

from __future__ import annotations

import html
import re

import numpy as np
import pytest
from pages import tables_of

from benchmarks.worlds import RUNS
from instruct.reporting.build import build
from instruct.reporting.digits import number
from instruct.reporting.document import Brief, Document, Section, Verdict, document
from instruct.reporting.render.lines import render_markdown, render_terminal
from instruct.reporting.report import Report
from instruct.reporting.tables import Column, columns_table
from instruct.reporting.text import EXPLORATORY


@pytest.fixture(scope="module", params=sorted(RUNS))
def report(request) -> Report:
    world = RUNS[request.param][-1]
    return Report.of(build(world(np.random.default_rng(1)).contents))


def test_no_table_has_a_row_or_a_column_that_says_nothing(report):
    shown = document(report)
    tables = [*tables_of([*shown.opening, *shown.numbers])]
    assert tables
    for table in tables:
        assert table.rows, table.title
        columns = list(zip(*table.rows, strict=True))
        assert all(any(value is not None for value in column) for column in columns), table.title
        if table.left < len(table.header):
            assert all(any(value is not None for value in row[table.left :]) for row in table.rows), table.title


def test_a_table_of_nothing_is_in_no_output():
    columns = [Column("name", text=True), Column("rate", error="interval"), Column("95 % CI", "interval")]
    rows = [type("Row", (), {"name": "emo", "rate": None, "interval": None})] * 2
    empty = columns_table("Nothing", rows, columns, "A note.")
    shown = Document("run", [Brief(empty), empty], [empty, Section("Below", [empty])])
    for text in (render_markdown(shown), render_terminal(shown)):
        assert "Nothing" not in text
        assert "A note" not in text


@pytest.mark.parametrize(
    ("value", "error", "shown"),
    [
        (12.345, [10.0, 14.0], "12.3"),
        (12.345, [0.0, 80.0], "12"),
        (12.345, 0.0314, "12.345"),
        (12.345, 0.994, "12.35"),
        (12.345, 9.96, "12"),
        (0.5, [0.5, 0.5], "0.500"),
        (2048.6, None, "2,049"),
        (5.3333, None, "5.33"),
        (0.0, None, "0"),
        (100.0, None, "100"),
        (None, [1.0, 2.0], "-"),
    ],
)
def test_digits_follow_the_error_or_are_three(value, error, shown):
    assert number(value, error) == shown


RATES = re.compile(r"style control|length-controlled|\(discrete\)")


def test_every_exploratory_rate_is_below_its_mark_in_every_renderer(report):
    verdicts = [block for block in document(report).opening if isinstance(block, Verdict)]
    many = {verdict.candidate for verdict in verdicts if verdict.one_of_many}
    for verdict in verdicts:
        about, rates = verdict.exploratory
        assert EXPLORATORY in about
        assert not any(RATES.search(text) for text in (verdict.headline, *verdict.details))
        assert all(RATES.search(rate) for rate in rates)
        for text in (report.to_markdown(), *([] if many else [str(report)]), html.unescape(report.to_html())):
            flat = re.sub(r"[\\*]", "", re.sub(r"<[^>\s][^>]*>|&lt;|\s+", " ", html.unescape(text)))
            for rate in rates:
                place = flat.lower().index(" ".join(rate.split()[:4]).lower())
                assert EXPLORATORY in flat[:place]


def test_tables_and_columns_of_exploratory_figures_say_so(report):
    shown = document(report)
    for table in tables_of([*shown.opening, *shown.numbers]):
        if re.match(r"By data set|Length|Style|Win rate by length|If the judge errs", table.title):
            assert table.title.endswith(f"({EXPLORATORY})")
            assert table.exploratory
        if table.title == "Verdicts by policy" and "policy" in table.header:
            place = [*table.header].index("policy")
            assert all(row[place].endswith(("(leads)", "(exploratory)")) for row in table.rows)
        for name in table.header:
            assert name != "p"  # is it corrected?
            assert not re.match(r"(discrete|labels alone|judge alone) %$", name)
            assert name != "baseline"  # the name of a system


def test_a_headline_without_a_difference_has_no_bare_p_below_five_percent(report):
    verdicts = {
        (block.judge, block.candidate, block.baseline): block
        for block in document(report).opening
        if isinstance(block, Verdict)
    }
    for judge in report.judges:
        for comparison in judge.comparisons:
            made = comparison.claim
            if made.finding == "no difference" and made.p is not None and made.p < 0.05:
                verdict = verdicts[judge.name, comparison.candidate, comparison.baseline]
                assert f"before the correction for {made.claims} claims" in " ".join(verdict.details)
