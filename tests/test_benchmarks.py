"""The benchmarks run, and what docs/performance.md says is what their results files hold."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import forked
import pytest

ROOT = Path(__file__).resolve().parent.parent


def run(*arguments: str) -> str:
    done = forked.run([sys.executable, "-m", *arguments], ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def benchmarks(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    import benchmarks.summary

    return benchmarks


@pytest.mark.slow
def test_objective_speed_prints_every_ratio():
    printed = run("benchmarks.objective_speed", "--shape", "700,16", "--tokens", "64", "--rounds", "2", "--no-write")
    assert "(700, 16), 64 tokens" in printed
    for pair in ("emo/mle", "emo/emoloss", "mle/torch_bf16", "mle/torch_float32"):
        assert pair in printed


@pytest.mark.full
def test_judge_speed_sends_the_same_requests_and_prints_every_ratio():
    printed = run("benchmarks.judge_speed", "--pairs", "6", "--rounds", "1", "--no-write")
    for contender in ("ours", "alpaca_eval", "alpaca_eval_64"):
        assert re.search(rf"^{contender} +6 requests", printed, re.MULTILINE)
    for figure in ("alpaca_eval/ours", "alpaca_eval_64/ours", "cpu_ms_a_verdict"):
        assert figure in printed


@pytest.mark.slow
def test_report_speed_prints_every_row_with_its_target():
    printed = run("benchmarks.report_speed", "--pairs", "6", "--verdicts", "20", "--rounds", "1", "--no-write")
    for row in ("help", "pairs", "pairs again", "verdicts"):
        assert re.search(rf"^{row} +.*seconds [\d.]+, cpu_seconds [\d.]+, gib [\d.]+, aim", printed, re.MULTILINE)
    assert re.search(r"^page +(pairs 6, seconds [\d.]+|not measured)", printed, re.MULTILINE)


@pytest.mark.full
def test_many_rows_prints_each_command_s_ratios():
    printed = run("benchmarks.many_rows", "--rows", "10", "30", "--no-write")
    for command in ("generate", "generate again", "judge", "judge again", "report"):
        assert re.search(rf"^{command} +times .*'cpu_seconds': [\d.]+}}, [\d.]+ GiB$", printed, re.MULTILINE)


@pytest.mark.slow
def test_the_objective_takes_less_memory_than_the_logits_alone():
    """A hundred chunks of tokens: neither they nor a matrix of tokens x vocabulary is ever there at once."""
    tokens, vocabulary = 8192, 8000
    call = [sys.executable, "-m", "benchmarks.memory", "--one", "mle", str(vocabulary), "32", str(tokens), "cpu"]
    printed = subprocess.run(call, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert json.loads(printed.splitlines()[-1])["peak"] < 0.5 * tokens * vocabulary * 2


def test_the_page_is_made_from_the_results(benchmarks):
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    assert benchmarks.summary.page(page) == page


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


def test_alternation_gives_every_contender_a_turn_in_every_round(benchmarks):
    from benchmarks.harness import alternate, ratio

    turns: list[str] = []
    seconds = alternate({name: (lambda name=name: turns.append(name)) for name in "abc"}, rounds=3)
    assert [sorted(turns[start : start + 3]) for start in range(0, 12, 3)] == [["a", "b", "c"]] * 4  # one to warm up
    assert {name: len(values) for name, values in seconds.items()} == {"a": 3, "b": 3, "c": 3}
    assert ratio({"x": [2.0, 4.0, 9.0], "y": [1.0, 1.0, 3.0]}, "x", "y")["median"] == 3
