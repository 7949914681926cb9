"""The steps that a training is said to take before it begins are those that it takes."""

from __future__ import annotations

import pytest
from tiny import make_trainer

from instruct.training.estimate import steps_of_training


@pytest.mark.parametrize(
    "changed",
    [
        {"num_train_epochs": 1},
        {"num_train_epochs": 1.5},
        {"num_train_epochs": 2, "gradient_accumulation_steps": 3},
        {"max_steps": 3},
    ],
)
def test_the_steps_of_a_training_are_known_before(tmp_path, changed):
    trainer = make_trainer(tmp_path, **{"max_steps": -1, "per_device_train_batch_size": 2, **changed})
    expected = steps_of_training(len(trainer.train_dataset), trainer.args)
    trainer.train()
    assert trainer.state.global_step == expected
