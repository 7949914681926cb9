"""The phases of an experiment, in this process on a tiny model."""

from __future__ import annotations

from pathlib import Path

import pytest

from instruct.config import ExperimentConfig, make_config
from instruct.phases.answer import Answering
from instruct.phases.experiment import run_experiment
from instruct.run.directory import RunDirectory
from instruct.training import rows as training_rows


@pytest.fixture
def config(tiny_experiment) -> ExperimentConfig:
    systems = {"mle": {"objective": "mle"}, "emo": {"objective": "emo"}}
    answers = {"limit": 2, "generation": {"engine": "transformers", "max_new_tokens": 2}}
    content = tiny_experiment | {
        "name": "tiny",
        "systems": systems,
        "answers": answers,
        "judges": [],
        "comparisons": [],
    }
    return make_config(content, [], "test")


def test_rows_are_tokenized_once_and_every_step_records_its_configuration(config, monkeypatch, printed):
    calls = []
    encode_rows = training_rows.encode_rows
    monkeypatch.setattr(
        training_rows, "encode_rows", lambda *args: calls.append(args[1].folder.path) or encode_rows(*args)
    )
    run_experiment(config)
    assert [folder.parent for folder in calls] == [Path("runs/tiny").resolve()]
    assert not calls[0].exists()
    assert not list(Path("runs/tiny").glob(".rows-*"))
    assert "judge     none" in printed.readouterr().out

    run = RunDirectory("runs/tiny")
    steps = run.manifest()["steps"]
    assert list(steps) == ["overlap", "train/mle", "train/emo", "answers"]
    found = steps["overlap"]["results"]
    assert (found["prompts"], found["rows"], found["exact"], found["shared"]) == (2, 4, 0, 0)
    trained = steps["train/emo"]["config"]
    assert trained["data"] == config.data.model_dump(mode="json")
    assert (trained["template"], trained["train"]["learning_rate"]) == ("chat", 2e-4)  # this package's default
    answered = steps["answers"]["config"]
    assert (answered["eval_set"], answered["prompts"], answered["template"]) == ("starter_eval", 2, "chat")

    run_experiment(config)  # nothing is done again
    assert run.manifest()["steps"] == steps


def test_phases_run_one_by_one(config):
    run_experiment(config, last="train")
    run = RunDirectory("runs/tiny")
    trained = list(run.manifest()["steps"])
    assert {"train/mle", "train/emo"} <= {*trained} <= {"overlap", "train/mle", "train/emo"}
    run_experiment(config, first="answer", last="answer")
    assert list(run.manifest()["steps"]) == [*trained, "answers"]


def test_answers_that_are_replaced_are_kept(config, printed, tmp_path):
    run_experiment(config, last="answer")
    run = RunDirectory("runs/tiny")
    before = {path.stem: path.read_bytes() for path in run.outputs.glob("*.json")}
    (tmp_path / "mine.txt").write_text("Say hi.\nName a color.\n")
    other = config.model_copy(deep=True)
    other.answers.files = ["mine.txt"]
    printed.readouterr()
    Answering(other).generate(run)
    assert printed.readouterr().out.count("kept      runs/tiny/outputs/earlier/") == 3
    kept = {path.stem.rpartition("-")[0]: path.read_bytes() for path in (run.outputs / "earlier").iterdir()}
    assert kept == before
    assert not (run.outputs / "baseline.json").exists()  # these prompts have none


def test_a_dry_run_writes_nothing(config, tmp_path, printed):
    run_experiment(config, dry_run=True)
    printed = printed.readouterr().out
    for line in ("run       runs/tiny", "data      rows.jsonl: 4 kept; template chat", "train     mle, emo: "):
        assert line in printed
    assert not (tmp_path / "runs").exists()
