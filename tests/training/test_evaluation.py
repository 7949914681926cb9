"""Evaluation while training: right values, the best checkpoint, early stopping, samples, and what is refused."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from test_plain_text import write_texts
from tiny import make_trainer, quiet_config, tiny_model, tiny_rows, tiny_tokenizer
from train_configs import have_the_same_weights, metrics, rows_of, tiny_config, train, write_jsonl, write_rows
from trl import SFTConfig

from instruct.base.errors import InputError
from instruct.config import make_config
from instruct.training.callbacks import WriteSamples, read_samples
from instruct.training.checkpoints import find_best_checkpoint
from instruct.training.preview import print_preview


def test_an_infinite_perplexity_is_no_error(tmp_path):
    model = tiny_model()
    with torch.no_grad():
        model.lm_head.weight.mul_(1e4)
    found = make_trainer(tmp_path, model, objective="mle").evaluate(tiny_rows())
    assert found["eval_ce"] > 709
    assert found["eval_perplexity"] == math.inf


SMOOTHED_BY_0 = {"objective": "label_smoothing", "objective_args": {"epsilon": 0.0}}


def test_the_best_checkpoint_is_chosen_by_cross_entropy():
    arguments = {"folder": "out", "eval_strategy": "steps", "save_strategy": "steps"}
    best = quiet_config(**arguments, load_best_model_at_end=True)
    assert (best.metric_for_best_model, best.greater_is_better) == ("eval_ce", False)
    assert quiet_config(**arguments, patience=2).metric_for_best_model == "eval_ce"
    assert quiet_config(**arguments).metric_for_best_model is None
    own = quiet_config(**arguments, load_best_model_at_end=True, metric_for_best_model="eval_mean_token_accuracy")
    assert own.greater_is_better is True
    for name in ("eval_a_ce", "a_perplexity", "b_loss", "loss"):
        for cross_entropy in ({"objective": "mle"}, {"objective": "emo"}, SMOOTHED_BY_0):
            config = quiet_config(**arguments, metric_for_best_model=name, **cross_entropy)
            assert config.greater_is_better is False
        if name.endswith("loss"):
            with pytest.raises(ValueError, match=f"'{name}' is the value of the objective energy"):
                quiet_config(**arguments, metric_for_best_model=name, objective="energy")
    for wrong in ({"patience": 0}, {"patience": 2, "eval_strategy": "no"}):
        with pytest.raises(ValueError, match="must be at least 1, with eval_strategy steps or epoch"):
            quiet_config(**{**arguments, **wrong})


def test_an_sftconfigs_default_metric_becomes_cross_entropy(tmp_path):
    from instruct import EMOTrainer

    saving = {"eval_strategy": "steps", "save_strategy": "steps", "load_best_model_at_end": True}
    config = SFTConfig(str(tmp_path), use_cpu=True, bf16=False, report_to=[], **saving)
    assert config.metric_for_best_model == "loss"
    trainer = EMOTrainer(tiny_model(), config, None, tiny_rows(), tiny_rows(), tiny_tokenizer())
    assert (trainer.args.metric_for_best_model, trainer.args.greater_is_better) == ("eval_ce", False)


@pytest.fixture
def rows(tmp_path) -> str:
    return write_rows(tmp_path / "rows.jsonl")


@pytest.fixture
def evaluated_on(tmp_path) -> str:
    """Rows of other letters than `rows` have: the longer a model trains on these, the worse it predicts them."""
    other = [{"instruction": f"Count {n}.", "input": "", "output": "ωψχ" * (8 + n % 3)} for n in range(7)]
    return write_jsonl(tmp_path / "eval.jsonl", other)


def evaluating_config(folder: Path, rows: str, evaluation: dict[str, Any], **train_arguments: Any):
    config = tiny_config(folder, rows, data={"files": [rows], **evaluation})
    config.train.update({"max_steps": 8, "eval_steps": 2, "learning_rate": 0.05, "lr_scheduler_type": "constant"})
    config.train.pop("save_steps")
    config.train.update(train_arguments)
    return config


def evaluations(run, system: str = "emo") -> list[dict[str, Any]]:
    log = json.loads((run.adapters / system / "training_log.json").read_text())
    return [entry for entry in log if "eval_ce" in entry]


@pytest.mark.slow
def test_the_weights_of_the_best_evaluation_are_kept(tmp_path, tiny_model_folder, rows, evaluated_on):
    config = evaluating_config(tiny_model_folder, rows, {"eval_files": [evaluated_on]}, eval_on_start=True)
    run = train(tmp_path / "run", config)
    found = evaluations(run)
    assert [entry["step"] for entry in found] == [0, 2, 4, 6, 8]
    kept = min(found[1:], key=lambda entry: entry["eval_ce"])
    assert kept["step"] < 8  # or this test says nothing
    results = run.manifest()["steps"]["train/emo"]["results"]["evaluation"]
    assert results["kept"] == {
        "step": kept["step"],
        **{name: kept[f"eval_{name}"] for name in ("loss", "ce", "perplexity", "mean_token_accuracy")},
    }
    assert results["rows"] == {"read": 7, "kept": 7, "empty": 0}
    shorter = evaluating_config(tiny_model_folder, rows, {}, max_steps=kept["step"])
    shorter.train.pop("eval_steps")
    until_then = train(tmp_path / "shorter", shorter)
    assert have_the_same_weights(run, until_then)
    card = (run.adapters / "emo" / "README.md").read_text()
    assert "On 7 rows of eval.jsonl, which it was not trained on" in card
    assert f"| {kept['step']} | {kept['eval_ce']:.4f} | {kept['eval_perplexity']:.3f} |" in card


@pytest.mark.slow
def test_an_interrupted_training_keeps_the_same_best_weights(
    tmp_path, tiny_model_folder, rows, evaluated_on, monkeypatch
):
    """Interrupted in the second evaluation after the best one, whose checkpoint survives; resumed in another folder."""
    config = evaluating_config(
        tiny_model_folder, rows, {"eval_files": [evaluated_on], "eval_samples": 1}, eval_on_start=True
    )
    undisturbed = train(tmp_path / "undisturbed", config)
    best = undisturbed.manifest()["steps"]["train/emo"]["results"]["evaluation"]["kept"]["step"]
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
    assert {"ce", "grad_norm", "num_tokens"} <= set(metrics(resumed)[1])
    samples, others = (read_samples(run.folder / "samples" / "emo.jsonl") for run in (resumed, undisturbed))
    assert samples == others
    assert [record["step"] for record in samples] == [0, 2, 4, 6, 8]


def test_a_training_whose_best_checkpoint_is_gone_is_not_resumed(tmp_path):
    checkpoint = tmp_path / "checkpoint-20"
    checkpoint.mkdir()
    file = checkpoint / "trainer_state.json"
    file.write_text(json.dumps({"best_model_checkpoint": None}))
    find_best_checkpoint(checkpoint)
    file.write_text(json.dumps({"best_model_checkpoint": str(tmp_path / "checkpoint-10")}))
    with pytest.raises(InputError, match=r"checkpoint-10: is gone, and it is the best checkpoint so far; restore it"):
        find_best_checkpoint(checkpoint)


def test_a_fraction_of_the_rows_is_held_out(tmp_path, tiny_model_folder, rows, capsys):
    config = evaluating_config(tiny_model_folder, rows, {"eval_fraction": 0.2})
    data = rows_of(config)
    assert data.eval_encoded is not None
    everything = rows_of(evaluating_config(tiny_model_folder, rows, {})).rows
    assert data.rows.counts == {"read": 24, "kept": 19, "empty": 0, "held_out": 5}
    assert sorted([*data.rows.sources, *data.eval_encoded.rows.sources]) == sorted(everything.sources)
    assert all(row in everything.rows and row not in data.rows.rows for row in data.eval_encoded.rows.rows)
    assert len({everything.sha256, data.rows.sha256, data.eval_encoded.rows.sha256}) == 3
    print_preview(config)
    assert "evaluation: 5 rows, " in capsys.readouterr().out
    config.train |= {"max_steps": 2, "patience": 2}
    run = train(tmp_path / "run", config)
    record = run.manifest()["steps"]["train/emo"]
    assert record["inputs"]["evaluation"] == data.eval_encoded.rows.sha256
    card = (run.adapters / "emo" / "README.md").read_text()
    assert "On 5 rows of the rest of the same data (chosen at random, seed 42)" in card


def test_texts_are_continued_at_each_evaluation(tmp_path, tiny_model_folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    file = write_texts(tmp_path / "texts.txt")
    config = evaluating_config(tiny_model_folder, file, {"eval_fraction": 0.3}, max_steps=2, max_length=64)
    run = train(tmp_path / "run", config)
    found = read_samples(run.folder / "samples" / "emo.jsonl")
    assert len(found) == 2
    assert all(record["answer"] for record in found)
    events = EventAccumulator(str(run.folder / "tensorboard" / "emo")).Reload().Tags()
    assert {"samples/1/text_summary", "samples/2/text_summary"} <= set(events["tensors"])
    assert {"eval/ce", "eval/perplexity", "train/ce", "train/cost"} <= set(events["scalars"])
    whole = Path(file).read_text().splitlines()
    for record in found:
        line = whole[int(record["source"].rpartition(":")[2]) - 1]
        assert len(record["prompt"]) == 32  # a byte is a token
        assert f"{line}<|end|>".startswith(record["prompt"] + record["reference"])


def refused(config, message: str, folder: Path) -> None:
    with pytest.raises(InputError, match=message) as error:
        train(folder / f"run-{len(list(folder.iterdir()))}", config)
    assert len(str(error.value).splitlines()) == 1


def test_unusable_evaluation_data_is_refused_in_one_line(tmp_path, tiny_model_folder, rows, evaluated_on):
    texts = write_texts(tmp_path / "texts.txt")
    folder = tiny_model_folder

    def config(evaluation: dict[str, Any], file: str = rows, **arguments: Any):
        return evaluating_config(folder, file, evaluation, **arguments)

    refused(
        config({"eval_files": [texts]}),
        r"texts.txt, row 1: has the columns text, but the training rows are of format alpaca \(instruction, output\)",
        tmp_path,
    )
    refused(config({"eval_files": [rows]}, texts), "rows.jsonl, row 1: has the columns .* format text", tmp_path)
    refused(config({"eval_files": ["no.jsonl"]}), "no.jsonl: no such file", tmp_path)
    refused(config({"eval_fraction": 0.99}), "data.eval_fraction 0.99: leaves none of 24 rows to train on", tmp_path)
    refused(
        config({"eval_files": [evaluated_on]}, save_steps=3),
        "train.save_steps: is 3 and train.eval_steps 2; make them equal",
        tmp_path,
    )
    refused(config({"eval_files": [evaluated_on]}, eval_strategy="no"), "train.eval_strategy: is no, but", tmp_path)
    refused(config({}, patience=2), r"needs evaluation data; set data.eval_files or data.eval_fraction", tmp_path)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"eval_files": ["a"], "eval_fraction": 0.5}, "give eval_files or eval_fraction, not both"),
        ({"eval_fraction": 0.5, "eval_limit": 3}, "eval_limit requires eval_files"),
        ({"eval_samples": 3}, "eval_samples requires eval_files or eval_fraction"),
        ({"eval_fraction": 1.0}, "less than 1"),
    ],
)
def test_contradicting_evaluation_keys_are_refused(data, message):
    with pytest.raises(InputError, match=message):
        make_config({"name": "x", "data": data}, [], "test")
