"""README.md stays short; what docs/compare_logs.md says of other projects is what the installed ones do."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
from pathlib import Path

from instruct.training.objective_names import OBJECTIVES

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
TABLE = (ROOT / "docs" / "compare_logs.md").read_text(encoding="utf-8")


def row(project: str) -> list[str]:
    """The cells of a project's row: what it trains with, compares by, states as its uncertainty."""
    (line,) = [line for line in TABLE.splitlines() if line.startswith(f"| {project}")]
    return [cell.strip() for cell in line.split("|")[2:-1]]


def package(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    assert spec is not None
    return Path(spec.origin).parent


def minor(name: str) -> str:
    return ".".join(importlib.metadata.version(name).split(".")[:2])


def test_it_is_short_and_shows_a_result_before_the_commands():
    assert len(README.splitlines()) <= 110
    top = README[: README.index("make demo")]
    assert len(top.splitlines()) <= 40
    assert "docs/report.png" in top
    assert "docs/results/alpaca_7b" in top


def test_the_number_of_objectives_is_right():
    assert row("**instruct**")[0].startswith(f"{len(OBJECTIVES)} objectives")
    assert f"{len(OBJECTIVES) - 2} more, and [your own" in README  # than cross-entropy and EMO


def test_trl_fine_tunes_with_cross_entropy_or_dft_and_has_no_judge():
    trains, compares, _ = row(f"TRL {minor('trl')}")
    assert trains.startswith("cross-entropy, DFT, ")
    assert compares == "-"
    text = (package("trl") / "trainer" / "sft_config.py").read_text(encoding="utf-8")
    assert '"choices": ["nll", "dft", "chunked_nll"]' in text  # the last is another name of the first
    sources = package("trl").rglob("*.py")
    assert not [path for path in sources if re.search(r"class \w*(Judge|WinRate)", path.read_text(encoding="utf-8"))]


def test_alpaca_eval_asks_local_models_too_in_one_random_order():
    _, compares, states = row(f"alpaca_eval {minor('alpaca-eval')}")
    assert "behind an API or local" in compares
    assert "one order, drawn at random" in compares
    assert "agreement with people" in states
    folder = package("alpaca_eval")
    assert {"openai.py", "vllm_local.py"} <= {path.name for path in (folder / "decoders").iterdir()}
    annotator = (folder / "annotators" / "pairwise_evaluator.py").read_text(encoding="utf-8")
    assert "is_randomize_output_order: bool = True" in annotator
    evaluators = folder / "leaderboards" / "evaluators" / "evaluators_leaderboard.csv"
    assert evaluators.read_text(encoding="utf-8").startswith(",Human agreement,")
