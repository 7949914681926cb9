"""A config is checked whole before anything is trained: every problem on a line, exit code 2, nothing written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from instruct.base.errors import InputError, InputErrors
from instruct.base.output import run_guarded
from instruct.config import make_config
from instruct.phases.experiment import steps_of
from instruct.phases.steps import check_steps
from instruct.run.directory import RunDirectory


def rows(path: str, *contents: dict[str, Any]) -> str:
    Path(path).write_text("".join(json.dumps(row) + "\n" for row in contents))
    return path


def refused(result: tuple[int, str, str]) -> list[str]:
    code, _, stderr = result
    assert code == 2, stderr
    assert "Traceback" not in stderr
    return [line.removeprefix("instruct: ") for line in stderr.splitlines() if line.startswith("instruct: ")]


@pytest.fixture
def wrong(tiny_experiment) -> dict[str, Any]:
    """One thing is wrong with each section."""
    rows("prompts.jsonl", {"instruction": "Say 1."}, {"instructions": "Say 2."})
    return tiny_experiment | {
        "data": {"files": ["rows.jsonl", "missing.jsonl"], "template": "chat"},
        "answers": {"files": ["prompts.jsonl"], "generation": {"engine": "transformers"}},
        "judges": [
            "autojj",
            {"card": "judge/judge.yaml", "engine": "transformers", "base_url": "http://127.0.0.1:9/v1"},
        ],
        "comparisons": [["emo", "elsewhere.json"]],
    }


def test_all_that_is_wrong_is_listed_before_anything_is_trained(instruct, wrong):
    Path("mine.yaml").write_text(yaml.safe_dump(wrong))
    lines = refused(instruct("run", "mine.yaml"))
    beginnings = [
        "prompts.jsonl, row 2",
        "unknown judge 'autojj' (nearest: autoj",
        "judge judge: engine transformers asks no server at http://127.0.0.1:9/v1; leave `engine` or",
        "elsewhere.json: no such file",
        "missing.jsonl: no such file",
    ]
    assert len(lines) == len(beginnings), lines
    for beginning in beginnings:
        assert any(line.startswith(beginning) for line in lines), (beginning, lines)
    assert not Path("runs").exists()


def test_train_checks_judges_and_answers_but_needs_no_engine(instruct, wrong):
    """The machine that trains need not be the one that judges."""
    Path("mine.yaml").write_text(yaml.safe_dump(wrong))
    lines = refused(instruct("train", "mine.yaml"))
    assert len(lines) == 4
    assert not any("asks no server" in line for line in lines)
    assert not Path("runs").exists()


def test_every_wrong_key_is_listed(instruct, tiny_experiment):
    tiny_experiment["data"]["limt"] = 3
    tiny_experiment["lora"]["r"] = "many"
    tiny_experiment["judges"] = [{"crad": "autoj"}]
    Path("mine.yaml").write_text(yaml.safe_dump(tiny_experiment))
    lines = refused(instruct("run", "mine.yaml"))
    assert [line.partition(": ")[2].partition(";")[0].split(" (")[0] for line in lines] == [
        "unknown key 'data.limt'",
        "lora.r: must be a whole number",
        "the key 'judges.0.card' is missing",
        "unknown key 'judges.0.crad'",
    ]
    del tiny_experiment["data"]["limt"], tiny_experiment["judges"]
    tiny_experiment["lora"]["r"] = 2
    tiny_experiment["train"] = {"lerning_rate": 1.0, "output_dir": "x"}
    Path("mine.yaml").write_text(yaml.safe_dump(tiny_experiment))
    lines = refused(instruct("run", "mine.yaml"))
    assert "unknown key 'train.lerning_rate' (nearest: learning_rate" in lines[0]
    assert "train.output_dir is set elsewhere" in lines[1]


def checked(content: dict[str, Any], *phases: str) -> None:
    check_steps(steps_of(make_config(content, [], "test")), RunDirectory("runs/mine"), phases)


def test_the_baseline_of_prompts_without_answers_is_refused(tiny_experiment):
    """It was found out only after training and answering."""
    prompts = rows("prompts.jsonl", {"instruction": "Say 1."})
    answers = {"files": [prompts], "generation": tiny_experiment["answers"]["generation"]}
    said = "comparisons: emo against baseline: prompts has no answers of its own; give its rows an output"
    with pytest.raises(InputError, match=said):
        checked(tiny_experiment | {"answers": answers, "judges": []}, "answer")
    rows("prompts.jsonl", {"instruction": "Say 1.", "output": "1"})
    checked(tiny_experiment | {"answers": answers, "judges": []}, "answer")


def test_a_file_that_does_not_answer_the_prompts_is_refused(tiny_experiment):
    prompts = rows("prompts.jsonl", {"instruction": "Say 1."}, {"instruction": "Say 2."})
    Path("theirs.json").write_text(json.dumps([{"instruction": "Say 1.", "output": "1", "generator": "t"}]))
    content = tiny_experiment | {"answers": {"files": [prompts]}, "judges": [], "comparisons": [["emo", "theirs.json"]]}
    with pytest.raises(InputError, match=r"answers theirs\.json: 1 prompt of the other side missing"):
        checked(content, "answer")


def test_what_a_later_phase_needs_does_not_stop_an_earlier_one(tiny_experiment, monkeypatch):
    """Training works where the evaluation set of the Hub cannot be read."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    checked(tiny_experiment | {"answers": {"eval_set": "alpaca_eval"}, "comparisons": []}, "train")


def test_each_problem_is_a_line_on_stderr(capsys):
    def work() -> None:
        raise InputErrors(["one: is wrong", "two: is wrong"])

    assert run_guarded(work) == 2
    assert capsys.readouterr().err == "instruct: one: is wrong\ninstruct: two: is wrong\n"
