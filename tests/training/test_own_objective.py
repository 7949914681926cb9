"""An objective of the user's own through a config."""

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


def test_code_is_kept_and_a_run_is_not_continued_with_changed_code(tmp_path, tiny_model_folder):
    (tmp_path / "scaled.py").write_text(CODE)
    systems = {"ours": {"objective": f"{tmp_path / 'scaled.py'}:Scaled", "objective_args": {"factor": 2.0}}}
    own = tiny_config(tiny_model_folder, write_rows(tmp_path / "rows.jsonl"), systems=systems)
    own.train |= {"max_steps": 1, "save_steps": 1}
    adapter = train(tmp_path / "run", own, "ours").adapters / "ours"
    assert (adapter / "objective.py").read_text() == CODE
    (tmp_path / "scaled.py").write_text(CODE + "\n# changed\n")
    with pytest.raises(
        InputError, match=r"has changed since .* began to train with it; restore it, or start a run with"
    ):
        train(tmp_path / "run", own, "ours")
    assert (adapter / "adapter_model.safetensors").is_file()
