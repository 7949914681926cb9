"""Weights of rows, turns and prompts through the trainer, against the dense float64 loss of words written by hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from datasets import Dataset
from dense_reference import reference_token_loss
from tiny import (
    assert_same_gradients,
    captured_gradients,
    chat_tokenizer,
    conversations,
    make_trainer,
    tiny_model,
)

from instruct.objectives import EMO

PROMPT = 0.3
TURNS = [1.0, 0.25, 0.0, 3.0, 1.5]
# How the same rows come to the model.
WAYS: dict[str, dict[str, Any]] = {
    "one batch": {},
    "accumulated": {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 4},
    "padding-free, accumulated": {
        "padding_free": True, "max_length": None, "per_device_train_batch_size": 4, "gradient_accumulation_steps": 2,
    },
    "packed, accumulated": {"packing": True, "per_device_train_batch_size": 1, "gradient_accumulation_steps": 8},
    "packed, split": {"packing": True, "packing_strategy": "bfd_split"},
    "streamed": {},
}  # fmt: skip


def weighted_chats() -> list[dict[str, Any]]:
    """Chats of one to three answers, whose rows and turns have weights."""
    rows, turns = [], iter(TURNS * 6)
    for number, row in enumerate(conversations()):
        messages = [dict(turn) for turn in row["messages"]]
        for turn in messages[1:-1:2]:
            turn["weight"] = next(turns)
        rows.append({"messages": messages, "weight": [2.0, 0.5, 1.0][number % 3]})
    return rows


def tokens_of(row: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """A chat's words with their weights, by the template of `tiny`."""
    share = PROMPT * row["weight"]
    for turn in row["messages"]:
        if turn["role"] == "user":
            yield from ((word, share) for word in f"w2 {turn['content']}".split())
        else:
            yield "w1", share
            yield from ((word, turn.get("weight", 1.0) * row["weight"]) for word in f"{turn['content']} </s>".split())


def dense(model, rows, objective) -> tuple[float, dict[str, torch.Tensor], float]:
    """The weighted mean over all rows, its gradients, and the same mean of cross-entropy."""
    tokenizer, total, ce, weights = chat_tokenizer(), 0.0, 0.0, 0.0
    for row in rows:
        words, of_words = zip(*tokens_of(row), strict=True)
        ids = torch.tensor(tokenizer.convert_tokens_to_ids(list(words)))
        states = model.model(ids[None]).last_hidden_state[0, :-1]
        weight = torch.tensor(of_words[1:], dtype=torch.float64)
        head = model.lm_head.weight
        # The cost between the head's rows is a constant.
        total += (weight * reference_token_loss(states, head, ids[1:], objective, head.detach())).sum()
        ce += (weight * torch.nn.functional.cross_entropy(states @ head.T, ids[1:], reduction="none")).sum().item()
        weights += weight.sum().item()
    loss = total / weights
    loss.backward()
    return loss.item(), {name: p.grad for name, p in model.named_parameters() if p.grad is not None}, ce / weights


def weighted_trainer(folder, rows=None, streamed=False, **arguments):
    rows = Dataset.from_list(rows or weighted_chats())
    return make_trainer(
        folder, tiny_model(tied=False).double(), rows=rows.to_iterable_dataset() if streamed else rows,
        tokenizer=chat_tokenizer(), **{"max_length": 96} | arguments,
    )  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_the_loss_is_the_weighted_mean_however_rows_are_batched(tmp_path, way):
    expected, gradients, ce = dense(tiny_model(tied=False).double(), weighted_chats(), EMO())
    trainer = weighted_trainer(tmp_path, streamed=way == "streamed", prompt_loss_weight=PROMPT, **WAYS[way])
    assert_same_gradients(captured_gradients(trainer), gradients, 1e-6)
    (log, *_) = trainer.state.log_history
    assert log["loss"] == pytest.approx(expected, rel=1e-5)
    assert log["ce"] == pytest.approx(ce, rel=1e-5)


def test_evaluation_counts_each_answers_token_once(tmp_path):
    plain = [{"messages": row["messages"]} for row in conversations()]
    weighed = [{**row, "weight": 0.5 + number} for number, row in enumerate(plain)]
    values = [
        weighted_trainer(
            tmp_path / str(number), eval_dataset=Dataset.from_list(rows), prompt_loss_weight=0.5
        ).evaluate()
        for number, rows in enumerate((plain, weighed))
    ]
    for name in ("eval_loss", "eval_ce", "eval_mean_token_accuracy"):
        assert values[0][name] == values[1][name]


@pytest.mark.parametrize(
    ("rows", "arguments", "message"),
    [
        ([{"prompt": "w4", "completion": " w5", "weight": 2.0}], {}, "weight: a column that TRL, which reads"),
        (None, {"prompt_loss_weight": 0.1}, "prompt_loss_weight: TRL, which reads these rows, would ignore it"),
    ],
)
def test_what_would_ignore_weights_is_refused(tmp_path, rows, arguments, message):
    with pytest.raises(ValueError, match=message):
        make_trainer(tmp_path, rows=Dataset.from_list(rows) if rows else None, **arguments)
