"""The generation config that is saved: transformers' `generate` stops where this package's engines do."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
from tiny import tiny_model
from train_configs import tiny_config, train, write_rows
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from instruct.base.errors import InputError
from instruct.engines.local import stop_token_ids
from instruct.training.generation_config import settle_generation_config
from instruct.training.merge import merge_adapter

sys.path.append(str(Path(__file__).parents[1] / "data"))
from small_tokenizers import small_tokenizer
from test_data_template_grid import NAMES, REPLIES, tokenizer_of

# What transformers refuses to save, beside the other values.
UNUSED = [
    {"temperature": 0.6, "top_p": 0.9},
    *({name: 0.5} for name in ("typical_p", "epsilon_cutoff", "length_penalty")),
    {"early_stopping": True},
    {"output_scores": True},
    {"use_cache": False, "cache_implementation": "static"},
    {"do_sample": False, "temperature": 0.0, "length_penalty": 0.0},
]
KEPT = {"eos_token_id": 2, "max_new_tokens": 7, "repetition_penalty": 1.1}


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


@pytest.mark.parametrize("lora", [None, {"r": 2}], ids=["full", "merged"])
@pytest.mark.parametrize("way", ["turn", "eos_token"])
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


@pytest.mark.parametrize("unused", UNUSED, ids=lambda unused: "-".join(unused))
def test_settings_without_effect_that_transformers_does_not_save_are_left_out_with_a_line(tmp_path, unused, caplog):
    model, tokenizer = tiny_model(), small_tokenizer(None, eos="</s>")
    model.name_or_path = str(tmp_path)
    model.generation_config = GenerationConfig(**KEPT, **unused)
    settle_generation_config(model, tokenizer)
    model.save_pretrained(tmp_path)
    saved = AutoModelForCausalLM.from_pretrained(tmp_path).generation_config
    assert {name: getattr(saved, name) for name in KEPT} == {**KEPT, "eos_token_id": [2, tokenizer.eos_token_id]}
    (line,) = [line for line in caplog.messages if str(tmp_path) in line]
    left = [name for name in unused if getattr(saved, name) != unused[name]]
    assert left
    assert all(f"{name} {unused[name]}" in line for name in left)


@pytest.mark.parametrize("refused", [{"num_return_sequences": 2}, {"early_stopping": "soon"}, {"max_new_tokens": 0}])
def test_one_that_transformers_does_not_load_is_refused_in_one_line(tmp_path, base, refused):
    (base / "generation_config.json").write_text(json.dumps(refused))
    config = tiny_config(base, write_rows(tmp_path / "rows.jsonl", 4), lora=None)
    with pytest.raises(InputError, match=next(iter(refused))) as error:
        train(tmp_path / "run", config)
    assert "\n" not in str(error.value)
