"""What leaves with a trained system: its card, and a base model's name that means the same elsewhere."""

from __future__ import annotations

import json
import shutil

import yaml
from train_configs import tiny_config, train, write_rows

from instruct.base.models import EMBEDDED_MODEL
from instruct.training.merge import merge_adapter


def test_an_adapter_and_its_card_name_the_hub_id_of_the_base_model(tmp_path, tiny_model_folder, monkeypatch):
    """Of the embedded model, in whose place a tiny one lies in the cache."""
    monkeypatch.setenv("INSTRUCT_CACHE", str(tmp_path / "cache"))
    shutil.copytree(tiny_model_folder, tmp_path / "cache" / "models" / EMBEDDED_MODEL)
    rows = write_rows(tmp_path / "rows.jsonl", 1)
    config = tiny_config(EMBEDDED_MODEL, rows, lora={"r": 2, "target_modules": ["q_proj"]}, train={"max_steps": 2})
    run = train(tmp_path / "run", config)
    adapter = json.loads((run.adapters / "emo" / "adapter_config.json").read_text())
    assert adapter["base_model_name_or_path"] == "HuggingFaceTB/SmolLM2-135M-Instruct"
    card = (run.adapters / "emo" / "README.md").read_text()
    assert "library_name: peft" in card
    assert "rounded to 4 bits" in card
    assert str(tmp_path) not in card + json.dumps(adapter)
    # Here the adapter is loaded on the embedded copy, without the hub.
    (merged,) = merge_adapter(config, run)
    assert (merged / "model.safetensors").is_file()
    card = (merged / "README.md").read_text()
    assert yaml.safe_load(card.split("---\n")[1]) == {
        "base_model": "HuggingFaceTB/SmolLM2-135M-Instruct",
        "library_name": "transformers",
        "pipeline_tag": "text-generation",
        "tags": ["instruct", "sft", "emo", "lora"],
    }
    assert "- max_steps: 2\n" in card
