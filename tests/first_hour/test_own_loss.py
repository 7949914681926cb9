"""A Python user with a loss of their own: a mistake in it is named before training, then it trains like any other."""

from __future__ import annotations

import ast
import sys

import pytest

pytestmark = pytest.mark.slow

LOSS = '''\
import torch
from instruct.objectives.objective import TokenStatistics, Weighting


class EntropyBonus:
    """-log p - strength * entropy."""

    needs = ("entropy",)

    def __init__(self, strength: float = 0.1) -> None:
        self.strength = strength

    def weigh(self, token: TokenStatistics) -> Weighting:
        h = torch.full_like(token.ce, -self.strength)
        return Weighting(a=torch.ones_like(token.ce), h=h, value=token.ce + h * token.entropy)


class Forgetful:
    """The entropy is in the value alone: nothing would train it."""

    needs = ("entropy",)

    def weigh(self, token: TokenStatistics) -> Weighting:
        return Weighting(a=torch.ones_like(token.ce), value=token.ce - 0.1 * token.entropy)
'''
SCRIPT = """\
import sys
from datasets import Dataset
from peft import LoraConfig
from instruct import EMOConfig, EMOTrainer
from instruct.base.errors import InputError
from my_loss import EntropyBonus, Forgetful

rows = [{"prompt": f"What is {n} plus {n}?", "completion": f" It is {2 * n}."} for n in range(8)]
options = {"max_steps": 2, "logging_steps": 1, "report_to": "none", "use_cpu": True, "bf16": False, "seed": 0}
for objective in (Forgetful(), EntropyBonus(strength=0.05)):
    try:
        trainer = EMOTrainer(sys.argv[1], EMOConfig(sys.argv[2], objective=objective, **options),
            train_dataset=Dataset.from_list(rows), peft_config=LoraConfig(r=2, target_modules="all-linear"))
    except InputError as error:
        print("refused:", error)
        continue
    trainer.train()
    trainer.save_model()
"""


def test_an_own_loss_is_checked_trained_and_kept(user, says, tiny_model_folder):
    user.writes("my_loss.py", LOSS)
    script = user.writes("train.py", SCRIPT)
    printed = user.runs([sys.executable, str(script), str(tiny_model_folder), "out"])
    says(printed, "refused: objective my_loss:Forgetful: entropy changes the value but no weight", "put its derivative")
    logged = [ast.literal_eval(line[line.index("{") :]) for line in printed.splitlines() if "{'loss'" in line]
    assert len(logged) == 2
    # The value is the cross-entropy less a twentieth of the entropy, so the two can be told apart in the log.
    for entry in logged:
        assert float(entry["loss"]) == pytest.approx(float(entry["ce"]) - 0.05 * float(entry["entropy"]), abs=2e-3)
    assert (user.folder / "out" / "adapter_model.safetensors").is_file()


def test_an_own_objective_is_compared_with_cross_entropy(user, says, tiny_model_folder):
    user.writes("my_loss.py", LOSS)
    user.writes("d.jsonl", [{"prompt": f"What is {n} plus {n}?", "completion": f"It is {2 * n}."} for n in range(40)])
    mine = "my_loss.py:EntropyBonus"
    says(user.types("check", mine), "EntropyBonus")
    says(user.types("check", "my_loss.py:Forgetful", code=2), "entropy changes the value but no weight")
    bench = ["bench", "--model", tiny_model_folder, "--data", "d.jsonl", "--objectives", f"mle,{mine}", "--seeds", "1"]
    bench += ["--answers.generation.engine", "transformers", "--answers.generation.max_new_tokens", "8"]
    bench += ["--train.max_steps", "2", "--rates", "1e-3", "--testing", "4", "--name", "own"]
    printed = user.types(*bench)
    says(printed, "Objectives", "EntropyBonus", "a trial, not a result", "page: runs/own/report/report.html")
    assert "EntropyBonus beats" not in printed  # one seed claims nothing
    says(user.reads("runs/own/report/report.md"), "## Objectives", "EntropyBonus")
