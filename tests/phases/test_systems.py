"""Systems of an experiment besides the trained ones: the untrained base."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from instruct.base.errors import InputError
from instruct.config import make_config
from instruct.phases.experiment import run_experiment
from instruct.reporting.report import build_report
from instruct.run.directory import RunDirectory

BASE = {"base": {"objective": "none"}}


def test_there_is_nothing_to_train_in_the_base_alone(tiny_experiment, instruct):
    Path("base.yaml").write_text(yaml.safe_dump(tiny_experiment | {"systems": BASE, "comparisons": []}))
    code, _, err = instruct("train", "base.yaml")
    assert (code, len(err.splitlines())) == (2, 1)
    assert "no system to train, because each has the objective none" in err
    assert not Path("runs").exists()


SEEDS = {
    "systems": {**BASE, "mle": {"objective": "mle"}, "emo": {"objective": "emo"}},
    "comparisons": [["emo", "mle"], ["emo", "base"], ["mle", "baseline"]],
    "seeds": [1, 2],
}


def test_seeds_are_a_system_each_and_compare_seed_with_seed(tiny_experiment):
    tiny_experiment["judges"][0]["comparisons"] = [["emo", "answers.json"]]
    config = make_config(tiny_experiment | SEEDS, [], "test")
    assert {name: system.seed for name, system in config.systems.items()} == {
        "base": None, "mle-seed1": 1, "mle-seed2": 2, "emo-seed1": 1, "emo-seed2": 2,
    }  # fmt: skip
    assert config.comparisons == [
        ("emo-seed1", "mle-seed1"), ("emo-seed2", "mle-seed2"),
        ("emo-seed1", "base"), ("emo-seed2", "base"),
        ("mle-seed1", "baseline"), ("mle-seed2", "baseline"),
    ]  # fmt: skip
    assert config.judges[0].comparisons == [("emo-seed1", "answers.json"), ("emo-seed2", "answers.json")]
    again = make_config(config.model_dump(mode="json"), [], "test")  # what a run directory holds
    assert again == config


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"seeds": [1, 1]}, "seeds: a seed is given twice; remove one"),
        ({"train": {"seed": 3}}, "train.seed: the systems have seeds of their own; remove train.seed"),
    ],
)
def test_seeds_that_cannot_be_used_are_refused(tiny_experiment, changes, line):
    with pytest.raises(InputError) as error:
        make_config(tiny_experiment | SEEDS | changes, [], "test")
    assert line in str(error.value)


@pytest.mark.slow
def test_a_run_with_seeds_trains_answers_and_reports_each_seed(tiny_experiment, printed):
    from safetensors.torch import load_file

    content = tiny_experiment | SEEDS
    content["train"] |= {"max_steps": 2, "learning_rate": 0.5, "warmup_steps": 0, "per_device_train_batch_size": 1}
    config = make_config(content, [], "test")
    run_experiment(config)
    run = RunDirectory("runs/mine")
    one, two = (load_file(run.adapters / f"emo-seed{seed}" / "adapter_model.safetensors") for seed in (1, 2))
    assert any(not one[name].equal(two[name]) for name in one)
    assert [(each.candidate, each.baseline, each.params["seeds"]) for each in build_report(run.folder).seeds] == [
        ("emo", "mle", [1, 2]), ("emo", "base", [1, 2]), ("mle", "baseline", [1, 2]),
    ]  # fmt: skip
    steps = run.manifest()["steps"]
    run_experiment(config)  # nothing is done again
    assert run.manifest()["steps"] == steps
