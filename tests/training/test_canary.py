"""The text that training keeps: by its scores other weights than the trained ones are refused."""

from __future__ import annotations

import json
from pathlib import Path

import torch
import yaml
from safetensors.torch import load_file, save_file

from instruct.base.files import sha256_of


def test_weights_that_are_not_those_of_training_do_not_answer(tiny_experiment, instruct):
    """As if a server had loaded another adapter: the files' hashes are right, and no answer is written."""
    tiny_experiment["train"] |= {"max_steps": 4, "learning_rate": 0.05}  # so much that its weights are known again
    Path("mine.yaml").write_text(yaml.safe_dump(tiny_experiment))
    assert instruct("train", "mine.yaml")[0] == 0
    run = Path("runs/mine")
    path = run / "adapters" / "emo" / "adapter_model.safetensors"
    save_file({name: torch.zeros_like(tensor) for name, tensor in load_file(path).items()}, path)
    manifest = json.loads((run / "manifest.json").read_text())
    manifest["steps"]["train/emo"]["results"]["sha256"][path.name] = sha256_of(path)
    (run / "manifest.json").write_text(json.dumps(manifest))
    code, _, error = instruct("generate", run)
    assert code == 2
    assert error.strip().splitlines()[-1].startswith("instruct: system emo does not answer with the trained weights: ")
    assert not (run / "outputs" / "emo.json").exists()

    (run / "adapters" / "emo" / "canary.json").unlink()
    del manifest["steps"]["train/emo"]["results"]["sha256"]["canary.json"]
    (run / "manifest.json").write_text(json.dumps(manifest))
    code, _, error = instruct("generate", run)
    assert (code, "its adapter changes no log-probability" in error) == (2, True)
