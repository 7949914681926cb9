"""The files around the code agree with it: version, make targets, tools."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from instruct import __version__

ROOT = Path(__file__).resolve().parent.parent
TARGETS = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def test_the_version_is_the_same_everywhere():
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == __version__
    assert re.search(rf"^## .*\b{re.escape(__version__)}\b", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", ".ci/run", ".github/workflows/ci.yml"])
def test_make_targets_exist(page):
    """Commands start a line, follow `run:` or `step`, or stand in backticks."""
    calls = re.findall(r"(?:^|run: |step |`)make ((?:[a-z-]+ ?)+)", (ROOT / page).read_text(), re.MULTILINE)
    assert calls
    assert {target for call in calls for target in call.split()} <= TARGETS
