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


def test_the_page_has_the_registers():
    page = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    found = json.loads((ROOT / "benchmarks" / "results" / "compiled_kernels-sm_90.json").read_text())
    assert found["device"] == "sm_90"
    assert all(row["spilled_bytes"] == 0 for row in found["rows"])
    shown = [row for row in found["rows"] if (row["dtype"], row["vocabulary"]) == ("bf16", 128256)]
    for row in shown:
        if row["use"] != "everything":
            objective = {"mle": "cross-entropy", "emo": "EMO"}[row["use"]]
            figures = f"{row['registers']} | {row['warps']} | {100 * row['occupancy']:.0f} %"
            assert f"| {row['kernel']} | {objective} | {figures} |" in page
