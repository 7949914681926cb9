"""EMOTrainer on tiny models: the loss inside the model, its gradients, and what it logs."""

from __future__ import annotations

import pytest
import torch
from peft import LoraConfig
from tiny import (
    assert_same_gradients,
    captured_gradients,
    make_trainer,
    tiny_model,
    tiny_rows,
    tiny_tokenizer,
)
from trl import SFTConfig, SFTTrainer

from instruct import EMOConfig, EMOTrainer
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


def test_mle_equals_trls_loss_and_gradients(tmp_path):
    theirs = captured_gradients(make_trainer(tmp_path / "trl", tiny_model(), SFTTrainer))
    ours = captured_gradients(make_trainer(tmp_path / "ours", tiny_model(), objective="mle"))
    assert_same_gradients(ours, theirs, 1e-5)


@pytest.mark.parametrize("objective", ["mle", "emo"])
def test_gradient_accumulation_changes_nothing(tmp_path, objective):
    gradients = {
        size: captured_gradients(
            make_trainer(
                tmp_path / str(size),
                tiny_model(),
                objective=objective,
                per_device_train_batch_size=size,
                gradient_accumulation_steps=8 // size,
            )
        )
        for size in (8, 4, 2)
    }
    assert_same_gradients(gradients[4], gradients[8], 1e-5)
    assert_same_gradients(gradients[2], gradients[8], 1e-5)


def test_packing_gives_the_gradients_of_padding(tmp_path):
    rows = tiny_rows()
    padded = captured_gradients(make_trainer(tmp_path / "padded", tiny_model(), rows=rows))
    total = 128
    packed_trainer = make_trainer(
        tmp_path / "packed", tiny_model(), rows=rows, packing=True, max_length=total, per_device_train_batch_size=1
    )
    assert len(packed_trainer.train_dataset) == 1
    packed = captured_gradients(packed_trainer)
    assert_same_gradients(packed, padded, 1e-5)


def test_logged_means_are_token_weighted(tmp_path):
    """Two micro-batches of very different lengths: a mean of means would differ."""
    whole = make_trainer(tmp_path / "whole", tiny_model(), objective="emo", emo_variant="pypi")
    split = make_trainer(
        tmp_path / "split", tiny_model(), objective="emo", emo_variant="pypi", per_device_train_batch_size=2,
        gradient_accumulation_steps=4,
    )  # fmt: skip
    whole.train()
    split.train()
    for name in ("ce", "cost", "ratio", "clamped_fraction", "mean_token_accuracy"):
        assert split.state.log_history[0][name] == pytest.approx(whole.state.log_history[0][name], rel=1e-5), name
    assert whole.state.log_history[0]["num_tokens"] == sum(len(row["input_ids"]) for row in whole.train_dataset)


def test_emo_lowers_its_own_loss(tmp_path):
    trainer = make_trainer(tmp_path, tiny_model(), max_steps=20, learning_rate=5e-3)
    trainer.train()
    history = [entry for entry in trainer.state.log_history if "loss" in entry]
    assert history[-1]["ce"] < 0.9 * history[0]["ce"]
    assert history[-1]["cost"] < history[0]["cost"]


def test_a_trl_user_only_changes_the_class(tmp_path):
    arguments = SFTConfig(str(tmp_path), max_steps=1, report_to=[], use_cpu=True, bf16=False, save_strategy="no")
    trainer = EMOTrainer(
        model=tiny_model(), args=arguments, train_dataset=tiny_rows(), processing_class=tiny_tokenizer()
    )
    trainer.train()
    assert isinstance(trainer.args, EMOConfig)
    assert trainer.args.objective == "emo"
    assert "ratio" in trainer.state.log_history[0]


def test_lora_trains_the_adapter_alone(tmp_path):
    peft_config = LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM")
    gradients = captured_gradients(make_trainer(tmp_path, tiny_model(tied=False), peft_config=peft_config))
    assert all("lora_" in name for name in gradients)


def test_a_fixed_cost_uses_the_initial_head_and_an_adaptive_cost_the_current_one(tmp_path):
    histories = {}
    for kind in ("fixed", "adaptive"):
        trainer = make_trainer(tmp_path / kind, tiny_model(), max_steps=6, learning_rate=1e-2, transport_cost=kind)
        trainer.train()
        histories[kind] = [entry["cost"] for entry in trainer.state.log_history if "cost" in entry]
    assert histories["fixed"][0] == pytest.approx(histories["adaptive"][0], rel=1e-6)
    assert histories["fixed"][-1] != pytest.approx(histories["adaptive"][-1], rel=1e-4)


def test_evaluation_reports_the_same_statistics(tmp_path):
    trainer = make_trainer(tmp_path, tiny_model(), eval_strategy="no", per_device_eval_batch_size=8)
    metrics = trainer.evaluate(tiny_rows())
    assert metrics["eval_ce"] == pytest.approx(metrics["eval_loss"], rel=1e-5)  # the official variant's value is ce
    assert metrics["eval_cost"] > 0
