"""What EMOTrainer trains on of a chat: every assistant turn with its end token, and nothing else."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from types import SimpleNamespace

import pytest
import trl
from datasets import Dataset
from tiny import chat_tokenizer, conversations, make_trainer, tiny_model, tiny_tokenizer
from trl import SFTConfig, SFTTrainer

from instruct import EMOConfig, EMOTrainer
from instruct.base.errors import InputError
from instruct.data.rows import load_rows
from instruct.data.tokens import encode_rows
from instruct.training.chat_labels import label_chats

MARKED = "{% generation %}"


def trained_rows(trainer) -> list[str]:
    """The text of each row's labels, in the order of the data set."""
    tokenizer = trainer.processing_class
    return [tokenizer.decode([token for token in row["labels"] if token != -100]) for row in trainer.train_dataset]


def labels_and_ids(trainer) -> list[tuple[list[int], list[int]]]:
    return [(row["labels"], row["input_ids"]) for row in trainer.train_dataset]


def unmarked(tokenizer):
    """The tokenizer with the same template, without generation markers."""
    tokenizer.chat_template = tokenizer.chat_template.replace(MARKED, "").replace("{% endgeneration %}", "")
    return tokenizer


def test_a_chats_answers_carry_the_loss_and_nothing_else_by_default(tmp_path):
    plain = make_trainer(tmp_path / "ours", rows=conversations(), tokenizer=unmarked(chat_tokenizer()))
    theirs = make_trainer(
        tmp_path / "trl", cls=SFTTrainer, rows=conversations(), tokenizer=chat_tokenizer(), assistant_only_loss=True
    )
    for (ours, ids), (labels, whole) in zip(labels_and_ids(plain), labels_and_ids(theirs), strict=True):
        assert whole[: len(ids)] == ids
        assert labels == ours + [-100] * (len(labels) - len(ours))
    assert any(row.count("</s>") > 1 for row in trained_rows(plain))


def test_an_sftconfig_masks_chats_too(tmp_path):
    arguments = SFTConfig(str(tmp_path), report_to=[], use_cpu=True, bf16=False)
    trainer = EMOTrainer(
        tiny_model(), arguments, train_dataset=conversations(), processing_class=unmarked(chat_tokenizer())
    )
    masked = make_trainer(tmp_path / "masked", rows=conversations(), tokenizer=unmarked(chat_tokenizer()))
    assert trained_rows(trainer) == trained_rows(masked)


def test_the_last_turn_alone_and_all_tokens_are_choices(tmp_path):
    rows = conversations()
    every = trained_rows(make_trainer(tmp_path / "every", rows=rows, tokenizer=chat_tokenizer()))
    last = trained_rows(make_trainer(tmp_path / "last", rows=rows, tokenizer=chat_tokenizer(), train_on="last_turn"))
    assert last == [row.rsplit("</s> ", 1)[-1] if row.count("</s>") > 1 else row for row in every]
    for choice in ({"train_on": "all_tokens"}, {"assistant_only_loss": False}):
        everything = make_trainer(tmp_path / "all", rows=rows, tokenizer=chat_tokenizer(), **choice)
        assert all(row["labels"] == row["input_ids"] for row in everything.train_dataset)


def test_of_a_conversational_completion_only_its_answers_are_trained_on(tmp_path):
    rows = Dataset.from_list([
        {"prompt": row["messages"][:-1], "completion": row["messages"][-1:]} for row in conversations()
    ])  # fmt: skip
    by_prompt = make_trainer(tmp_path / "rows", rows=rows, tokenizer=chat_tokenizer())
    last = make_trainer(tmp_path / "last", rows=conversations(), tokenizer=chat_tokenizer(), train_on="last_turn")
    assert trained_rows(by_prompt) == trained_rows(last)


def test_streamed_evaluated_and_packed_chats_have_the_same_mask(tmp_path):
    rows = conversations()
    trainer = make_trainer(tmp_path / "plain", rows=rows, tokenizer=chat_tokenizer(), eval_dataset={"own": rows})
    expected = labels_and_ids(trainer)
    assert [(row["labels"], row["input_ids"]) for row in trainer.eval_dataset["own"]] == expected
    streamed = make_trainer(tmp_path / "streamed", rows=rows.to_iterable_dataset(), tokenizer=chat_tokenizer())
    assert labels_and_ids(streamed) == expected
    packed = make_trainer(
        tmp_path / "packed", rows=rows, tokenizer=chat_tokenizer(), packing=True, max_length=512,
        per_device_train_batch_size=1,
    )  # fmt: skip
    assert sorted(packed.train_dataset[0]["labels"]) == sorted(label for labels, _ in expected for label in labels)


def test_chats_without_an_answer_are_left_out_and_counted(tmp_path, caplog):
    chats = [*conversations().to_list(), {"messages": [{"role": "user", "content": "w3"}]}]
    chats.append({"messages": [{"role": "user", "content": "w3"}, {"role": "assistant", "content": " "}]})
    with caplog.at_level(logging.WARNING):
        trainer = make_trainer(tmp_path, rows=Dataset.from_list(chats), tokenizer=chat_tokenizer())
    assert len(trainer.train_dataset) == len(chats) - 2
    assert "train dataset: 2 of 10 chats have no answer to train on and are left out" in caplog.text


def test_lost_end_tokens_and_rejected_system_turns_are_counted(tmp_path, caplog):
    tokenizer = unmarked(chat_tokenizer())
    tokenizer.chat_template = (
        "{% if messages[0].role == 'system' %}{{ raise_exception('No systems here') }}{% endif %}"
        "{% for m in messages %}{{ m.role == 'user' and 'w1 ' or '' }}{{ m.content }} "
        "{{ m.role == 'assistant' and '</s>' or '' }}{% endfor %}"
    )
    turns = [{"role": role, "content": "w3 w4"} for role in ("system", "user", "assistant", "user", "assistant")]
    with caplog.at_level(logging.WARNING):
        make_trainer(tmp_path, rows=Dataset.from_list([{"messages": turns}] * 4), tokenizer=tokenizer, max_length=9)
    assert "train dataset: 4 chats with a system turn, which the chat template rejects" in caplog.text
    assert "train dataset: warning: 4 of 8 answers lost the end token to max_length (50.0%)" in caplog.text
    assert "raise max_length" in caplog.text


def test_a_template_that_rewrites_earlier_turns_gets_a_row_for_each_answer(tmp_path, caplog):
    tokenizer = unmarked(chat_tokenizer())
    tokenizer.chat_template = (
        "{% for m in messages %}{% if m.role == 'assistant' and not loop.last %}w9</s>"
        "{% else %}{{ m.role == 'user' and 'w1 ' or '' }}{{ m.content }} {{ m.role == 'assistant' and '</s>' or '' }}"
        "{% endif %}{% endfor %}"
    )
    answers = sum(turn["role"] == "assistant" for row in conversations() for turn in row["messages"])
    with caplog.at_level(logging.WARNING):
        trainer = make_trainer(tmp_path, rows=conversations(), tokenizer=tokenizer)
    assert len(trainer.train_dataset) == answers > len(conversations())
    assert all(text.count("</s>") == 1 for text in trained_rows(trainer))
    assert f"train dataset: {len(conversations())} chats are {answers} rows" in caplog.text


TEMPLATES = Path(trl.__file__).parent / "chat_templates"


def call(**arguments):
    return {"type": "function", "function": {"name": "add", "arguments": arguments}}


def agentic_rows():
    """Chats as users have them: calls without text, thinking under three names, turns that are not trained."""
    asked = {"role": "user", "content": "w1"}
    answers = [
        [{"role": "assistant", "content": None, "tool_calls": [call(w2="w3")]}],
        [{"role": "assistant", "content": "w4", "tool_calls": [call(w5="w6")]}],
        [{"role": "assistant", "content": "w7", "reasoning_content": "w8"}],
        [{"role": "assistant", "content": "w7", "reasoning": "w9"}],
        [{"role": "assistant", "content": "w7", "thinking": "w10"}],
        [{"role": "assistant", "content": "w7", "train": False}, asked, {"role": "assistant", "content": "w11"}],
        [{"role": "assistant", "content": "w7", "weight": 0}, asked, {"role": "assistant", "content": "w12"}],
        [{"role": "assistant", "content": "w13"}, asked, {"role": "assistant", "content": "w14"}],
    ]
    return [{"messages": [asked, *turns]} for turns in answers]


@pytest.mark.parametrize("name", ["qwen3", "qwen3_5_think", "muse_glimmer"])
def test_a_file_and_a_data_set_in_python_are_trained_alike(name, tmp_path):
    tokenizer = tiny_tokenizer()
    tokenizer.add_tokens(["<|im_end|>", "<|eot|>", "<|eom|>"], special_tokens=True)
    tokenizer.chat_template = (TEMPLATES / f"{name}.jinja").read_text()
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in agentic_rows()))
    read = encode_rows(tokenizer, load_rows(None, files=[str(file)]), None).encoded
    args = SimpleNamespace(dataset_num_proc=None, train_on="assistant_turns", on_bad_row="stop", empty_thinking=None)
    args.packing, args.max_length = False, None
    labeled = label_chats(Dataset.from_list(agentic_rows()), tokenizer, args, "train")
    assert [(row["input_ids"], row["labels"]) for row in labeled] == [(row["input_ids"], row["labels"]) for row in read]
    assert len(read) >= 8


@pytest.mark.parametrize(
    ("choice", "message"),
    [(None, None), ("skip", None), ("stop", "train dataset, row 8: the tokenizer's chat template does not")],
)
def test_a_chat_that_the_template_rejects_is_left_out_or_stops(choice, message, tmp_path, caplog):
    chats = [*conversations().to_list(), {"messages": agentic_rows()[2]["messages"]}]
    chats = chats if choice else [*chats[:8] * 2, chats[8]]
    tokenizer = unmarked(chat_tokenizer())
    if message:
        with pytest.raises(InputError, match=message):
            make_trainer(tmp_path, rows=Dataset.from_list(chats), tokenizer=tokenizer, on_bad_row=choice)
        return
    with caplog.at_level(logging.WARNING):
        trainer = make_trainer(tmp_path, rows=Dataset.from_list(chats), tokenizer=tokenizer, on_bad_row=choice)
    assert len(trainer.train_dataset) == len(chats) - 1
    assert f"1 of {len(chats)} chats are left out, because the chat template rejects them" in caplog.text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"train_on": "answers"}, "unknown train_on 'answers'; use assistant_turns, last_turn, all_tokens"),
        ({"train_on": "all_tokens", "assistant_only_loss": True}, "assistant_only_loss=True contradicts train_on="),
        ({"train_on": "all_tokens", "completion_only_loss": True}, "completion_only_loss=True contradicts train_on="),
        ({"train_on": "last_turn", "assistant_only_loss": True}, "assistant_only_loss replaces train_on='last_turn'"),
    ],
)
def test_contradicting_masks_are_refused(tmp_path, arguments, message):
    with pytest.raises(ValueError, match=message):
        EMOConfig(str(tmp_path), bf16=False, use_cpu=True, **arguments)
