"""EMOTrainer on tiny models: the loss inside the model, its gradients, and what it logs."""

from __future__ import annotations

import pytest
import torch
from tiny import (
    make_trainer,
    tiny_model,
)

from instruct.objectives import EMO
from instruct.training.head import attach_objective


def test_the_models_own_forward_is_unchanged():
    model = tiny_model("gemma2")
    input_ids = torch.arange(3, 13)[None]
    before = model(input_ids=input_ids, labels=input_ids)
    attach_objective(model, EMO(), None)
    after = model(input_ids=input_ids, labels=input_ids)
    assert torch.equal(before.logits, after.logits)
    assert before.loss == after.loss


def test_logged_means_are_token_weighted(tmp_path):
    """Two micro-batches of very different lengths: a mean of means would differ."""
    whole = make_trainer(tmp_path / "whole", tiny_model(), objective="emo")
    split = make_trainer(
        tmp_path / "split", tiny_model(), objective="emo", per_device_train_batch_size=2,
        gradient_accumulation_steps=4,
    )  # fmt: skip
    whole.train()
    split.train()
    for name in ("ce", "cost", "ratio", "mean_token_accuracy"):
        assert split.state.log_history[0][name] == pytest.approx(whole.state.log_history[0][name], rel=1e-5), name
    assert whole.state.log_history[0]["num_tokens"] == sum(len(row["input_ids"]) for row in whole.train_dataset)


def test_emo_lowers_its_own_loss(tmp_path):
    trainer = make_trainer(tmp_path, tiny_model(), max_steps=20, learning_rate=5e-3)
    trainer.train()
    history = [entry for entry in trainer.state.log_history if "loss" in entry]
    assert history[-1]["ce"] < 0.9 * history[0]["ce"]
    assert history[-1]["cost"] < history[0]["cost"]


def test_a_fixed_cost_is_that_of_the_initial_head(tmp_path):
    tiny_model().save_pretrained(tmp_path / "initial")
    costs = {}
    for head in ("fixed", "initial", "current"):
        table = str(tmp_path / "initial") if head == "initial" else "fixed"
        trainer = make_trainer(tmp_path / head, tiny_model(), max_steps=6, learning_rate=1e-2, transport_cost=table)
        if head == "current":
            attach_objective(trainer.model, EMO(), None)
        trainer.train()
        costs[head] = [entry["cost"] for entry in trainer.state.log_history if "cost" in entry]
    assert costs["fixed"] == pytest.approx(costs["initial"], rel=1e-6)
    assert costs["fixed"][0] == pytest.approx(costs["current"][0], rel=1e-6)
    assert costs["fixed"][-1] != pytest.approx(costs["current"][-1], rel=1e-4)
