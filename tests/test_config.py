"""Configs: overrides, unknown keys, and the shipped files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel

from instruct.base.cards import _models_in, validated
from instruct.base.errors import InputError
from instruct.base.options import kinds_of
from instruct.command.reference import config_keys
from instruct.config import (
    ExperimentConfig,
    check_train_arguments,
    find_config,
    load_config,
    make_config,
    packaged_configs,
    parse_overrides,
)
from instruct.data.cards import DatasetCard, load_dataset_card
from instruct.engines.cluster import ClusterOptions
from instruct.judging.cards import JudgeCard
from instruct.judging.options import JudgeOptions
from instruct.phases.bench import BenchOptions
from instruct.training.options import TRAIN_KEYS

ROOT = Path(__file__).resolve().parent.parent
CONFIGS = ROOT / "recipes" / "configs"
SHIPPED = sorted(file for file in CONFIGS.rglob("*.yaml") if file.parent.name != "accelerate" and file.stem != "base")


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_shipped_config_loads_and_opens_with_its_command(path):
    config = load_config(path)
    first = path.read_text().splitlines()[0]
    assert config.name == path.stem
    assert first.startswith("# ")
    assert "recipes/" in first
    # Texts have nothing to judge.
    assert config.judges or load_dataset_card(config.data.card).format == "text"
    assert {"mle", "emo"} <= set(config.systems)


def test_shipped_configs_resolve_to_the_frozen_experiments():
    """tests/golden/resolved_configs.json was written when each file was complete; keys it lacks have their default."""
    frozen = json.loads((ROOT / "tests" / "golden" / "resolved_configs.json").read_text())
    found = {str(path.relative_to(CONFIGS).with_suffix("")): load_config(path) for path in SHIPPED}
    assert found == {name: ExperimentConfig.model_validate(content) for name, content in frozen.items()}


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_gpu_configs_group_rows_by_length_and_answer_many_prompts_together(path):
    config = load_config(path)
    if not config.needs_gpu:
        pytest.skip("a config for a CPU")
    if config.answers is None:
        pytest.skip("a config for texts, which are packed")
    assert config.train["train_sampling_strategy"] == "group_by_length"
    # transformers answers for a 4-bit model, and pads
    assert config.answers.generation.batch_size == (32 if config.model.quantization else 256)


def test_a_config_extends_another(tmp_path):
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "base.yaml").write_text(
        "lora: {r: 4, alpha: 8}\ntrain: {max_steps: 1, max_length: 64}\ndata: {files: [a.jsonl, b.jsonl]}\n"
    )
    (tmp_path / "middle.yaml").write_text("extends: base/base.yaml\ntrain: {max_length: 32}\nlora: null\n")
    (tmp_path / "leaf.yaml").write_text("extends: middle.yaml\nname: leaf\ndata: {files: [c.jsonl]}\nlora: {r: 2}\n")
    config = load_config(tmp_path / "leaf.yaml", ["--train.max_steps", "3"])
    assert config.train == {"max_steps": 3, "max_length": 32}  # mappings merge, flags override all
    assert config.data.files == ["c.jsonl"]  # lists are replaced
    assert config.lora is not None
    assert (config.lora.r, config.lora.alpha) == (2, 32)  # a null is replaced by a new mapping
    assert "extends" not in config.model_dump()


@pytest.mark.parametrize(
    ("base", "message"),
    [
        ("extends: leaf.yaml\n", r"base\.yaml: extends: .*leaf\.yaml extends this file in turn"),
        ("extends: base.yaml\n", r"base\.yaml: extends: .*base\.yaml extends this file in turn"),
        ("extends: gone.yaml\n", r"base\.yaml: extends: .*gone\.yaml does not exist; give"),
        ("extends: [a.yaml]\n", r"base\.yaml: extends: must be the path of a YAML file \(given: \['a\.yaml'\]\)"),
        ("- a\n", r"base\.yaml: is not a mapping"),
        ("lroa: null\n", r"leaf\.yaml \(extends .*base\.yaml\): unknown key 'lroa' \(nearest: lora"),
    ],
)
def test_a_base_config_that_cannot_be_extended_is_refused(tmp_path, base, message):
    (tmp_path / "base.yaml").write_text(base)
    (tmp_path / "leaf.yaml").write_text("extends: base.yaml\nname: leaf\n")
    with pytest.raises(InputError, match=message) as caught:
        load_config(tmp_path / "leaf.yaml")
    assert "\n" not in str(caught.value)


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


def test_evol_instruct_is_judged_by_alpaca_eval_alone():
    for size in ("7b", "13b"):
        config = load_config(f"paper/llama2_{size}_evol")
        assert [judge.card for judge in config.judges] == ["alpaca_eval_gpt4"]
        assert config.train["max_length"] == 2048
        assert load_config(f"paper/llama2_{size}_evol_512").train["max_length"] == 512


def test_flags_override_the_file():
    config = load_config("demo", ["--train.learning_rate", "1e-4", "--data.files=a.jsonl", "--lora.r", "8"])
    assert config.train["learning_rate"] == 1e-4
    assert config.data.files == ["a.jsonl"]
    assert config.lora is not None
    assert config.lora.r == 8
    assert config.lora.alpha == 32  # what no flag names stays


def test_one_value_stands_for_a_list_of_one(tmp_path):
    (tmp_path / "c.yaml").write_text(
        "name: c\ndata: {files: rows.jsonl}\nanswers: {files: mine.txt}\njudges: autoj\ncomparisons: [emo, mle]\n"
    )
    config = load_config(tmp_path / "c.yaml")
    assert (config.data.files, config.answers.files) == (["rows.jsonl"], ["mine.txt"])
    assert ([judge.card for judge in config.judges], config.comparisons) == (["autoj"], [("emo", "mle")])
    assert [j.card for j in load_config("demo", ["--judges", "[autoj, {card: pandalm}]"]).judges] == [
        "autoj",
        "pandalm",
    ]


def test_two_sources_of_prompts_are_refused(tmp_path):
    message = "answers: files and eval_set exclude each other; remove one of them"
    with pytest.raises(InputError, match=message):
        load_config("demo", ["--answers.files", "a.txt", "--answers.eval_set", "alpaca_eval"])
    (tmp_path / "c.yaml").write_text("name: c\nanswers: {files: mine.txt, eval_set: alpaca_eval}\n")
    with pytest.raises(InputError, match=message):
        load_config(tmp_path / "c.yaml")
    answers = load_config("alpaca_emo_smollm2", ["--answers.files", "a.txt"]).answers  # a flag replaces the config's
    assert (answers.files, answers.eval_set) == (["a.txt"], "starter_eval")


def test_a_flag_can_empty_a_section():
    assert load_config("demo", ["--lora", "null"]).lora is None


NESTED = {"min_lr": 1e-6, "powers": [1e3], "name": "1e"}


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("model.revision", "0123456", "0123456"),
        ("model.revision", "123e4", "123e4"),
        ("model.revision", "2024-01-01", "2024-01-01"),
        ("model.revision", "'0123456'", "0123456"),
        ("model.revision", "null", None),
        ("model.name", "a: [b", "a: [b"),
        ("name", "123", "123"),
        ("data.files", "2024", ["2024"]),
        ("data.files", "[a.jsonl, b.jsonl]", ["a.jsonl", "b.jsonl"]),
        ("data.limit", "010", 10),
        ("data.limit", "1e3", 1000),
        ("needs_gpu", "yes", True),
        ("systems.emo.transport_cost", "1", "1"),
        ("train.learning_rate", "1e-4", 1e-4),
        ("train.max_steps", "1e3", 1000),
        ("train.run_name", "123e4", "123e4"),
        ("train.report_to", "[none]", ["none"]),
        ("train.bf16", "null", None),
        ("train.lr_scheduler_kwargs", "{min_lr: 1e-6, powers: [+1E3], name: 1e}", NESTED),
        ("systems.emo.objective_args", "{min_lr: 1e-6, powers: [+1E3], name: 1e}", NESTED),
        ("lora.alpha_pattern", "{min_lr: 1e-6, powers: [+1E3], name: 1e}", NESTED),
        ("lora.target_modules", "10", "10"),
        ("lora.trainable_token_indices", "[1, 2]", [1, 2]),
        ("lora.use_rslora", "true", True),
        ("lora.lora_alpha", "8", 8),
    ],
)
def test_overrides_are_read_by_the_type_of_their_key(key, text, value):
    systems = {"emo": {"objective": "emo"}}
    found: object = make_config({"name": "x", "systems": systems}, [f"--{key}", text], "flags")
    for name in key.replace("lora.lora_", "lora.").split("."):
        found = found[name] if isinstance(found, dict) else getattr(found, name)
    assert (type(found), found) == (type(value), value)


def test_lora_takes_the_keys_of_lora_config_by_both_names(tmp_path):
    (tmp_path / "base.yaml").write_text(
        "name: x\nlora: {lora_alpha: 8, rank_pattern: {q: 4}, init_lora_weights: eva}\n"
    )
    (tmp_path / "leaf.yaml").write_text("extends: base.yaml\nlora: {alpha: 9, eva_config: {rho: 2.0}}\n")
    lora = load_config(tmp_path / "leaf.yaml").lora
    assert lora is not None
    arguments = lora.lora_config()
    assert (arguments["lora_alpha"], arguments["rank_pattern"]) == (9, {"q": 4})
    assert arguments["eva_config"].rho == 2.0
    (tmp_path / "leaf.yaml").write_text("name: x\nlora: {alpha: 9, lora_alpha: 9}\n")
    with pytest.raises(InputError, match=r"leaf.yaml: lora: alpha and lora_alpha are the same; remove one of them"):
        load_config(tmp_path / "leaf.yaml")


def test_overrides_of_unknown_keys_are_yaml():
    assert parse_overrides(["--a.b", "1", "--c=[x, y]", "--d", "true", "--e", "text"]) == [
        ("a.b", 1), ("c", ["x", "y"]), ("d", True), ("e", "text"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--train.learning_rat", "1"], r"unknown key 'train.learning_rat' \(nearest: learning_rate"),
        (["--modl.name", "x"], r"unknown key 'modl' \(nearest: model"),
        (["--model.nam", "x"], r"unknown key 'model.nam' \(nearest: name"),
        (["--lora.use_rslor", "true"], r"unknown key 'lora.use_rslor' \(nearest: use_rslora"),
        (["--lora.task_type", "CAUSAL_LM"], "lora.task_type is set elsewhere"),
        (
            ["--lora.layers_pattern", "h"],
            "demo.yaml: lora: `layers_pattern` cannot be used when `target_modules` is a str",
        ),
        (["--lora.r", "many"], "lora.r: must be a whole number.*given: 'many'"),
        (["--systems.emo.seed", "few"], "systems.emo.seed: must be"),
        (["--train.output_dir", "x"], "train.output_dir is set elsewhere"),
        (["--comparisons", "[[emo, gpt]]"], "comparisons: unknown system 'gpt'; known: baseline, emo, mle"),
        (["--name", "../up"], "is not a valid name"),
        (["--name", "n" * 101], "is not a valid name.*at most 100 bytes"),
        (["--train.max_steps"], "--train.max_steps has no value"),
        (["stray"], "unexpected argument 'stray'"),
        (["--data.files", "[a"], r"--data\.files: '\[a' is not valid YAML"),
    ],
)
def test_a_wrong_key_or_value_is_one_line_that_names_it(flags, message):
    with pytest.raises(InputError, match=message) as caught:
        load_config("demo", flags)
    assert "\n" not in str(caught.value)


def test_data_and_answers_are_named_in_short():
    flags = ["--data", "mine.jsonl", "--data.limit", "5", "--answers=starter_eval"]
    assert parse_overrides(flags) == [
        ("data.files", "mine.jsonl"),
        ("data.limit", 5),
        ("answers.eval_set", "starter_eval"),
    ]
    assert parse_overrides(["--data", "[a.csv, b]"]) == [("data.files", ["a.csv", "b"])]
    assert parse_overrides(["--data", "{card: starter}"]) == [("data", {"card": "starter"})]


@pytest.mark.parametrize(
    ("section", "value", "key"),
    [
        ("data", "mine.jsonl", "files"),
        ("data", "[a.csv, b.csv]", "files"),
        ("data", "alpaca_gpt4", "card"),
        ("answers", "questions.txt", "files"),
        ("answers", "starter_eval", "eval_set"),
    ],
)
def test_a_section_is_a_file_or_a_cards_name_in_yaml_and_as_a_flag(tmp_path, section, value, key):
    path = tmp_path / "mine.yaml"
    path.write_text(f"extends: {packaged_configs()['demo']}\nname: x\n{section}: {value}\n")
    (tmp_path / "demo.yaml").write_text("extends: " + str(packaged_configs()["demo"]) + "\nname: x\n")
    in_yaml = getattr(load_config(path), section)
    assert in_yaml == getattr(load_config(tmp_path / "demo.yaml", [f"--{section}", value]), section)
    assert getattr(in_yaml, key) in (value, [value], yaml.safe_load(value))


def test_no_key_is_refused_in_the_words_of_a_library():
    said = set()
    for key in (key for key in config_keys() if not key.name.startswith("train.")):  # TRL checks its own
        for value in ("many", "-1", "[{a: [1]}]"):
            try:
                make_config({"name": "x"}, [f"--{key.name}", value], "flags")
            except InputError as error:
                said.add(str(error))
    assert len(said) > 100
    theirs = re.compile("Input should|valid (dict|int|str|list|num|bool)|instance of|pydantic")
    assert not [line for line in said if theirs.search(line)]


def test_an_address_with_a_password_is_refused_before_it_is_written():
    flags = ["--answers.generation.engine", "server", "--answers.generation.base_url", "http://me:secret@127.0.0.1/v1"]
    with pytest.raises(InputError, match=r"^flags: answers\.generation\.base_url: leave user, password") as caught:
        make_config({"name": "x"}, flags, "flags")
    assert "secret" not in str(caught.value)


def test_a_missing_config_lists_the_packaged_ones():
    with pytest.raises(InputError, match=r"nothing\.yaml: no such config; .*alpaca_emo.*demo.*paper/llama2_7b_alpaca"):
        find_config("nothing.yaml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [1", "line 2: is not valid YAML|line 1: is not valid YAML"),
        ("- a\n- b\n", "is not a mapping"),
        ("", "is not a mapping"),
    ],
)
def test_a_file_that_is_not_a_config_is_refused(tmp_path, text, message):
    path = tmp_path / "broken.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        load_config(path)


def test_a_second_data_file_that_is_taken_for_the_config_says_how_to_give_both(tmp_path, instruct, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("one.txt", "two.txt"):
        (tmp_path / name).write_text("A plain text.\n")
    code, _, errors = instruct("preview", "--model", "smollm2-135m-instruct", "--data.files", "one.txt", "two.txt")
    assert code == 2
    assert "two.txt: is not a mapping; " in errors
    assert errors.rstrip().endswith("or give several data files as data.files: [a.txt, b.txt]")
    assert dict(parse_overrides(["--data.files", "[one.txt, two.txt]"])) == {"data.files": ["one.txt", "two.txt"]}


def test_the_resolved_config_loads_as_itself():
    config = load_config("demo")
    dumped = yaml.safe_dump(config.model_dump(mode="json"))
    assert make_config(yaml.safe_load(dumped), [], "again") == config


def test_only_the_command_and_the_phases_see_the_whole_config():
    """Each room gets its own options."""
    package = ROOT / "instruct"
    importing = {
        str(path.relative_to(package)).partition("/")[0]
        for path in package.rglob("*.py")
        if re.search(r"^\s*(from instruct\.config import|import instruct\.config)", path.read_text(), re.MULTILINE)
    }
    assert importing == {"command", "phases"}


@pytest.mark.parametrize(("text", "value"), [("true", True), ("false", False), ("full_shard", "full_shard")])
def test_fsdp_takes_what_transformers_takes(text, value):
    assert make_config({"name": "x"}, ["--train.fsdp", text], "flags").train["fsdp"] == value


def test_a_text_that_yaml_takes_for_a_comment_is_a_text():
    assert make_config({"name": "x"}, ["--data.files", "#1.jsonl"], "flags").data.files == ["#1.jsonl"]


def test_a_text_that_is_no_yaml_is_left_to_the_library():
    assert make_config({"name": "x", "train": {"learning_rate": "[x"}}, [], "file").train["learning_rate"] == "[x"


def test_judges_compare_every_system_with_the_baseline_unless_pairs_are_named():
    config = ExperimentConfig(name="x", systems={name: {"objective": name} for name in ("emo", "mle")})
    assert config.compared == [("emo", "baseline"), ("mle", "baseline")]
    assert config.model_copy(update={"comparisons": [("emo", "mle")]}).compared == [("emo", "mle")]


NUMBERS = {int, float}
CARD = {"name": "j", "description": "d", "model": "m", "protocol": "reward", "licence": "MIT", "context_length": 1}
CARD |= {"order_policy": "one", "leading_policy": "single"}
# What is in the config, in cards, and in flags alone.
MODELS = [ExperimentConfig, BenchOptions, JudgeOptions, ClusterOptions, JudgeCard, DatasetCard]
NEEDED: dict[str, dict[str, Any]] = {
    "ExperimentConfig": {"name": "x"},
    "SystemOptions": {"objective": "mle"},
    "JudgeOptions": {"card": "x"},
    "JudgeCard": CARD,
    "DatasetCard": {"name": "d", "source": {"files": ["x"]}, "format": "alpaca", "licence": "MIT", "purpose": "train"},
    "RatingScale": {"low": -1, "high": 5},
    "DataOptions": {"files": ["x"], "eval_files": ["y"]},
    "MixedSource": {"files": ["x"], "weight": 0.5},
    "ContinuationOptions": {"files": ["x"]},
    "HeldOutOptions": {"files": ["x"]},
}


def within(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """A model, and those in its fields."""
    yield model
    for field in model.model_fields.values():
        for inner in _models_in(field.annotation):
            yield from within(inner)


@pytest.mark.parametrize("model", sorted({*chain.from_iterable(map(within, MODELS))}, key=lambda model: model.__name__))
def test_true_and_false_are_no_numbers(model):
    for key, field in model.model_fields.items():
        kinds = kinds_of(field.annotation)
        for value in (True, False) if kinds & NUMBERS and bool not in kinds else ():
            with pytest.raises(InputError) as error:
                validated(model, NEEDED.get(model.__name__, {}) | {key: value}, "given", whole=True)
            assert re.search(rf"^given: (\(top level\): )?{key}\b", str(error.value), re.MULTILINE), error.value


def test_true_and_false_are_no_numbers_of_training():
    """Nor are they in lists, such as the rates of a bench."""
    types = TRAIN_KEYS.types()
    keys = [key for key, kind in types.items() if kinds_of(kind) & NUMBERS and bool not in kinds_of(kind)]
    assert len(keys) > 30
    for key in keys:
        with pytest.raises(InputError, match=rf"given: train\.{key}\b"):
            check_train_arguments({key: True}, "given")
    with pytest.raises(InputError, match=r"given: rates\.0: is true, not a number; give one"):
        validated(BenchOptions, {"rates": [True]}, "given")
