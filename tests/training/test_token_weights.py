"""Weights of rows, turns and prompts through the trainer, against the dense float64 loss of words written by hand."""

from __future__ import annotations

import json
import re
from collections import Counter
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
    tiny_rows,
    tiny_tokenizer,
)
from train_configs import tiny_config, train, write_rows

from instruct.base.errors import InputError
from instruct.data.token_weights import split_labels, weights_line
from instruct.objectives.built_in import OBJECTIVES
from instruct.training.preview import print_preview
from instruct.training.rows import load_training_rows
from instruct.training.train import make_trainer as trainer_of
from instruct.training.train import trainer_arguments

PROMPT = 0.3
TURNS = [1.0, 0.25, 0.0, 3.0, 1.5]
# How the same rows come to the model.
WAYS: dict[str, dict[str, Any]] = {
    "one batch": {},
    "accumulated": {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 4},
    "padding-free": {"padding_free": True, "max_length": None},
    "padding-free, accumulated": {
        "padding_free": True, "max_length": None, "per_device_train_batch_size": 4, "gradient_accumulation_steps": 2,
    },
    "packed": {"packing": True},
    "packed, accumulated": {"packing": True, "per_device_train_batch_size": 1, "gradient_accumulation_steps": 8},
    "packed, split": {"packing": True, "packing_strategy": "bfd_split"},
    "a multiple": {"pad_to_multiple_of": 16},
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


def tokens_of(row: dict[str, Any], prompt: float) -> Iterator[tuple[str, float]]:
    """A chat's words with their weights, by the template of `tiny`."""
    share = prompt * row["weight"]
    for turn in row["messages"]:
        if turn["role"] == "user":
            yield from ((word, share) for word in f"w2 {turn['content']}".split())
        else:
            yield "w1", share
            yield from ((word, turn.get("weight", 1.0) * row["weight"]) for word in f"{turn['content']} </s>".split())


def dense(model, rows, objective, prompt: float) -> tuple[float, dict[str, torch.Tensor], float]:
    """The weighted mean over all rows, its gradients, and the same mean of cross-entropy."""
    tokenizer, total, ce, weights = chat_tokenizer(), 0.0, 0.0, 0.0
    for row in rows:
        words, of_words = zip(*tokens_of(row, prompt), strict=True)
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


def weighted_trainer(folder, rows=None, **arguments):
    rows = Dataset.from_list(weighted_chats() if rows is None else rows)
    return make_trainer(
        folder, tiny_model(tied=False).double(), rows=rows, tokenizer=chat_tokenizer(), **{"max_length": 96} | arguments
    )


@pytest.mark.parametrize("prompt", [0.0, PROMPT])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("objective", ["mle", "emo"])
def test_the_loss_is_the_weighted_mean_however_rows_are_batched(tmp_path, way, objective, prompt):
    expected, gradients, ce = dense(tiny_model(tied=False).double(), weighted_chats(), OBJECTIVES[objective](), prompt)
    trainer = weighted_trainer(tmp_path, objective=objective, prompt_loss_weight=prompt, **WAYS[way])
    assert_same_gradients(captured_gradients(trainer), gradients, 1e-6)
    (log, *_) = trainer.state.log_history
    assert log["loss"] == pytest.approx(expected, rel=1e-5)
    assert log["ce"] == pytest.approx(ce, rel=1e-5)


def test_a_stream_takes_the_weights_too(tmp_path):
    rows = Dataset.from_list(weighted_chats())
    expected = dense(tiny_model(tied=False).double(), weighted_chats(), OBJECTIVES["mle"](), PROMPT)
    trainer = make_trainer(
        tmp_path, tiny_model(tied=False).double(), rows=rows.to_iterable_dataset(), tokenizer=chat_tokenizer(),
        objective="mle", prompt_loss_weight=PROMPT, max_length=96,
    )  # fmt: skip
    assert_same_gradients(captured_gradients(trainer), expected[1], 1e-6)


@pytest.mark.parametrize("streamed", [False, True])
def test_weights_of_1_change_no_bit(tmp_path, streamed):
    """A column of ones gives the gradients and the log that rows without it give."""
    found = []
    for number, more in enumerate(({}, {"weight": 1.0})):
        rows = Dataset.from_list([{**row, **more} for row in conversations()])
        trainer = make_trainer(
            tmp_path / str(number), tiny_model(), rows=rows.to_iterable_dataset() if streamed else rows,
            tokenizer=chat_tokenizer(), per_device_train_batch_size=4, gradient_accumulation_steps=2,
        )  # fmt: skip
        gradients = captured_gradients(trainer)
        logged = {name: trainer.state.log_history[0][name] for name in ("loss", "ce", "cost", "grad_norm")}
        found.append((gradients, logged))
    assert found[0][1] == found[1][1]
    for name, gradient in found[0][0].items():
        assert torch.equal(gradient, found[1][0][name])


def test_a_row_of_weight_2_is_the_row_twice_and_one_of_weight_0_is_none(tmp_path, caplog):
    chats = [{**row, "weight": 1.0} for row in conversations()]
    weighed = [{**row, "weight": float(number % 3)} for number, row in enumerate(chats)]
    repeated = [row for number, row in enumerate(chats) for _ in range(number % 3)]
    batch = {"per_device_train_batch_size": 16}
    expected = captured_gradients(weighted_trainer(tmp_path / "twice", repeated, **batch))
    trainer = weighted_trainer(tmp_path / "weighed", weighed, **batch)
    assert "trained on are 30 tokens of weight 1, 36 tokens of weight 2" in caplog.text
    assert len(trainer.train_dataset) == 5
    assert_same_gradients(captured_gradients(trainer), expected, 1e-6)


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


TEXTS = [{"text": "w4 w5 w6", "weight": 2.0}, {"text": "w7 w8", "weight": 1.0}]


def test_texts_have_weights_and_no_prompts(tmp_path):
    expected = captured_gradients(
        make_trainer(
            tmp_path / "twice", rows=Dataset.from_list([{"text": TEXTS[index]["text"]} for index in (0, 0, 1)])
        )
    )
    trainer = make_trainer(tmp_path / "weighed", rows=Dataset.from_list(TEXTS))
    assert_same_gradients(captured_gradients(trainer), expected, 1e-5)
    with pytest.raises(ValueError, match="prompt_loss_weight: texts have no prompts"):
        make_trainer(tmp_path, rows=Dataset.from_list(TEXTS), prompt_loss_weight=0.1)


@pytest.mark.parametrize(
    ("rows", "arguments", "message"),
    [
        ([{"prompt": "w4", "completion": " w5", "weight": 2.0}], {}, "weight: a column that TRL, which reads"),
        ([{"input_ids": [4, 5], "weight": 2.0}], {}, "weight: a column that TRL, which reads"),
        (None, {"prompt_loss_weight": 0.1}, "prompt_loss_weight: TRL, which reads these rows, would ignore it"),
        ([{"input_ids": [4, 5]}], {"prompt_loss_weight": 0.1}, "prompt_loss_weight: TRL, which reads"),
        ("chats", {"assistant_only_loss": True}, "weight: a column that TRL, which reads these rows"),
        ("chats", {"prompt_loss_weight": 0.1, "assistant_only_loss": True}, "prompt_loss_weight needs the mask"),
        ("chats", {"prompt_loss_weight": 0.1, "train_on": "all_tokens"}, "train_on all_tokens trains prompts"),
        ("chats", {"prompt_loss_weight": -0.1}, "prompt_loss_weight is -0.1; it must be a number from 0"),
        ("chats", {"prompt_loss_weight": float("nan")}, "prompt_loss_weight is nan; it must be a number from 0"),
        ("chats", {"prompt_loss_weight": True}, "prompt_loss_weight is True; it must be a number from 0"),
    ],
)
def test_what_would_ignore_weights_is_refused(tmp_path, rows, arguments, message):
    dataset = Dataset.from_list(weighted_chats() if rows == "chats" else rows) if rows else tiny_rows()
    tokenizer = chat_tokenizer() if rows == "chats" else tiny_tokenizer()
    with pytest.raises(ValueError, match=message):
        make_trainer(tmp_path, rows=dataset, tokenizer=tokenizer, **arguments)


def test_a_run_shows_and_records_its_weights(tmp_path, tiny_model_folder, capsys):
    rows = [{"instruction": f"Say {n}.", "output": f"It is {n}.", "weight": [1, 2, 0.5, 0][n % 4]} for n in range(16)]
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    plain = tiny_config(tiny_model_folder, str(file))
    config = tiny_config(
        tiny_model_folder, str(file), train={**plain.train, "prompt_loss_weight": 0.25, "max_steps": 1}
    )
    found = print_preview(config)
    shown = " ".join(capsys.readouterr().out.split())
    assert f"weights: {weights_line(found.weights)}" in shown
    assert "note: 4 rows of weight 0: fully masked, not trained on" in shown
    for text in (
        "⟦It is 1.<|end|>⟧×2",
        "a server sends: the text before the answer",
        "│ before answers │",
        "⟦trained on⟧×weight",
    ):
        assert text in shown
    parts = [part for row in found.rows for part in row["parts"]]
    assert [part.get("weight", 1.0) for part in parts] == [0.25, 1.0, 0.5, 2.0, 0.125, 0.5]
    assert all(part["trained_on"] for part in parts)
    assert set(found.weights["by_weight"]) == {"0.125", "0.25", "0.5", "1", "2"}
    run = train(tmp_path / "run", config)
    record = run.manifest()["steps"]["train/emo"]
    assert record["results"]["weights"] == found.weights
    assert record["results"]["rows"]["fully_masked"] == 4
    assert record["inputs"]["options"]["train"]["prompt_loss_weight"] == 0.25
    card = (run.adapters / "emo" / "README.md").read_text()
    assert f"The loss is a weighted mean: {weights_line(found.weights)}." in card
    assert "- prompt_loss_weight: 0.25" in card
    assert "and 4 without a response token within the maximum length. Of the latter, 4 have weight 0." in card


@pytest.mark.parametrize("strategy", ["bfd_split", "wrapped"])
def test_packed_texts_keep_their_weights(tmp_path, tiny_model_folder, capsys, strategy):
    file = tmp_path / "texts.jsonl"
    rows = [{"text": f"Text {n} " + "and on " * (n % 5) * 9, "weight": [1, 2, 0.5, 0][n % 4]} for n in range(24)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = {"max_length": 64, "packing_strategy": strategy, "max_steps": 1}
    config = tiny_config(tiny_model_folder, str(file), data={"files": [str(file)]}, train=options)
    found = print_preview(config, shown=50)
    assert re.search(r"\[\d+ tokens ×2\] ", capsys.readouterr().out)
    data = load_training_rows(config)
    arguments = trainer_arguments(config, config.systems["emo"], tmp_path / "out", plain_text=True)
    trainer = trainer_of(config, arguments, data.tokenizer, data.encoded.dataset())
    counts: Counter[float] = Counter()
    for labels in trainer.train_dataset["labels"]:
        counts.update(split_labels(torch.tensor(labels))[1].tolist())
    assert found.weights["by_weight"] == {f"{weight:.6g}": counts[weight] for weight in (0.5, 1.0, 2.0)}


@pytest.mark.parametrize(
    ("train", "message"),
    [
        ({"prompt_loss_weight": -1}, "train.prompt_loss_weight is -1; it must be a number from 0"),
        ({"prompt_loss_weight": 0.1, "train_on": "all_tokens"}, "train.prompt_loss_weight: train_on all_tokens trains"),
    ],
)
def test_a_prompt_loss_weight_that_is_none_is_refused_by_the_command(tmp_path, tiny_model_folder, train, message):
    config = tiny_config(tiny_model_folder, write_rows(tmp_path / "rows.jsonl"), train=train)
    with pytest.raises(InputError, match=message):
        load_training_rows(config)
