"""docs/reports.md: its warnings are those of the code."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from instruct.reporting import cautions

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "reports.md").read_text(encoding="utf-8")


def test_its_warnings_are_those_of_the_code():
    source = inspect.getsource(cautions)
    told = re.findall(r"^\| ((?:the answers of|it used the template) .*?) \|", PAGE, re.MULTILINE)
    assert len(told) == 2
    for warning in told:
        fixed = re.split(r"\b[A-Z]\b", warning)  # the text between the names
        assert all(part.strip() in source for part in fixed), warning
