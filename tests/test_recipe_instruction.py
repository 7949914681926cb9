"""recipes/instruction.py: the whole recipe on a few rows, and the conclusions that were planned."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import instruction
import pytest


@pytest.mark.slow
def test_the_recipe_chooses_rates_trains_and_compares(tmp_path, tiny_model_folder, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, value in (("SIZES", {"train": 8, "choose": 4, "test": 6}), ("SEEDS", "[1, 2]"), ("RATES", [1e-3, 3e-3])):
        monkeypatch.setattr(instruction, name, value)
    monkeypatch.setattr(instruction, "LIMITS", (1e-3, 3e-3))
    rows = [{"instruction": f"Say {n}.", "output": f"It is {n}."} for n in range(18)]
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    flags = [
        "--data.files", "rows.jsonl", "--model.name", str(tiny_model_folder), "--train.report_to", "none",
        "--answers.generation.engine", "transformers", "--answers.generation.max_new_tokens", "4",
    ]  # fmt: skip
    monkeypatch.setattr(sys, "argv", ["instruction.py", *flags])
    instruction.main()
    (path,) = Path("runs").glob("instruction_smollm2-*/results.json")
    record = json.loads(path.read_text())
    assert set(record["systems"]) == {"mle-seed1", "mle-seed2", "emo-seed1", "emo-seed2"}
    for key, rates in record["rates"].items():
        assert float(min(rates, key=lambda rate: rates[rate]["cross_entropy"])) == record["chosen"][key]
    found = record["comparisons"]["emo"]
    assert found["conclusion"] == instruction.conclusion(found["rouge_l"])
    assert f"emo: {found['conclusion']}" in path.with_suffix(".md").read_text()
