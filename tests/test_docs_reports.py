"""docs/reports.md: its commands are valid and its warnings are those of the code."""

from __future__ import annotations

import inspect
import re
import shlex
from pathlib import Path

import pytest

from instruct.arguments import make_parser
from instruct.reporting import judges, lineage

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "reports.md").read_text(encoding="utf-8")
COMMANDS = [line for line in PAGE.splitlines() if line.startswith("instruct ")]


@pytest.mark.parametrize("command", COMMANDS)
def test_its_commands_are_valid(command):
    arguments = shlex.split(command, comments=True)[1:]
    assert make_parser().parse_args(arguments).verb == arguments[0]


def test_it_shows_both_commands():
    assert {command.split()[1] for command in COMMANDS} == {"report", "compare"}
    assert len(COMMANDS) >= 6


def test_its_warnings_are_those_of_the_code():
    source = inspect.getsource(lineage) + inspect.getsource(judges)
    told = re.findall(r"^\| ((?:the answers|the weights|X answered|the judge's|alpaca-eval).*?) \|", PAGE, re.MULTILINE)
    assert len(told) == 6
    for warning in told:
        fixed = re.split(r"\b[A-Z]\b", warning)  # the text between the names
        assert all(part.strip() in source for part in fixed), warning
