"""An objective of the user's own through a config and through EMOConfig."""

from __future__ import annotations

import pytest
from train_configs import tiny_config, train, write_rows

from instruct.base.errors import InputError

CODE = """\
import torch
from instruct.objectives.objective import Weighting

class Scaled:
    needs = ()

    def __init__(self, factor=1.0):
        self.factor = factor

    def weigh(self, token):
        a = torch.full_like(token.ce, self.factor)
        return Weighting(a=a, value=a * token.ce)
"""


@pytest.fixture
def own(tmp_path, tiny_model_folder):
    (tmp_path / "scaled.py").write_text(CODE)
    system = {"objective": f"{tmp_path / 'scaled.py'}:Scaled", "objective_args": {"factor": 2.0}}
    systems = {"ours": system, "mle": {"objective": "mle"}}
    config = tiny_config(tiny_model_folder, write_rows(tmp_path / "rows.jsonl"), systems=systems)
    config.train |= {"max_steps": 1, "save_steps": 1}
    return config


def test_an_own_objective_trains_from_a_config_and_its_code_is_kept(tmp_path, own):
    run = train(tmp_path / "run", own, "ours")
    train(tmp_path / "run", own, "mle")
    steps = run.manifest()["steps"]
    ours, mle = (steps[f"train/{name}"]["results"]["first"] for name in ("ours", "mle"))
    assert ours["ce"] == pytest.approx(mle["ce"])
    assert ours["loss"] == pytest.approx(2 * mle["loss"], rel=1e-4)
    adapter = run.adapters / "ours"
    assert (adapter / "objective.py").read_text() == CODE
    assert (
        "scaled.py:Scaled** (factor 2.0), an objective whose code is in objective.py"
        in (adapter / "README.md").read_text()
    )
    assert len(steps["train/ours"]["inputs"]["objective"]) == 64


def test_a_run_is_not_continued_with_changed_code(tmp_path, own):
    train(tmp_path / "run", own, "ours")
    (tmp_path / "scaled.py").write_text(CODE + "\n# changed\n")
    with pytest.raises(
        InputError, match=r"has changed since .* began to train with it; restore it, or start a run with"
    ):
        train(tmp_path / "run", own, "ours")
    assert (tmp_path / "run" / "adapters" / "ours" / "adapter_model.safetensors").is_file()
