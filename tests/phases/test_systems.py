"""Systems of an experiment besides the trained ones: the untrained base."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import yaml

from instruct.base.errors import InputError
from instruct.config import make_config
from instruct.phases.experiment import run_experiment
from instruct.phases.systems import warn_of_changed_files
from instruct.reporting.report import build_report
from instruct.run.directory import RunDirectory

RECORDED = Path(__file__).resolve().parents[1] / "recorded_runs"
BASE = {"base": {"objective": "none"}}


def answers(path: str) -> list[str]:
    return [row["output"] for row in json.loads(Path(path).read_text())]


@pytest.mark.slow
def test_a_run_compares_the_untrained_base_with_what_it_trained(tiny_experiment, printed):
    tiny_experiment["systems"] |= BASE
    tiny_experiment["train"] |= {"learning_rate": 1.0, "max_steps": 4}  # the answers change
    tiny_experiment["comparisons"] = [["emo", "base"], ["base", "baseline"]]
    config = make_config(tiny_experiment, [], "test")
    run_experiment(config)
    assert "train     emo: " in printed.readouterr().out

    run = RunDirectory("runs/mine")
    steps = run.manifest()["steps"]
    assert [name for name in steps if not name.startswith(("judge/", "overlap"))] == ["train/emo", "answers"]
    assert [path.name for path in run.adapters.iterdir()] == ["emo"]
    assert set(steps["answers"]["inputs"]["weights"]) == {"base", "emo"}
    assert answers("runs/mine/outputs/base.json") != answers("runs/mine/outputs/emo.json")

    report = build_report(run.folder)
    (judge,) = report.judges
    assert [(each.candidate, each.baseline) for each in judge.comparisons] == [("emo", "base"), ("base", "baseline")]
    assert [each.system for each in report.trainings] == ["emo"]
    assert {each.name for each in report.systems} == {"base", "baseline", "emo"}

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
        ({"seeds": []}, "seeds: is too short, with fewer entries than 1"),
        ({"seeds": [1, 1]}, "seeds: a seed is given twice; remove one"),
        ({"seeds": [-1]}, "seed: must be at least 0"),
        ({"train": {"seed": 3}}, "train.seed: the systems have seeds of their own; remove train.seed"),
        ({"systems": {"emo": {"objective": "emo", "seed": 3}}}, "seeds: system emo has a seed of its own"),
        ({"comparisons": [["emo", "mlee"]]}, "comparisons: unknown system 'mlee'; known: base, baseline, emo, mle"),
    ],
)
def test_seeds_that_cannot_be_used_are_refused(tiny_experiment, changes, line):
    with pytest.raises(InputError) as error:
        make_config(tiny_experiment | SEEDS | changes, [], "test")
    assert line in str(error.value)


@pytest.mark.slow
def test_a_run_with_seeds_trains_answers_and_reports_each_seed_and_their_spread(tiny_experiment, printed):
    from safetensors.torch import load_file

    content = tiny_experiment | SEEDS
    content["train"] |= {"max_steps": 2, "learning_rate": 0.5, "warmup_steps": 0, "per_device_train_batch_size": 1}
    config = make_config(content, [], "test")
    run_experiment(config)
    assert "too few training seeds to compare emo with mle" in printed.readouterr().out
    run = RunDirectory("runs/mine")
    one, two = (load_file(run.adapters / f"emo-seed{seed}" / "adapter_model.safetensors") for seed in (1, 2))
    assert any(not one[name].equal(two[name]) for name in one)
    # A seed is that of a run with train.seed alone.
    alone = tiny_experiment | {"name": "alone", "judges": [], "comparisons": [], "answers": {"limit": 1}}
    alone["train"] = {**content["train"], "seed": 2}
    alone["answers"] = {**tiny_experiment["answers"], "limit": 1}
    run_experiment(make_config(alone, [], "test"))
    other = load_file("runs/alone/adapters/emo/adapter_model.safetensors")
    assert all(two[name].equal(other[name]) for name in two)

    report = build_report(run.folder)
    (judge,) = report.judges
    rates = {(each.candidate, each.baseline): each.claim.value for each in judge.comparisons}
    assert len(rates) == 6
    assert [(each.candidate, each.baseline) for each in report.seeds] == [
        ("emo", "mle"), ("emo", "base"), ("mle", "baseline"),
    ]  # fmt: skip
    for each in report.seeds:
        assert each.params["seeds"] == [1, 2]
        paired = [(f"{each.candidate}-seed{seed}", each.baseline) for seed in each.params["seeds"]]
        if each.baseline == "mle":
            paired = [(name, f"mle-seed{seed}") for (name, _), seed in zip(paired, (1, 2), strict=True)]
        assert each.params["win_rates"] == [rates[pair] for pair in paired]
        assert each.value == pytest.approx(sum(each.params["win_rates"]) / 2, abs=1e-6)
    assert [(each.objective, each.seed) for each in report.trainings][:2] == [("mle", 1), ("mle", 2)]
    assert "Training seeds" in (run.report / "report.html").read_text()

    steps = run.manifest()["steps"]
    run_experiment(config)  # nothing is done again
    assert run.manifest()["steps"] == steps


def test_answers_that_were_changed_are_named_when_answering_ends(tmp_path, caplog):
    shutil.copytree(RECORDED / "two_judges", tmp_path / "run")
    run = RunDirectory(tmp_path / "run")
    warn_of_changed_files(run)
    assert not caplog.messages
    rows = json.loads((run.outputs / "mle.json").read_text())
    (run.outputs / "mle.json").write_text(json.dumps([row | {"output": "Mine."} for row in rows]))
    warn_of_changed_files(run)
    (line,) = caplog.messages
    assert "outputs/mle.json: is not what was generated; restore it, or delete it" in line
