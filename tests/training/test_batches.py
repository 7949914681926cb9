"""The order of the rows, and what the loss of a step is divided by."""

from __future__ import annotations

from types import SimpleNamespace

import torch
from tiny import make_trainer

from instruct.training.batches import set_epoch


def order_of(loader, epoch: int) -> list[list[int]]:
    loader.set_epoch(epoch)  # as the Trainer does
    set_epoch(loader, epoch)
    return [row.tolist() for batch in loader for row in batch["input_ids"]]


def test_each_epoch_has_an_order_of_its_own_which_a_resumed_training_repeats(tmp_path):
    whole, resumed = (make_trainer(tmp_path, per_device_train_batch_size=1).get_train_dataloader() for _ in range(2))
    first, second = order_of(whole, 0), order_of(whole, 1)
    assert first != second
    assert sorted(first) == sorted(second)
    assert order_of(resumed, 1) == second


def test_the_loss_is_divided_by_the_tokens_of_all_processes(tmp_path):
    trainer = make_trainer(tmp_path, per_device_train_batch_size=4)
    batches = list(trainer.get_train_dataloader())
    tokens = sum(int((batch["labels"][:, 1:] != -100).sum()) for batch in batches)
    assert trainer._get_num_items_in_batch(batches, torch.device("cpu")) == tokens
    others = 7.0  # the second process's
    trainer.accelerator = SimpleNamespace(num_processes=2, gather=lambda own: torch.stack([own, own * 0 + others]))
    assert trainer._get_num_items_in_batch(batches, torch.device("cpu")) == tokens + others
