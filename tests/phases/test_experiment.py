"""The phases of an experiment, in this process on a tiny model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from instruct.base.errors import InputError
from instruct.config import ExperimentConfig, make_config
from instruct.phases.answer import Answering
from instruct.phases.experiment import open_run, run_experiment, run_phases
from instruct.phases.train import record_overlap
from instruct.reporting.provenance import config_summary
from instruct.run.directory import RunDirectory
from instruct.training import rows as training_rows
from instruct.training.rows import load_training_rows


@pytest.fixture
def config(tmp_path, tiny_model_folder, monkeypatch) -> ExperimentConfig:
    monkeypatch.chdir(tmp_path)
    lines = [json.dumps({"instruction": f"Say {n}.", "input": "", "output": f"It is {n}."}) for n in range(4)]
    (tmp_path / "rows.jsonl").write_text("\n".join(lines))
    return make_config(
        {
            "name": "tiny",
            "model": {"name": str(tiny_model_folder), "dtype": "float32"},
            "data": {"files": ["rows.jsonl"], "template": "chat"},
            "lora": {"r": 2},
            "train": {"max_steps": 1, "per_device_train_batch_size": 2},
            "systems": {"mle": {"objective": "mle"}, "emo": {"objective": "emo"}},
            "answers": {"limit": 2, "generation": {"engine": "transformers", "max_new_tokens": 2}},
        },
        [],
        "test",
    )


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
    assert trained["model"]["name"] == config.model.name
    assert trained["data"] == config.data.model_dump(mode="json")
    assert trained["system"]["objective"] == "emo"
    assert trained["template"] == "chat"
    assert trained["train"] | config.train == trained["train"]
    assert (trained["train"]["max_length"], trained["train"]["learning_rate"]) == (512, 2e-4)  # this package's defaults
    answered = steps["answers"]["config"]
    assert (answered["eval_set"], answered["prompts"], answered["template"]) == ("starter_eval", 2, "chat")
    assert answered["generation"] == config.answers.generation.model_dump(mode="json")
    assert answered["baseline"]

    run_experiment(config)  # nothing is done again
    assert run.manifest()["steps"] == steps

    # What a verb overrides is recorded with the step; the run's own config stays as it was.
    options = config.answers.generation.model_copy(update={"max_new_tokens": 3})
    changed = config.answers.model_copy(update={"limit": 1, "generation": options})
    Answering(config.model_copy(update={"answers": changed})).generate(run)
    answered = run.manifest()["steps"]["answers"]["config"]
    assert (answered["prompts"], answered["generation"]["max_new_tokens"]) == (1, 3)
    assert run.config()["answers"]["limit"] == 2


def test_phases_run_one_by_one(config, printed):
    run_experiment(config, last="train")
    run = RunDirectory("runs/tiny")
    trained = list(run.manifest()["steps"])
    assert {"train/mle", "train/emo"} <= {*trained} <= {"overlap", "train/mle", "train/emo"}
    run_experiment(config, first="answer", last="answer")
    assert list(run.manifest()["steps"]) == [*trained, "answers"]

    changed = config.model_copy(update={"answers": config.answers.model_copy(update={"limit": 1})})
    with pytest.raises(
        InputError, match=r"answers.limit was 2 and is 1 now, but answers is finished; .*`redo` answers"
    ):
        run_experiment(changed, first="answer", last="answer")
    with pytest.raises(InputError, match=r"^train/mle: is not made again by this call, which does not train"):
        run_phases(config, False, "answer", "answer", redo=["train"])
    run_phases(changed, False, "answer", "answer", redo=["answers"])
    assert "redo      answers: took" in printed.readouterr().out
    assert run.manifest()["steps"]["answers"]["results"]["emo"]["n"] == 1
    with pytest.raises(InputError, match="`first` judge comes after `last` answer; the phases are train, answer"):
        run_experiment(config, first="judge", last="answer")


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
    assert config_summary(run.config(), run.manifest())["answered"] == (
        "mine (2 prompts), at most 2 tokens, temperature 0.0, template chat"
    )
    rows = json.loads((run.outputs / "emo.json").read_text())
    assert {row["dataset"] for row in rows} == {"mine"}


def test_a_phase_whose_predecessor_is_missing_is_refused(config):
    with pytest.raises(InputError, match="runs/tiny: no such run; drop `first` to run the earlier phases"):
        run_experiment(config, first="judge")
    with pytest.raises(InputError, match="no trained weights; train first"):
        run_experiment(config, first="answer")


def test_a_dry_run_writes_nothing(config, tmp_path, printed):
    run_experiment(config, dry_run=True)
    printed = printed.readouterr().out
    for line in ("run       runs/tiny", "data      rows.jsonl: 4 kept; template chat", "train     mle, emo: "):
        assert line in printed
    assert [path.name for path in tmp_path.iterdir()] == ["rows.jsonl"]


def test_the_plan_reports_a_changed_data_set(config, tmp_path, printed):
    (tmp_path / "mine.yaml").write_text(
        "{name: mine, purpose: train, format: alpaca, licence: none, rows: 5, source: {files: [rows.jsonl]}}"
    )
    config.data = config.data.model_copy(update={"card": "mine.yaml", "files": None})
    run_experiment(config, dry_run=True)
    assert "note      card mine expects 5 rows, its source has 4: the data set has changed" in printed.readouterr().out


def test_evaluation_prompts_in_the_training_data_are_recorded_before_training(config, tmp_path, printed):
    (tmp_path / "prompts.jsonl").write_text(
        json.dumps({"instruction": "say  2!", "output": "2"})
        + "\n"
        + json.dumps({"instruction": "Say 9.", "output": "9"})
    )
    config.answers = config.answers.model_copy(update={"files": ["prompts.jsonl"]})
    run = open_run(config)
    rows = load_training_rows(config.data, config.model, config.train).rows
    record_overlap(config.answers, run, rows)
    said = (
        "overlap   1 of 2 evaluation prompts (50.0 %) are in the training data word for word, 0 (0.0 %) share 13 words"
    )
    assert said in printed.readouterr().out
    step = run.manifest()["steps"]["overlap"]
    assert step["results"]["found"] == {"1": "rows.jsonl:3"}

    config.answers = config.answers.model_copy(update={"files": ["missing.jsonl"]})
    record_overlap(config.answers, run, rows)  # training goes on without the prompts
    assert "overlap   not counted: missing.jsonl: no such file" in printed.readouterr().out
    assert run.manifest()["steps"]["overlap"] == step
