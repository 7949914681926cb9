"""Evaluation while training: right values, the best checkpoint, early stopping, samples, and what is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from json_files import write_json
from test_plain_text import write_texts
from tiny import quiet_config
from train_configs import have_the_same_weights, metrics, rows_of, tiny_config, train, write_rows

from instruct.base.errors import InputError
from instruct.training.callbacks import WriteSamples, read_samples
from instruct.training.checkpoints import find_best_checkpoint


def test_the_best_checkpoint_is_chosen_by_cross_entropy():
    arguments = {"folder": "out", "eval_strategy": "steps", "save_strategy": "steps"}
    best = quiet_config(**arguments, load_best_model_at_end=True)
    assert (best.metric_for_best_model, best.greater_is_better) == ("eval_ce", False)
    assert quiet_config(**arguments, patience=2).metric_for_best_model == "eval_ce"
    assert quiet_config(**arguments).metric_for_best_model is None
    own = quiet_config(**arguments, load_best_model_at_end=True, metric_for_best_model="eval_mean_token_accuracy")
    assert own.greater_is_better is True
    assert quiet_config(**arguments, metric_for_best_model="loss", objective="emo").greater_is_better is False
    with pytest.raises(ValueError, match="'loss' is the value of the objective energy"):
        quiet_config(**arguments, metric_for_best_model="loss", objective="energy")


@pytest.fixture
def rows(tmp_path) -> str:
    return write_rows(tmp_path / "rows.jsonl")


@pytest.fixture
def evaluated_on(tmp_path) -> str:
    """Rows of other letters than `rows` have: the longer a model trains on these, the worse it predicts them."""
    other = [{"instruction": f"Count {n}.", "input": "", "output": "ωψχ" * (8 + n % 3)} for n in range(7)]
    return str(write_json(tmp_path / "eval.jsonl", other))


def evaluating_config(folder: Path, rows: str, evaluation: dict[str, Any], **train_arguments: Any):
    config = tiny_config(folder, rows, data={"files": [rows], **evaluation})
    config.train.update({"max_steps": 8, "eval_steps": 2, "learning_rate": 0.05, "lr_scheduler_type": "constant"})
    config.train.pop("save_steps")
    config.train.update(train_arguments)
    return config


@pytest.mark.slow
def test_an_interrupted_training_keeps_the_same_best_weights(
    tmp_path, tiny_model_folder, rows, evaluated_on, monkeypatch
):
    """Those of its least cross-entropy. Interrupted in the second evaluation after that one, whose checkpoint survives;
    resumed in another folder."""
    config = evaluating_config(
        tiny_model_folder, rows, {"eval_files": [evaluated_on], "eval_samples": 1}, eval_on_start=True
    )
    undisturbed = train(tmp_path / "undisturbed", config)
    best = undisturbed.manifest()["steps"]["train/emo"]["results"]["evaluation"]["kept"]["step"]
    ce = {entry["step"]: entry["eval_ce"] for entry in metrics(undisturbed) if entry.get("eval_ce") and entry["step"]}
    assert best == min(ce, key=ce.get) < 6  # or this test says nothing
    shorter = evaluating_config(tiny_model_folder, rows, {}, max_steps=best)
    shorter.train.pop("eval_steps")
    assert have_the_same_weights(undisturbed, train(tmp_path / "shorter", shorter))
    own = WriteSamples.on_evaluate

    def interrupt(self, args, state, control, **kwargs):
        own(self, args, state, control, **kwargs)
        if state.global_step == best + 4:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(WriteSamples, "on_evaluate", interrupt)
        with pytest.raises(KeyboardInterrupt):
            train(tmp_path / "run", config)
    left = {path.name for path in (tmp_path / "run" / "checkpoints" / "emo").glob("checkpoint-*")}
    assert left == {f"checkpoint-{best}", f"checkpoint-{best + 2}"}  # save_total_limit is 1
    shutil.copytree(tmp_path / "run", tmp_path / "moved")
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    resumed = train(tmp_path / "moved", config)
    assert have_the_same_weights(resumed, undisturbed)
    assert metrics(resumed) == metrics(undisturbed)
    samples, others = (read_samples(run.folder / "samples" / "emo.jsonl") for run in (resumed, undisturbed))
    assert samples == others
    assert [record["step"] for record in samples] == [0, 2, 4, 6, 8]


def test_a_training_whose_best_checkpoint_is_gone_is_not_resumed(tmp_path):
    checkpoint = tmp_path / "checkpoint-20"
    checkpoint.mkdir()
    file = checkpoint / "trainer_state.json"
    file.write_text(json.dumps({"best_model_checkpoint": str(tmp_path / "checkpoint-10")}))
    with pytest.raises(InputError, match=r"checkpoint-10: is gone, and it is the best checkpoint so far; restore it"):
        find_best_checkpoint(checkpoint)


def test_a_fraction_of_the_rows_is_held_out(tmp_path, tiny_model_folder, rows):
    config = evaluating_config(tiny_model_folder, rows, {"eval_fraction": 0.2})
    data = rows_of(config)
    assert data.eval_encoded is not None
    everything = rows_of(evaluating_config(tiny_model_folder, rows, {})).rows
    assert data.rows.counts == {"read": 24, "kept": 19, "empty": 0, "held_out": 5}
    assert sorted([*data.rows.sources, *data.eval_encoded.rows.sources]) == sorted(everything.sources)
    assert all(row in everything.rows and row not in data.rows.rows for row in data.eval_encoded.rows.rows)
    config.train |= {"max_steps": 2, "patience": 2}
    run = train(tmp_path / "run", config)
    record = run.manifest()["steps"]["train/emo"]
    assert record["inputs"]["evaluation"] == data.eval_encoded.rows.sha256


def test_unusable_evaluation_data_is_refused_in_one_line(tmp_path, tiny_model_folder, rows, evaluated_on):
    texts = write_texts(tmp_path / "texts.txt")
    for file, arguments, message in (
        (texts, {}, "texts.txt, row 1: has the columns text, but the training rows are of format alpaca"),
        (evaluated_on, {"save_steps": 3}, "train.save_steps: is 3 and train.eval_steps 2; make them equal"),
    ):
        config = evaluating_config(tiny_model_folder, rows, {"eval_files": [file]}, **arguments)
        with pytest.raises(InputError, match=message) as error:
            train(tmp_path / Path(file).stem, config)
        assert "\n" not in str(error.value)
