"""Wherever TRL's SFTTrainer runs, EMOTrainer with cross-entropy hands the optimizer the same gradients.

What is computed around the objective is so held to TRL: which tokens count, packing, adapters, auxiliary losses.
"""

from __future__ import annotations

import pytest
import torch
from tiny import (
    assert_like_trl,
    assert_same_gradients,
    captured_gradients,
    chat_tokenizer,
    conversations,
    make_trainer,
)
from trl import SFTTrainer


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"completion_only_loss": False},
        {"max_length": 8},
        {"packing": True, "per_device_train_batch_size": 1, "max_length": 32},
        {"packing": True, "packing_strategy": "wrapped", "per_device_train_batch_size": 1, "max_length": 16},
        {"padding_free": True, "max_length": None},
        {"gradient_checkpointing": True},
        {"neftune_noise_alpha": 5.0},
        {"per_device_train_batch_size": 3, "gradient_accumulation_steps": 3},
    ],
    ids=lambda arguments: "-".join(arguments) or "as-it-comes",
)
def test_arguments_train_like_trl(tmp_path, arguments):
    assert_like_trl(tmp_path, **arguments)


def test_assistant_only_loss_on_chats_of_several_turns(tmp_path):
    arguments = {"rows": conversations(), "tokenizer": chat_tokenizer(), "assistant_only_loss": True}
    assert_like_trl(tmp_path, **arguments)
    assert_like_trl(tmp_path, **arguments, packing=True, max_length=64, per_device_train_batch_size=1)


def test_the_token_after_the_end_token_is_the_difference_to_trl(tmp_path):
    """As docs/training.md has it under "From TRL": on the same token ids and labels nothing differs."""
    rows, tokenizer = conversations().select([0, 3, 6]), chat_tokenizer()
    tokenizer.chat_template = tokenizer.chat_template.replace("{% endgeneration %}", "{% endgeneration %}w9")
    chats = rows.map(lambda row: {"prompt": row["messages"][:1], "completion": row["messages"][1:]})
    arguments = {"rows": chats.remove_columns("messages"), "tokenizer": tokenizer}
    theirs = make_trainer(tmp_path / "theirs", cls=SFTTrainer, **arguments).train_dataset
    ours = make_trainer(tmp_path / "ours", **arguments).train_dataset
    for their_row, our_row in zip(theirs, ours, strict=True):
        assert our_row["input_ids"] == their_row["input_ids"][:-1]
        assert our_row["labels"] == their_row["labels"][:-1]
        assert tokenizer.decode(their_row["labels"][-2:]) == "</s> w9"
    assert_like_trl(tmp_path, rows=theirs, tokenizer=tokenizer)


def test_bf16_autocast_over_float32_weights(tmp_path):
    """The head's product is in bf16, as autocast would have it; what reaches the last layer differs by its rounding."""
    assert_like_trl(tmp_path, bf16=True, tolerance=2e-2)
    exact = captured_gradients(make_trainer(tmp_path / "exact"))
    rounded = captured_gradients(make_trainer(tmp_path / "bf16", bf16=True))
    assert all(gradient.dtype == torch.float32 for gradient in rounded.values())
    last = "model.norm.weight"
    assert_same_gradients({last: rounded[last]}, {last: exact[last]}, 2e-2)


@pytest.mark.slow
def test_a_compiled_model_has_the_gradients_of_an_eager_one(tmp_path):
    eager = captured_gradients(make_trainer(tmp_path / "eager"))
    compiled = make_trainer(tmp_path / "compiled", torch_compile=True, torch_compile_backend="aot_eager")
    assert_same_gradients(captured_gradients(compiled), eager, 1e-5)
