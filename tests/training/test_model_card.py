"""What leaves with a trained system: its card, and a base model's name that means the same elsewhere."""

from __future__ import annotations

import json
import re
import shutil

import pytest
import yaml
from peft import LoraConfig
from tiny import make_trainer
from train_configs import tiny_config, write_rows
from train_configs import train as train_tiny

from instruct.base.models import EMBEDDED_MODEL, hub_id
from instruct.objectives import MLE
from instruct.reporting.provenance import trainings
from instruct.run.directory import RunDirectory
from instruct.training.merge import merge_adapter
from instruct.training.objective_names import OBJECTIVES


@pytest.fixture
def embedded(tmp_path, tiny_model_folder, monkeypatch) -> str:
    """The embedded model's name; in the cache lies a tiny model in place of SmolLM2."""
    monkeypatch.setenv("INSTRUCT_CACHE", str(tmp_path / "cache"))
    shutil.copytree(tiny_model_folder, tmp_path / "cache" / "models" / EMBEDDED_MODEL)
    return EMBEDDED_MODEL


def train(folder, model: str, **sections) -> tuple[object, RunDirectory]:
    sections = {"lora": {"r": 2, "target_modules": ["q_proj"]}, "train": {"max_steps": 2}, **sections}
    config = tiny_config(model, write_rows(folder / "rows.jsonl", 1), **sections)
    return config, train_tiny(folder / "run", config)


def metadata(card: str) -> dict:
    return yaml.safe_load(card.split("---\n")[1])


def test_an_adapter_and_its_card_name_the_hub_id_of_the_base_model(tmp_path, embedded):
    config, run = train(tmp_path, embedded)
    adapter = json.loads((run.adapters / "emo" / "adapter_config.json").read_text())
    assert adapter["base_model_name_or_path"] == "HuggingFaceTB/SmolLM2-135M-Instruct"
    card = (run.adapters / "emo" / "README.md").read_text()
    assert metadata(card)["library_name"] == "peft"
    assert "rounded to 4 bits" in card
    assert str(tmp_path) not in card + json.dumps(adapter)
    # Here the adapter is loaded on the embedded copy, without the hub.
    (merged,) = merge_adapter(config, run)
    assert (merged / "model.safetensors").is_file()
    card = (merged / "README.md").read_text()
    assert metadata(card) == {
        "base_model": "HuggingFaceTB/SmolLM2-135M-Instruct",
        "library_name": "transformers",
        "pipeline_tag": "text-generation",
        "tags": ["instruct", "sft", "emo", "lora"],
    }
    assert "- max_steps: 2\n" in card
    (training,) = trainings(run.manifest(), run.config(), {})  # two steps over one row
    assert (training.steps, training.epochs, training.learning_rate) == (2, 2.0, 2e-4)


def test_default_hyperparameters_are_shown_with_their_values(tmp_path, tiny_model_folder):
    _, run = train(tmp_path, str(tiny_model_folder), train={"num_train_epochs": 2})
    card = (run.adapters / "emo" / "README.md").read_text()
    shown = dict(re.findall(r"^- (.+): (.+)$", card, re.MULTILINE))
    expected = {"num_train_epochs": "2", "learning_rate": "0.0002", "max_length": "512", "seed": "42", "lora r": "2"}
    assert expected.items() <= shown.items()
    assert "max_steps" not in shown
    assert "base_model" not in metadata(card)  # a local folder, which nobody else has


@pytest.mark.parametrize(
    ("name", "expected"),
    [("Qwen/Qwen2.5-7B", "Qwen/Qwen2.5-7B"), ("gpt2", "gpt2"), ("./model", None), ("/a/b", None), ("~/model", None)],
)
def test_hub_id_names_only_what_others_can_load(name, expected):
    assert hub_id(name) == expected
    assert hub_id("models/mine/whole") is None


class Mine(MLE):
    """A user's own."""


@pytest.mark.parametrize("objective", [*OBJECTIVES, Mine()], ids=str)
def test_the_card_of_a_trainer_names_its_objective(tmp_path, objective):
    peft = LoraConfig(r=2, task_type="CAUSAL_LM")  # some objectives read the base under the adapter
    make_trainer(tmp_path, objective=objective, peft_config=peft).create_model_card()
    card, name = (tmp_path / "README.md").read_text(), objective if isinstance(objective, str) else "Mine"
    assert re.search(r"trained with ([^,]+)\.$", card, re.MULTILINE)[1] == name
    assert {"trl", "sft", name} == {*metadata(card)["tags"]} - {"generated_from_trainer", "hf_jobs"}
