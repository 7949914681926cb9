"""recipes/oracle.py on a tiny generator: its texts are learned, and every number of Table 2 is measured."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import forked
import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.slow
def test_the_recipe_learns_a_generator_and_measures_against_it(tmp_path, tiny_model_folder):
    flags = [
        "--config", "oracle_smollm2", "--train", "40", "--valid", "10", "--test", "230", "--tuning-steps", "1",
        "--train.max_steps", "2", "--train.eval_steps", "2", "--train.save_steps", "2", "--train.report_to", "none",
        "--seeds", "[1]", "--systems", "{mle: {objective: mle}, energy: {objective: energy}}",
        "--continuations.prefix", "2 tokens", "--continuations.continuation", "6 tokens",
        "--evaluation.texts.reference_model", str(tiny_model_folder),
        "--evaluation.texts.mauve_model", str(tiny_model_folder),
    ]  # fmt: skip
    command = [sys.executable, ROOT / "recipes" / "oracle.py", *flags]
    done = forked.run(command, tmp_path)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    runs = tmp_path / "runs"
    assert 38 <= len((runs / "oracle_smollm2-texts" / "train.jsonl").read_text().splitlines()) <= 40
    tuned = json.loads((runs / "oracle_smollm2-tuning" / "tuning.json").read_text())
    assert len(tuned["validation_ce"]) == 3 + 6
    table = (runs / "oracle_smollm2" / "oracle.md").read_text()
    rows = {line.split(" | ")[0]: line.split(" | ")[2:] for line in table.splitlines()[2:5]}
    assert list(rows) == ["| energy", "| mle-matched-energy", "| mle"]
    assert "-" not in [cell.strip(" |") for cell in rows["| energy"]]
    assert "114.46" in table  # the paper's, next to ours
