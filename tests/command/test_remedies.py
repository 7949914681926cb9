"""Each message that tells the user to type a flag or a command names one that exists where it is shown."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest

import instruct as package
from instruct.base.errors import InputError, StoppedError
from instruct.base.options import key_type
from instruct.command.main import make_parser
from instruct.config import ExperimentConfig, load_config, make_config

ROOT = Path(package.__file__).parent
CONFIG = {"run", "train", "preview", "generate", "evaluate"}
# The verbs that run a room's code; the longest match counts.
VERBS = {
    "base": CONFIG,
    "config.py": CONFIG,
    "data": CONFIG,
    "data/evaluation.py": {"judge", "report", "import"},
    "engines": {"judge", "validate"},
    "generation": {"run", "generate"},
    "judging": {"judge", "validate"},
    "judging/interchange": {"export", "import", "report"},
    "measuring": {"evaluate"},
    "phases": CONFIG,
    "phases/bench.py": {"bench"},
    "phases/judge.py": {"judge"} | CONFIG,  # of a config's judges, see instruct/phases/remedies.py
    "phases/upload.py": {"push", "run"},
    "reporting": {"report", "judge"},
    "reporting/bench.py": {"bench"},
    "reporting/compare_runs.py": {"compare"},
    "run": CONFIG,
    "training": CONFIG,
    "validation": {"validate"},
}
# Flags of other programs: pip, ray, vllm, accelerate, nvidia-smi.
FOREIGN = {
    "--no-deps", "--head", "--address", "--num-cpus", "--reasoning-parser", "--config_file", "--num_processes",
    "--query-gpu", "--format", "--force-reinstall",
}  # fmt: skip
FLAG = re.compile(r"(?<![\w`-])`?(--[a-z][a-z_-]+(?:\.[a-z_0-9]+)*)")


def _text(node: ast.expr) -> str | None:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "…" for part in node.values)
    return None


@functools.cache
def _messages() -> list[tuple[str, str]]:
    """Every text in the code outside command/ that names a flag or a verb, with its file."""
    found = []
    for path in sorted(ROOT.rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        tree = ast.parse(path.read_text(encoding="utf-8"))
        docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
        for node in ast.walk(tree):
            text = _text(node) if isinstance(node, ast.expr) and id(node) not in docs | inner else None
            if text and not name.startswith("command/") and (FLAG.search(text) or "instruct " in text):
                found.append((name, text))
    return found


def _subparsers() -> dict:
    parser = make_parser()
    return next(action.choices for action in parser._actions if action.dest == "verb")


def test_each_message_names_flags_of_the_verbs_that_show_it():
    subparsers = _subparsers()
    wrong = []
    for file, text in _messages():
        rooms = [room for room in VERBS if file.startswith(room)]
        shown_by = VERBS[max(rooms, key=len)] if rooms else set(subparsers)
        for command in re.findall(r"\binstruct ([a-z]+)\b(?! of| or | and )", text):
            if command in subparsers:
                shown_by = shown_by | {command}
        for flag in FLAG.findall(text):
            dotted = "." in flag
            known = (
                key_type(ExperimentConfig, flag[2:]) is not None
                if dotted
                else any(flag in subparsers[verb]._option_string_actions for verb in shown_by)
            )
            known = known or (flag[2:] in ExperimentConfig.model_fields and shown_by & CONFIG)
            if not known and flag not in FOREIGN:
                wrong.append(f"{file}: {flag}: {text[:100]}")
    assert not wrong, "\n".join(wrong)
    assert sum(len(FLAG.findall(text)) for _, text in _messages()) > 80


def test_each_command_in_a_message_is_a_verb():
    subparsers = _subparsers()
    for file, text in _messages():
        for verb, word in re.findall(r"`instruct ([a-z]+) ?([a-z]*)", text):
            assert verb in subparsers, f"{file}: {text}"
            if verb == "list" and word:
                choices = next(action.choices for action in subparsers["list"]._actions if action.choices)
                assert word in choices, f"{file}: {text}"


def test_each_key_in_a_message_is_one_of_the_config():
    sections = "data|train|lora|answers|continuations|evaluation"
    key = re.compile(rf"(?<![\w./`-])((?:{sections})\.[a-z_]+(?:\.[a-z_]+)*)(?![\w/(])")
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Raise) and node.exc:
                for part in ast.walk(node.exc):
                    for named in key.findall(_text(part) or "" if isinstance(part, ast.expr) else ""):
                        assert key_type(ExperimentConfig, named) is not None, f"{path.name}: {named}"


JUDGES = {
    "name": "it",
    "answers": {"files": ["p.jsonl"]},
    "judges": ["smollm2_score", {"card": "autoj", "trim": True}],
    "systems": {"mle": {"objective": "mle"}},
}


def test_a_flag_sets_a_key_of_one_of_several_judges():
    flags = ["--judges.1.base_url", "http://here/v1", "--judges.0.concurrency", "3"]
    config = make_config(JUDGES, flags, "x")
    assert [(judge.card, judge.base_url, judge.concurrency) for judge in config.judges] == [
        ("smollm2_score", None, 3),
        ("autoj", "http://here/v1", 64),
    ]
    assert config.judges[1].trim
    with pytest.raises(InputError, match=r"the key 'judges.2.card' is missing"):
        make_config(JUDGES, ["--judges.7.base_url", "http://here/v1"], "x")


def test_errors_about_a_configs_judge_name_the_flags_of_its_keys():
    from instruct.phases.remedies import judge_flags, renamed

    config = make_config(JUDGES, [], "x")
    refused = pytest.raises(InputError, match=r"--judges\.1\.base_url or --judges\.1\.model M; --retry-failed asks")
    with refused, judge_flags(config):
        raise InputError("judge autoj: give --base-url or --judge-model M; --retry-failed asks again")
    stopped = renamed(StoppedError("left to judge autoj; rerun with a larger --budget-usd to resume"), config)
    assert isinstance(stopped, StoppedError)
    assert "larger --judges.1.budget_usd to" in str(stopped)
    assert str(renamed(InputError("judge b: give --base-url"), config)) == "judge b: give --base-url"


def test_a_config_for_a_gpu_names_the_one_for_a_cpu(instruct, monkeypatch):
    import torch

    from instruct.phases.train import check_gpu

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert "`instruct run open_ended_smollm2` is this" in instruct("train", "open_ended")[2]
    assert "`instruct run demo` is for a CPU" in instruct("train", "evol_emo")[2]
    for name in ("continual_llama-7b", "open_ended_ptb"):  # as recipes call their runs
        small = f"{name.rpartition('_')[0]}_smollm2"
        with pytest.raises(InputError, match=f"`instruct run {small}` is this experiment for a CPU"):
            check_gpu(load_config("evol_emo").model_copy(update={"name": name}))


def test_a_model_that_a_recipe_makes_names_the_recipe(instruct, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, _, stderr = instruct("run", "oracle_smollm2", "--dry-run")
    assert code == 2
    assert "runs/oracle_smollm2-start: is not there yet; the recipe makes it: python recipes/oracle.py" in stderr
    assert stderr.count("is not there yet") == 1
    assert "recipe makes it: python recipes/small_model.py" in instruct("train", "small_model")[2]


@pytest.mark.parametrize("section", ["data", "answers"])
def test_a_data_set_that_is_out_of_reach_names_the_key_for_files(section, monkeypatch):
    import huggingface_hub

    from instruct.data.cards import load_dataset_card
    from instruct.data.evaluation import load_eval_set
    from instruct.data.rows import RowReader

    def offline(*_, **__):
        raise OSError("offline mode is enabled")

    monkeypatch.setattr("instruct.data.sources.use_cache_if_unreachable", lambda: None)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", offline)
    monkeypatch.setattr("datasets.load_dataset", offline)
    rows = RowReader(load_dataset_card("alpaca_gpt4")).raw_rows()
    with pytest.raises(InputError, match=rf"in place of the data set \(--{section}\.files\)"):
        next(rows) if section == "data" else load_eval_set("alpaca_eval")


def test_the_name_of_a_run_is_for_a_file_that_starts_one(instruct, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "--name: is for the run that a YAML file starts" in instruct("evaluate", "runs/x", "--name", "y")[2]
    assert "unrecognized arguments: --dry-run (a flag of run, bench)" in instruct("generate", "--dry-run")[2]
    (tmp_path / "base.yaml").write_text("name: base\nsystems: {base: {objective: none}}\n")
    stderr = instruct("generate", "base.yaml", "--name", "mine", "--answers.files", "none.jsonl")[2]
    assert "none.jsonl: no such file" in stderr
