"""A script for TRL's SFTTrainer, changed to EMOTrainer in two lines."""

from __future__ import annotations

import ast
import difflib
import json
import sys

import pytest

pytestmark = pytest.mark.slow

SCRIPT = """\
import sys

from datasets import Dataset
from peft import LoraConfig
from trl import SFTConfig, SFTTrainer

rows = [{"prompt": f"What is {n} plus {n}?", "completion": f" It is {2 * n}."} for n in range(8)]
options = {"max_steps": 3, "logging_steps": 1, "report_to": "none", "use_cpu": True, "bf16": False, "seed": 0}
trainer = SFTTrainer(sys.argv[1], SFTConfig(sys.argv[2], **options), train_dataset=Dataset.from_list(rows),
                     peft_config=LoraConfig(r=2, target_modules="all-linear"))
trainer.train()
trainer.save_model()
"""


def test_two_lines_make_a_trl_script_train_with_emo(user, tiny_model_folder):
    changed = SCRIPT.replace("from trl import SFTConfig, SFTTrainer", "from instruct import EMOConfig, EMOTrainer")
    changed = changed.replace("SFTTrainer(", "EMOTrainer(").replace(
        "SFTConfig(sys.argv[2],", 'EMOConfig(sys.argv[2], objective="emo",'
    )
    lines = [line for line in difflib.ndiff(SCRIPT.splitlines(), changed.splitlines()) if line.startswith("+ ")]
    assert len(lines) == 2

    logged = {}
    for name, text in {"theirs": SCRIPT, "ours": changed}.items():
        script = user.writes(f"{name}.py", text)
        printed = user.runs([sys.executable, str(script), str(tiny_model_folder), name])
        logged[name] = [ast.literal_eval(line) for line in printed.splitlines() if line.startswith("{'loss'")]
        assert (user.folder / name / "adapter_model.safetensors").is_file()
    assert [len(entries) for entries in logged.values()] == [3, 3]
    # The same rows, masks and tokens: before the first update the cross-entropy is TRL's loss.
    first = {name: entries[0] for name, entries in logged.items()}
    assert float(first["ours"]["ce"]) == pytest.approx(float(first["theirs"]["loss"]), rel=2e-3)
    assert {"cost", "ratio"} <= set(first["ours"])
    card = json.loads((user.folder / "ours" / "adapter_config.json").read_text())
    assert card["r"] == 2
