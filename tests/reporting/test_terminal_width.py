"""What is printed fits a terminal of 80 columns, and lines to a file or a pipe are not broken."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator

import pytest
from pages import WIN

from instruct.base.output import wrapped
from instruct.reporting.render.lines import terminal_table
from instruct.reporting.report import build_report
from instruct.reporting.tables import Table

LONG = "  WARNING: " + "the answers of a system are cut off at the length limit " * 3


@contextlib.contextmanager
def terminal() -> Iterator[None]:
    """Within it, stdout is a terminal of 80 columns."""
    ours, theirs = os.openpty()
    with pytest.MonkeyPatch.context() as patch, os.fdopen(theirs, "w") as stream:
        patch.setenv("COLUMNS", "80")
        patch.setattr(sys, "stdout", stream)
        yield
    os.close(ours)


def test_a_summary_fits_a_terminal_and_has_a_line_per_sentence_in_a_file(judge_run):
    warning = "this judge follows the length of the answers and checks no fact in them; do not quote it"
    report = build_report(judge_run([WIN] * 4 + [("first", "first")] * 8, warning=warning).folder)
    with terminal():
        lines = str(report).splitlines()
    assert max(map(len, lines)) <= 80
    assert "  them; do not quote it" in lines
    assert any("checks no fact in them; do not quote it" in line for line in str(report).splitlines())


def test_rows_that_do_not_fit_next_to_each_other_go_below():
    header = ["name", *(f"figure {number}" for number in range(12))]
    rows = [[f"a system with a long name {row}", *range(12)] for row in range(3)]
    with terminal():
        lines = terminal_table(Table("t", header, rows), indent=2)
    assert max(map(len, lines)) <= 80
    assert " ".join(lines[0].split()) == "name a system with a long name 0 a system with a long name 1"
    assert lines[13:15] == ["", "  name       a system with a long name 2"]
    assert len(lines) == 27


def test_long_lines_are_broken_between_words_and_indented():
    with terminal():
        lines = wrapped(f"short\n{LONG}\n\n{'x' * 90}").split("\n")
    assert lines[0] == "short"
    assert all(len(line) <= 80 for line in lines[:-1])
    assert lines[1].startswith("  WARNING: the answers")
    assert lines[2].startswith("    ")
    assert " ".join(" ".join(lines[1:-2]).split()) == LONG.strip()
    assert lines[-2:] == ["", "x" * 90]  # a path stays whole


def test_a_line_of_a_plan_goes_on_below_its_text():
    with terminal():
        lines = wrapped("overlap   " + "0 of 24 evaluation prompts are in the training data, " * 3).split("\n")
    assert len(lines) == 3
    assert all(line.startswith(" " * 10) for line in lines[1:])


def test_lines_to_a_pipe_are_not_broken():
    assert wrapped(LONG) == LONG
