"""The generation config that is saved: transformers' `generate` stops where this package's engines do."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
from tiny import tiny_model
from train_configs import tiny_config, train, write_rows
from transformers import AutoTokenizer, GenerationConfig

from instruct.engines.local import stop_token_ids
from instruct.training.generation_config import settle_generation_config
from instruct.training.merge import merge_adapter

sys.path.append(str(Path(__file__).parents[1] / "data"))
from test_data_template_grid import NAMES, REPLIES, tokenizer_of


def assert_stops(folder: Path, end: int) -> None:
    """At the token, which the tokenizer's engines stop at, too."""
    stops = GenerationConfig.from_pretrained(folder).eos_token_id
    assert end in stops
    assert {*stops} == {*stop_token_ids(AutoTokenizer.from_pretrained(folder), str(folder))}


@pytest.mark.parametrize("name", NAMES)
def test_the_end_of_every_templates_turn_is_in_it(tmp_path, name):
    tokenizer, model = tokenizer_of(name), tiny_model()
    settle_generation_config(model, tokenizer)
    model.save_pretrained(tmp_path)
    (*first, end) = tokenizer(REPLIES[name].end, add_special_tokens=False)["input_ids"]
    stops = GenerationConfig.from_pretrained(tmp_path).eos_token_id
    assert {2, tokenizer.eos_token_id} <= {*stops}, "the base's, and that of a text"
    assert {*first, end} & {*stops}, "an answer's"


@pytest.fixture
def base(tmp_path, tiny_model_folder) -> Path:
    """It ends with <|system|>, and a turn of its template with <|end|>; a temperature is beside `do_sample: false`."""
    folder = tmp_path / "base"
    shutil.copytree(tiny_model_folder, folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.eos_token = "<|system|>"
    tokenizer.save_pretrained(folder)
    settings = {"eos_token_id": tokenizer.eos_token_id, "do_sample": False, "temperature": 0.6, "max_new_tokens": 9}
    (folder / "generation_config.json").write_text(json.dumps(settings))
    return folder


@pytest.mark.parametrize(("way", "lora"), [("turn", None), ("eos_token", {"r": 2})], ids=["full", "merged"])
def test_a_run_saves_it_with_the_model(tmp_path, base, caplog, lora, way):
    token = {"turn": "<|end|>", "eos_token": "<|assistant|>"}[way]
    template, named = ("chat", {}) if way == "turn" else ("alpaca", {"eos_token": token})
    data = {"files": [write_rows(tmp_path / "rows.jsonl", 4)], "template": template}
    config = tiny_config(base, "", lora=lora, data=data, train={"max_steps": 1, **named})
    run = train(tmp_path / "run", config)
    folder = merge_adapter(config, run)[0] if lora else run.adapters / "emo"
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert_stops(folder, tokenizer.convert_tokens_to_ids(token))
    settings = GenerationConfig.from_pretrained(folder)
    assert (settings.do_sample, settings.temperature, settings.max_new_tokens) == (False, None, 9)
    assert "temperature 0.6" in caplog.text
