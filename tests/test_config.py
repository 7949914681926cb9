"""Configs: keys, `extends`, and flags that override a key."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from instruct.base.errors import InputError
from instruct.config import ExperimentConfig, load_config, make_config, packaged_configs

ROOT = Path(__file__).resolve().parent.parent
CONFIGS = ROOT / "recipes" / "configs"
SHIPPED = sorted(file for file in CONFIGS.rglob("*.yaml") if file.parent.name != "accelerate" and file.stem != "base")


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_shipped_config_loads(path):
    config = load_config(path)
    assert config.name == path.stem
    assert {"mle", "emo"} <= set(config.systems)
    assert make_config(config.model_dump(mode="json"), [], "what a run keeps") == config


@pytest.mark.parametrize("size", ["7b", "13b"])
@pytest.mark.parametrize("family", ["llama1", "llama2"])
def test_appendix_c_hyperparameters(family, size):
    """EMO paper, Appendix C: 3 epochs, global batch 128, 2e-5 for 7B and 1e-5 for 13B, cosine, warm-up 0.03."""
    config = load_config(f"paper/{family}_{size}_alpaca")
    train = config.train
    assert config.lora is None
    assert train["num_train_epochs"] == 3
    assert 8 * train["per_device_train_batch_size"] * train["gradient_accumulation_steps"] == 128  # on 8 GPUs
    assert train["learning_rate"] == (2e-5 if size == "7b" else 1e-5)
    assert (train["lr_scheduler_type"], train["warmup_steps"], train["max_length"]) == ("cosine", 0.03, 512)
    assert [judge.card for judge in config.judges] == ["alpaca_eval_gpt4", "autoj", "pandalm"]


def test_a_config_extends_another_and_flags_override_both(tmp_path):
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "base.yaml").write_text(
        "lora: {r: 4, alpha: 8}\ntrain: {max_steps: 1, max_length: 64}\ndata: {files: [a.jsonl, b.jsonl]}\n"
    )
    (tmp_path / "middle.yaml").write_text("extends: base/base.yaml\ntrain: {max_length: 32}\nlora: null\n")
    (tmp_path / "leaf.yaml").write_text("extends: middle.yaml\nname: leaf\ndata: {files: [c.jsonl]}\nlora: {r: 2}\n")
    config = load_config(tmp_path / "leaf.yaml", ["--train.max_steps", "3"])
    assert config.train == {"max_steps": 3, "max_length": 32}  # mappings merge
    assert config.data.files == ["c.jsonl"]  # lists are replaced
    assert (config.lora.r, config.lora.alpha) == (2, 32)  # a null is replaced by a new mapping
    assert load_config(tmp_path / "leaf.yaml", ["--lora", "null"]).lora is None


@pytest.mark.parametrize(
    ("base", "message"),
    [
        ("extends: leaf.yaml\n", r"base\.yaml: extends: .*leaf\.yaml extends this file in turn"),
        ("lroa: null\n", r"leaf\.yaml \(extends .*base\.yaml\): unknown key 'lroa' \(nearest: lora"),
    ],
)
def test_a_base_config_that_cannot_be_extended_is_refused(tmp_path, base, message):
    (tmp_path / "base.yaml").write_text(base)
    (tmp_path / "leaf.yaml").write_text("extends: base.yaml\nname: leaf\n")
    with pytest.raises(InputError, match=message) as caught:
        load_config(tmp_path / "leaf.yaml")
    assert "\n" not in str(caught.value)


NESTED = {"min_lr": 1e-6, "powers": [1e3], "name": "1e"}


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("model.revision", "0123456", "0123456"),
        ("model.revision", "null", None),
        ("data.files", "#1.jsonl", ["#1.jsonl"]),
        ("data.files", "[a.jsonl, b.jsonl]", ["a.jsonl", "b.jsonl"]),
        ("needs_gpu", "yes", True),
        ("train.learning_rate", "1e-4", 1e-4),
        ("train.max_steps", "1e3", 1000),
        ("train.run_name", "123e4", "123e4"),
        ("train.lr_scheduler_kwargs", "{min_lr: 1e-6, powers: [+1E3], name: 1e}", NESTED),
    ],
)
def test_overrides_are_read_by_the_type_of_their_key(key, text, value):
    found: object = make_config({"name": "x"}, [f"--{key}", text], "flags")
    for name in key.split("."):
        found = found[name] if isinstance(found, dict) else getattr(found, name)
    assert (type(found), found) == (type(value), value)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--train.learning_rat", "1"], r"unknown key 'train.learning_rat' \(nearest: learning_rate"),
        (["--modl.name", "x"], r"unknown key 'modl' \(nearest: model"),
        (["--lora.task_type", "CAUSAL_LM"], "lora.task_type is set elsewhere"),
        (["--lora.r", "many"], "lora.r: must be a whole number.*given: 'many'"),
        (["--train.max_steps", "true"], r"train\.max_steps"),
        (["--comparisons", "[[emo, gpt]]"], "comparisons: unknown system 'gpt'; known: baseline, emo, mle"),
        (["--name", "../up"], "is not a valid name"),
        (["--answers.files", "a.txt", "--answers.eval_set", "alpaca_eval"], "files and eval_set exclude each other"),
        (["--data.files", "[a"], r"--data\.files: '\[a' is not valid YAML"),
    ],
)
def test_a_wrong_key_or_value_is_one_line_that_names_it(flags, message):
    with pytest.raises(InputError, match=message) as caught:
        load_config("demo", flags)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("section", "value", "key"),
    [("data", "[a.csv, b.csv]", "files"), ("data", "alpaca_gpt4", "card"), ("answers", "starter_eval", "eval_set")],
)
def test_a_section_is_a_file_or_a_cards_name_in_yaml_and_as_a_flag(tmp_path, section, value, key):
    path = tmp_path / "mine.yaml"
    start = f"extends: {packaged_configs()['demo']}\nname: x\n"
    path.write_text(f"{start}{section}: {value}\n")
    in_yaml = getattr(load_config(path), section)
    path.write_text(start)
    assert in_yaml == getattr(load_config(path, [f"--{section}", value]), section)
    assert getattr(in_yaml, key) == yaml.safe_load(value)


def test_an_address_with_a_password_is_refused_before_it_is_written():
    flags = ["--answers.generation.engine", "server", "--answers.generation.base_url", "http://me:secret@127.0.0.1/v1"]
    with pytest.raises(InputError, match=r"^flags: answers\.generation\.base_url: leave user, password") as caught:
        make_config({"name": "x"}, flags, "flags")
    assert "secret" not in str(caught.value)


def test_judges_compare_every_system_with_the_baseline_unless_pairs_are_named():
    config = ExperimentConfig(name="x", systems={name: {"objective": name} for name in ("emo", "mle")})
    assert config.compared == [("emo", "baseline"), ("mle", "baseline")]
    assert config.model_copy(update={"comparisons": [("emo", "mle")]}).compared == [("emo", "mle")]
