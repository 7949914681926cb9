"""What leaves with a trained system: its card, and a base model's name that means the same elsewhere."""

from __future__ import annotations

import json
import re
import shutil

import pytest
import yaml
from tiny import make_trainer
from train_configs import tiny_config, write_rows
from train_configs import train as train_tiny

from instruct.base.models import EMBEDDED_MODEL
from instruct.run.directory import RunDirectory
from instruct.training.merge import merge_adapter


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


def test_the_card_of_a_trainer_names_its_objective(tmp_path):
    make_trainer(tmp_path, objective="focal").create_model_card()
    card = (tmp_path / "README.md").read_text()
    assert re.search(r"trained with ([^,]+)\.$", card, re.MULTILINE)[1] == "focal"
    assert {"trl", "sft", "focal"} == {*metadata(card)["tags"]} - {"generated_from_trainer", "hf_jobs"}
