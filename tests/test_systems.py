"""Systems of an experiment besides the trained ones: the untrained base."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from instruct.config import make_config
from instruct.errors import InputError
from instruct.experiment import run_experiment
from instruct.reporting.report import build_report
from instruct.runs import RunDirectory

BASE = {"base": {"objective": "none"}}


def answers(path: str) -> list[str]:
    return [row["output"] for row in json.loads(Path(path).read_text())]


def test_a_run_compares_the_untrained_base_with_what_it_trained(tiny_experiment, capsys):
    tiny_experiment["systems"] |= BASE
    tiny_experiment["train"] |= {"learning_rate": 1.0, "max_steps": 4}  # the answers change
    tiny_experiment["comparisons"] = [["emo", "base"], ["base", "baseline"]]
    config = make_config(tiny_experiment, [], "test")
    run_experiment(config)
    assert "train     emo: estimated" in capsys.readouterr().out

    run = RunDirectory("runs/mine")
    steps = run.manifest()["steps"]
    assert [name for name in steps if not name.startswith("judge/")] == ["train/emo", "answers"]
    assert [path.name for path in run.adapters.iterdir()] == ["emo"]
    assert set(steps["answers"]["inputs"]["weights"]) == {"base", "emo"}
    assert answers("runs/mine/outputs/base.json") != answers("runs/mine/outputs/emo.json")

    report = build_report(run.folder)
    (judge,) = report.judges
    assert [(each.candidate, each.baseline) for each in judge.comparisons] == [("emo", "base"), ("base", "baseline")]
    assert [each.system for each in report.trainings] == ["emo"]
    assert {each.name for each in report.systems} == {"base", "baseline", "emo"}
    assert not [warning for each in judge.comparisons for warning in each.warnings if "weights" in warning]
    assert (run.report / "exports" / "model-card-base.md").is_file()

    run_experiment(config)  # nothing is done again
    assert run.manifest()["steps"] == steps


def test_the_base_alone_answers_without_training_data(tiny_experiment, instruct):
    content = {name: tiny_experiment[name] for name in ("model", "answers")} | {"name": "alone", "systems": BASE}
    Path("base.yaml").write_text(yaml.safe_dump(content))
    code, out, err = instruct("generate", "base.yaml")
    assert code == 0, err
    assert "base: runs/alone/outputs/base.json" in out
    alone = answers("runs/alone/outputs/base.json")
    assert len(alone) == 3
    assert instruct("generate", "runs/alone")[0] == 0  # the run, once it is there

    # The answers are those of the base in a run that also trains.
    tiny_experiment |= {"systems": BASE | tiny_experiment["systems"], "judges": [], "comparisons": []}
    run_experiment(make_config(tiny_experiment, [], "test"))
    assert answers("runs/mine/outputs/base.json") == alone


@pytest.mark.parametrize("verb", ["train", "preview"])
def test_there_is_nothing_to_train_in_the_base_alone(tiny_experiment, instruct, verb):
    Path("base.yaml").write_text(yaml.safe_dump(tiny_experiment | {"systems": BASE, "comparisons": []}))
    code, _, err = instruct(verb, "base.yaml")
    assert (code, len(err.splitlines())) == (2, 1)
    assert "no system to train, because each has the objective none" in err
    assert not Path("runs").exists()


def test_a_config_with_systems_to_train_is_not_answered_before_training(tiny_experiment, instruct):
    Path("mine.yaml").write_text(yaml.safe_dump(tiny_experiment))
    code, _, err = instruct("generate", "mine.yaml")
    assert (code, len(err.splitlines())) == (2, 1)
    assert "emo must be trained first: run instruct train mine.yaml" in err
    assert not Path("runs").exists()


def test_the_objective_none_is_only_a_system(tiny_experiment):
    with pytest.raises(InputError, match=r"systems\.base\.objective"):
        make_config(tiny_experiment | {"systems": {"base": {"objective": "nothing"}}}, [], "test")
