"""The text that training keeps: its scores are those of the trained weights, whatever interrupts the training."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
import yaml
from peft import PeftModel
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from instruct.base.files import sha256_of
from instruct.engines.canary import read_canary
from instruct.training.callbacks import LEAST, MOST


def scores(network, canary) -> list[float]:
    with torch.no_grad():
        logs = network.eval()(input_ids=torch.tensor([canary.ids])).logits[0].log_softmax(-1)
    return [float(logs[place - 1, canary.ids[place]]) for place in canary.places]


@pytest.fixture
def experiment(tiny_experiment):
    """A config that trains so much that its weights are known again."""
    tiny_experiment["judges"], tiny_experiment["comparisons"] = [], []
    tiny_experiment["train"] |= {"max_steps": 4, "learning_rate": 0.05, "save_steps": 2}

    def write(**changes) -> Path:
        Path("mine.yaml").write_text(yaml.safe_dump({**tiny_experiment, **changes}))
        return Path("mine.yaml")

    return write


@pytest.mark.parametrize("lora", [{"r": 2}, None], ids=str)
def test_the_scores_are_those_of_the_weights_before_and_after(experiment, tiny_experiment, instruct, lora):
    """In float32, of weights as they are saved, whatever the training computes in."""
    train = {**tiny_experiment["train"], "learning_rate": 0.05 if lora else 0.01}
    model = {**tiny_experiment["model"], "dtype": "bfloat16"}
    assert instruct("run", experiment(lora=lora, train=train, model=model), "--until", "answer")[0] == 0
    folder = Path("runs/mine/adapters/emo")
    canary = read_canary(folder)
    assert LEAST <= len(canary.places) <= MOST
    network = AutoModelForCausalLM.from_pretrained(model["name"], dtype=torch.bfloat16).float()
    assert canary.base == pytest.approx(scores(network, canary), abs=1e-5)
    whole = None if lora else AutoModelForCausalLM.from_pretrained(folder).float()
    trained = whole or PeftModel.from_pretrained(network, folder)
    assert canary.trained == pytest.approx(scores(trained, canary), abs=1e-5)
    results = json.loads(Path("runs/mine/manifest.json").read_text())["steps"]["answers"]["results"]
    assert results["emo"]["weights"] == "checked"


def test_weights_that_are_not_those_of_training_do_not_answer(experiment, instruct):
    """As if a server had loaded another adapter: the files' hashes are right, and no answer is written."""
    assert instruct("train", experiment())[0] == 0
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
