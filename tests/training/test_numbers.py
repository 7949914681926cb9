"""Numbers that can be trusted: token-weighted means over whole sets, and a stop where one is no number."""

from __future__ import annotations

import math

import pytest
import torch
from datasets import Dataset
from tiny import assert_same_gradients, captured_gradients, make_trainer, tiny_model, tiny_rows

from instruct.training.emo_trainer import NonFiniteLossError


def uneven_rows() -> Dataset:
    """Seven rows whose responses have 1 to 40 tokens."""
    rows = tiny_rows(7)
    return Dataset.from_list(
        [{**row, "completion": " w1" + f" w{4 + index}" * 2 * index**2} for index, row in enumerate(rows)]
    )


def plain_means(trainer, rows: Dataset) -> dict[str, float]:
    """Row by row from the model's own logits: cross-entropy and accuracy over all response tokens at once."""
    ce, correct = [], []
    model = trainer.model.eval()
    for row in trainer._prepare_dataset(rows, trainer.processing_class, trainer.args, False, None, "eval"):
        labels = torch.tensor(row["labels"])[1:]
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([row["input_ids"]])).logits[0, :-1]
        responses = labels != -100
        ce.append(torch.nn.functional.cross_entropy(logits[responses], labels[responses], reduction="none"))
        correct.append((logits[responses].argmax(dim=-1) == labels[responses]).float())
    return {"ce": torch.cat(ce).mean().item(), "mean_token_accuracy": torch.cat(correct).mean().item()}


def test_a_step_does_not_depend_on_its_micro_batches_if_the_model_takes_no_loss_arguments(tmp_path):
    """Qwen2.5-VL, Qwen3-VL, Gemma-3n and others say so of their own forward."""

    def gradients(rows: int) -> dict[str, torch.Tensor]:
        model = tiny_model()
        model.accepts_loss_kwargs = False
        trainer = make_trainer(
            tmp_path / str(rows), model, rows=uneven_rows().select(range(4)), objective="mle",
            per_device_train_batch_size=rows, gradient_accumulation_steps=4 // rows,
            train_sampling_strategy="sequential",
        )  # fmt: skip
        return captured_gradients(trainer)

    whole = gradients(4)
    assert_same_gradients(gradients(1), whole, 1e-5)


@pytest.mark.parametrize("batch", [2, 7])
def test_evaluation_is_a_mean_over_all_tokens_whatever_the_batches(tmp_path, batch):
    trainer = make_trainer(tmp_path, objective="mle", per_device_eval_batch_size=batch)
    metrics = trainer.evaluate(uneven_rows())
    expected = plain_means(trainer, uneven_rows())
    assert metrics["eval_perplexity"] == pytest.approx(math.exp(expected["ce"]), rel=1e-4)
    for name, value in expected.items():
        assert metrics[f"eval_{name}"] == pytest.approx(value, rel=1e-5)


def test_evaluation_during_training_does_not_change_the_training_log(tmp_path):
    arguments = {"max_steps": 6, "logging_steps": 3, "learning_rate": 1e-2, "per_device_train_batch_size": 2}
    alone = make_trainer(tmp_path / "alone", **arguments)
    alone.train()
    both = make_trainer(tmp_path / "both", eval_dataset=uneven_rows(), eval_strategy="steps", eval_steps=1, **arguments)
    both.train()
    logs = [entry for entry in both.state.log_history if "loss" in entry]
    assert logs == [entry for entry in alone.state.log_history if "loss" in entry]


def test_a_non_finite_gradient_stops_before_the_weights_change(tmp_path):
    model = tiny_model()
    model.model.norm.weight.register_hook(lambda grad: grad * float("nan"))
    trainer = make_trainer(tmp_path, model, learning_rate=1e-2)
    with pytest.raises(NonFiniteLossError, match="training step 1: the loss is finite and its gradient is not"):
        trainer.train()
    assert all(map(torch.equal, model.parameters(), tiny_model().parameters()))
