"""Evaluation while training: right values, the best checkpoint, early stopping, samples, and what is refused."""

from __future__ import annotations

import json
import math
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from test_plain_text import write_texts
from tiny import make_trainer, tiny_model, tiny_rows, tiny_tokenizer
from train_configs import metrics, tiny_config, train, write_rows
from trl import SFTConfig

from instruct import EMOConfig
from instruct.base.errors import InputError
from instruct.config import make_config
from instruct.training.callbacks import EvaluationSample, WriteSamples, read_samples
from instruct.training.checkpoints import find_best_checkpoint
from instruct.training.rows import load_training_rows


def test_an_infinite_perplexity_is_no_error(tmp_path):
    model = tiny_model()
    with torch.no_grad():
        model.lm_head.weight.mul_(1e4)
    found = make_trainer(tmp_path, model, objective="mle").evaluate(tiny_rows())
    assert found["eval_ce"] > 709
    assert found["eval_perplexity"] == math.inf


def test_the_best_checkpoint_is_chosen_by_cross_entropy():
    arguments = {
        "output_dir": "out",
        "use_cpu": True,
        "bf16": False,
        "eval_strategy": "steps",
        "save_strategy": "steps",
    }
    best = EMOConfig(**arguments, load_best_model_at_end=True)
    assert (best.metric_for_best_model, best.greater_is_better) == ("eval_ce", False)
    assert EMOConfig(**arguments, patience=2).metric_for_best_model == "eval_ce"
    assert EMOConfig(**arguments).metric_for_best_model is None
    own = EMOConfig(**arguments, load_best_model_at_end=True, metric_for_best_model="eval_mean_token_accuracy")
    assert own.greater_is_better is True
    assert EMOConfig(**arguments, metric_for_best_model="eval_perplexity").greater_is_better is False
    for name in ("loss", "eval_loss"):
        with pytest.raises(ValueError, match="is the value of the objective emo, which does not say how well"):
            EMOConfig(**arguments, metric_for_best_model=name)
        assert EMOConfig(**arguments, metric_for_best_model=name, objective="mle").greater_is_better is False
    for wrong in ({"patience": 0}, {"patience": 2, "eval_strategy": "no"}):
        with pytest.raises(ValueError, match="must be at least 1, with eval_strategy steps or epoch"):
            EMOConfig(**{**arguments, **wrong})


def test_an_sftconfigs_default_metric_becomes_cross_entropy(tmp_path):
    from instruct import EMOTrainer

    config = SFTConfig(
        str(tmp_path), use_cpu=True, bf16=False, eval_strategy="steps", save_strategy="steps", report_to=[],
        load_best_model_at_end=True,
    )  # fmt: skip
    assert config.metric_for_best_model == "loss"
    trainer = EMOTrainer(
        tiny_model(), config, train_dataset=tiny_rows(), eval_dataset=tiny_rows(), processing_class=tiny_tokenizer()
    )
    assert (trainer.args.metric_for_best_model, trainer.args.greater_is_better) == ("eval_ce", False)


@pytest.fixture
def rows(tmp_path) -> str:
    return write_rows(tmp_path / "rows.jsonl")


@pytest.fixture
def evaluated_on(tmp_path) -> str:
    """Rows of other letters than `rows` have: the longer a model trains on these, the worse it predicts them."""
    other = [{"instruction": f"Count {n}.", "input": "", "output": "ωψχ" * (8 + n % 3)} for n in range(7)]
    path = tmp_path / "eval.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in other))
    return str(path)


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
    assert results["first"]["step"] == 0
    assert results["evaluations"] == 5
    assert results["rows"] == {"read": 7, "kept": 7, "empty": 0}
    shorter = evaluating_config(tiny_model_folder, rows, {}, max_steps=kept["step"])
    shorter.train.pop("eval_steps")
    until_then = train(tmp_path / "shorter", shorter)
    best, same = (load_file(each.adapters / "emo" / "adapter_model.safetensors") for each in (run, until_then))
    assert all(torch.equal(best[name], same[name]) for name in same)
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
    assert best == 4
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
    ours, theirs = (load_file(run.adapters / "emo" / "adapter_model.safetensors") for run in (resumed, undisturbed))
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    assert metrics(resumed) == metrics(undisturbed)
    assert {"ce", "grad_norm", "num_tokens"} <= set(metrics(resumed)[1])
    files = [run.folder / "samples" / "emo.jsonl" for run in (resumed, undisturbed)]
    assert read_samples(files[0]) == read_samples(files[1])
    assert [record["step"] for record in read_samples(files[0])] == [0, 2, 4, 6, 8]


def test_a_training_whose_best_checkpoint_is_gone_is_not_resumed(tmp_path):
    checkpoint = tmp_path / "checkpoint-20"
    checkpoint.mkdir()
    file = checkpoint / "trainer_state.json"
    file.write_text(json.dumps({"best_model_checkpoint": None}))
    find_best_checkpoint(checkpoint)
    file.write_text(json.dumps({"best_model_checkpoint": str(tmp_path / "checkpoint-10")}))
    with pytest.raises(InputError, match=r"checkpoint-10: is gone, and it is the best checkpoint so far; restore it"):
        find_best_checkpoint(checkpoint)


@pytest.mark.slow
def test_training_stops_when_evaluations_do_not_improve(tmp_path, tiny_model_folder, rows, evaluated_on):
    evaluation = {"eval_files": [evaluated_on]}
    config = evaluating_config(tiny_model_folder, rows, evaluation, max_steps=40, patience=2)
    run = train(tmp_path / "run", config)
    values = [entry["eval_ce"] for entry in evaluations(run)]
    best = values.index(min(values))
    assert len(values) == best + 1 + 2
    assert run.manifest()["steps"]["train/emo"]["results"]["steps"] == 2 * len(values) < 40


def test_a_resumed_training_counts_the_evaluations_before_the_interruption():
    from types import SimpleNamespace

    from transformers import TrainerControl

    from instruct.training.callbacks import StopWithoutImprovement

    args = SimpleNamespace(metric_for_best_model="ce", greater_is_better=False)
    log = [{"eval_ce": value, "step": step} for step, value in enumerate([3.0, 2.0, 2.5, 2.1])]
    for patience, stops in [(2, True), (3, False)]:
        control = TrainerControl()
        state = SimpleNamespace(log_history=log, global_step=3)
        StopWithoutImprovement(patience).on_train_begin(args, state, control)
        assert control.should_training_stop is stops


def test_a_fraction_of_the_rows_is_held_out(tmp_path, tiny_model_folder, rows):
    config = evaluating_config(tiny_model_folder, rows, {"eval_fraction": 0.2})
    data = load_training_rows(config)
    assert data.eval_encoded is not None
    everything = load_training_rows(evaluating_config(tiny_model_folder, rows, {})).rows
    assert len(data.eval_encoded.rows.rows) == 5
    assert len(data.rows.rows) == 19
    assert data.rows.counts == {"read": 24, "kept": 19, "empty": 0, "held_out": 5}
    assert sorted([*data.rows.sources, *data.eval_encoded.rows.sources]) == sorted(everything.sources)
    assert all(row in everything.rows and row not in data.rows.rows for row in data.eval_encoded.rows.rows)
    again = load_training_rows(config)
    assert (again.rows.sha256, again.eval_encoded.rows.sha256) == (data.rows.sha256, data.eval_encoded.rows.sha256)
    assert len({everything.sha256, data.rows.sha256, data.eval_encoded.rows.sha256}) == 3
    config.train["max_steps"] = 2
    run = train(tmp_path / "run", config)
    record = run.manifest()["steps"]["train/emo"]
    assert record["inputs"]["evaluation"] == data.eval_encoded.rows.sha256
    assert record["results"]["evaluation"]["seed"] == 42
    assert record["results"]["rows"]["held_out"] == 5
    assert (
        "On 5 rows of the rest of the same data (chosen at random, seed 42)"
        in (run.adapters / "emo" / "README.md").read_text()
    )


@pytest.mark.slow
def test_answers_are_sampled_at_each_evaluation(tmp_path, tiny_model_folder, rows, evaluated_on):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    config = evaluating_config(tiny_model_folder, rows, {"eval_files": [evaluated_on], "eval_samples": 2}, max_steps=4)
    run = train(tmp_path / "run", config)
    found = read_samples(run.folder / "samples" / "emo.jsonl")
    assert [(record["step"], record["source"]) for record in found] == [
        (step, f"{evaluated_on}:{row}") for step in (2, 4) for row in (1, 2)
    ]
    assert found[0]["prompt"] == "<|user|>Count 0.<|end|>\n<|assistant|>"
    assert found[0]["reference"] == "ωψχ" * 8 + "<|end|>"
    assert found[0]["answer"]
    events = EventAccumulator(str(run.folder / "tensorboard" / "emo"))
    events.Reload()
    assert {"samples/1/text_summary", "samples/2/text_summary"} <= set(events.Tags()["tensors"])
    assert {"eval/ce", "eval/perplexity", "eval/mean_token_accuracy"} <= set(events.Tags()["scalars"])


def test_sampling_computes_each_token_once_under_gradient_checkpointing(tmp_path):
    trainer = make_trainer(tmp_path, gradient_checkpointing=True, max_steps=1)
    trainer.train()
    assert trainer.model.config.use_cache is False  # for training; generation has a setting of its own
    widths: list[int] = []
    trainer.model.base_model.register_forward_pre_hook(
        lambda module, args, kwargs: widths.append((kwargs.get("input_ids") if not args else args[0]).shape[1]),
        with_kwargs=True,
    )
    samples = WriteSamples(trainer, [EvaluationSample("a", [5, 6, 7, 8], [9])], tmp_path / "samples.jsonl")
    samples.on_evaluate(trainer.args, trainer.state, trainer.control)
    assert widths[0] == 4
    assert set(widths[1:]) == {1}


def test_texts_are_continued_at_each_evaluation(tmp_path, tiny_model_folder):
    file = write_texts(tmp_path / "texts.txt")
    config = evaluating_config(tiny_model_folder, file, {"eval_fraction": 0.3}, max_steps=2, max_length=64)
    run = train(tmp_path / "run", config)
    found = read_samples(run.folder / "samples" / "emo.jsonl")
    assert len(found) == 2
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
    for argument in ({"patience": 2}, {"eval_strategy": "steps"}, {"load_best_model_at_end": True}):
        refused(config({}, **argument), r"needs evaluation data; set data.eval_files or data.eval_fraction", tmp_path)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"eval_files": ["a"], "eval_fraction": 0.5}, "give eval_files or eval_fraction, not both"),
        ({"eval_fraction": 0.5, "eval_limit": 3}, "eval_limit requires eval_files"),
        ({"eval_samples": 3}, "eval_samples requires eval_files or eval_fraction"),
        ({"eval_fraction": 1.0}, "less than 1"),
        ({"eval_fraction": 0}, "must be more than 0"),
    ],
)
def test_contradicting_evaluation_keys_are_refused(data, message):
    with pytest.raises(InputError, match=message):
        make_config({"name": "x", "data": data}, [], "test")


def test_the_plan_and_the_preview_say_what_is_evaluated(instruct, tmp_path, tiny_model_folder, rows, monkeypatch):
    monkeypatch.chdir(tmp_path)
    flags = ["--model", tiny_model_folder, "--data.files", rows, "--data.eval_fraction", 0.25]
    code, shown, _ = instruct("preview", *flags, "--train.max_length", 256)
    assert code == 0
    assert "evaluation: 6 rows, " in shown
    assert re.search(r"│ kept +│ truncated +│ empty +│ fully masked +│ held out +│".replace("│", "[│┃]"), shown)
    assert re.search(r"│ 18 +│ 0 +│ 0 +│ 0 +│ 6 +│", shown)
    code, shown, _ = instruct("train", *flags, "--train.max_steps", 2, "--train.eval_steps", 1, "--objective", "mle")
    assert code == 0
    assert "evaluate  6 rows, " in shown
    assert "held out (seed 42); every 1 steps; the checkpoint with the best eval_ce is kept" in shown
