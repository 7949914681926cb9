"""What the pages say of speed and memory is what the results files hold."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.slow
def test_the_objective_takes_less_memory_than_the_logits_alone():
    """A hundred chunks of tokens: neither they nor a matrix of tokens x vocabulary is ever there at once."""
    tokens, vocabulary = 8192, 8000
    call = [sys.executable, "-m", "benchmarks.memory", "--one", "mle", str(vocabulary), "32", str(tokens), "cpu"]
    printed = subprocess.run(call, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert json.loads(printed.splitlines()[-1])["peak"] < 0.5 * tokens * vocabulary * 2


def test_the_page_is_made_from_the_results(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks.summary import page

    text = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    assert page(text) == text
