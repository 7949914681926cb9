"""The host never waits for the GPU between a step's forward and its backward."""

from __future__ import annotations

import contextlib

import pytest
import torch
from accelerate.utils import send_to_device
from tiny import make_trainer, tiny_model

from instruct.objectives import CosineCost, linear
from instruct.training.head import attach_objective

pytest.importorskip("triton")
META = torch.device("meta")


@pytest.mark.parametrize("objective", ["mle", "emo"])
def test_no_number_is_read_between_forward_and_backward(tmp_path, objective, monkeypatch):
    """On the meta device, which has shapes and no numbers, whatever would wait for a number on a GPU raises."""
    from instruct.objectives import triton_kernels

    trainer = make_trainer(tmp_path, tiny_model(), objective=objective)
    table = trainer.model.lm_head.weight.detach().to(META)
    attach_objective(trainer.model, trainer.args.make_objective(), CosineCost(table))
    batch = dict(next(iter(trainer.get_train_dataloader())))
    rows, length = batch["input_ids"].shape
    # The model's own forward would read a mask of tokens, before any of this project's code.
    batch["attention_mask"] = torch.zeros(rows, 1, length, length)
    trainer.model.train().to(META)
    monkeypatch.setattr(type(trainer.args), "device", META)
    # Autocast does not know the device.
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda *_: False)
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: contextlib.nullcontext())
    # The kernels run in triton_kernel_checks.py; to the host they are launches like any other.
    monkeypatch.setattr(linear, "_uses_triton", lambda hidden: True)
    monkeypatch.setattr(triton_kernels, "compiled", lambda function: function)
    for name in ("token_statistics", "logit_gradient_"):
        monkeypatch.setattr(triton_kernels, name, lambda *_, **__: None)
    loss = trainer.compute_loss(trainer.model, send_to_device(batch, META), num_items_in_batch=torch.tensor(9))
    loss.backward()
    assert all(p.grad is not None and p.grad.is_meta for p in trainer.model.parameters())
    with pytest.raises((RuntimeError, NotImplementedError), match="meta"):
        trainer.check_finite()
