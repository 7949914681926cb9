"""What EMOTrainer trains on of a chat: every assistant turn with its end token, and nothing else."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
import trl
from datasets import Dataset
from tiny import chat_tokenizer, conversations, make_trainer, quiet_config, tiny_tokenizer
from tokenizers.processors import TemplateProcessing
from train_configs import write_jsonl
from trl import SFTTrainer

from instruct.base.errors import InputError
from instruct.data.arrow import RowFolder
from instruct.data.formats import KEYS, detect_format
from instruct.data.rows import load_rows
from instruct.data.sources import RawRow
from instruct.data.tokens import encode_rows
from instruct.training.chat_labels import is_read_here, label_rows

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
    assert "train dataset: 2 of 10 rows without an answer to train on are left out" in caplog.text


TEMPLATES = Path(trl.__file__).parent / "chat_templates"


@pytest.mark.parametrize("kind", ["text", "chat"])
def test_columns_that_are_not_read_and_a_doubled_begin_are_said_once(kind, tmp_path, capsys, caplog):
    tokenizer = chat_tokenizer()
    begin = [("<s>", tokenizer.bos_token_id)]
    tokenizer._tokenizer.post_processor = TemplateProcessing(single="<s> $A", special_tokens=begin)
    rows = [{"text": text, "system": "w1", "id": ""} for text in ("<s>w1 w2", "w3 w4", "<s>w5")]
    if kind == "chat":
        tokenizer.chat_template = "{{ bos_token }}<s>" + tokenizer.chat_template
        rows = [dict(row) | {"system": "w1"} for row in conversations()]
    make_trainer(tmp_path, rows=Dataset.from_list(rows), tokenizer=tokenizer)
    said = capsys.readouterr().err + caplog.text
    assert said.count("columns with text that is not trained on: system (100% of the rows)") == 1
    count = 2 if kind == "text" else len(rows)
    assert said.count(f"train dataset: warning: {count} rows with the token that") == 1


def call(**arguments):
    return {"type": "function", "function": {"name": "add", "arguments": arguments}}


def agentic_rows():
    """Chats as users have them: calls without text, thinking under three names, turns that are not trained."""
    asked = {"role": "user", "content": "w1"}
    answers = [
        [
            {"role": "assistant", "content": None, "tool_calls": [call(w2="w3")]},
            {"role": "tool", "name": "add", "content": "w3"},
            {"role": "assistant", "content": "w4"},
        ],
        [{"role": "assistant", "content": "w4", "tool_calls": [call(w5="w6")]}],
        [{"role": "assistant", "content": "w7", "reasoning_content": "w8"}],
        [{"role": "assistant", "content": "w7", "reasoning": "w9"}],
        [{"role": "assistant", "content": "w7", "thinking": "w10"}],
        [{"role": "assistant", "content": "w7", "train": False}, asked, {"role": "assistant", "content": "w11"}],
        [{"role": "assistant", "content": "w7", "weight": 0}, asked, {"role": "assistant", "content": "w12"}],
        [{"role": "assistant", "content": "w13"}, asked, {"role": "assistant", "content": "w14"}],
        [{"role": "assistant", "content": "w4", "tool_calls": [call(w2="w3", w5="w6", w15=None)]}],
    ]
    return [{"messages": [asked, *turns]} for turns in answers]


def trained_alike(rows, tokenizer, folder, train_on="assistant_turns") -> list[tuple[list[int], list[int]]]:
    """Labels and ids of rows, which a file, a data set in Python and a stream give alike."""
    file = write_jsonl(folder / "rows.jsonl", rows)
    read = encode_rows(tokenizer, load_rows(None, files=[file], train_on=train_on), None, train_on).dataset()
    expected = [(row["labels"], row["input_ids"]) for row in read]
    args = quiet_config(folder, train_on=train_on, max_length=None, on_bad_row="stop")
    for given in (Dataset.from_list(rows), Dataset.from_list(rows).to_iterable_dataset()):
        if is_read_here(given, rows[0], args, "train"):
            found = label_rows(given, tokenizer, args, "train", RowFolder(folder))
        else:
            found = make_trainer(folder / "out", rows=given, tokenizer=tokenizer, train_on=train_on).train_dataset
        assert [(row["labels"], row["input_ids"]) for row in found] == expected, rows[0]
    return expected


@pytest.mark.parametrize("name", ["qwen3", "qwen3_5_think", "muse_glimmer"])
def test_a_file_and_a_data_set_in_python_are_trained_alike(name, tmp_path):
    tokenizer = tiny_tokenizer()
    tokenizer.add_tokens(["<|im_end|>", "<|eot|>", "<|eom|>"], special_tokens=True)
    tokenizer.chat_template = (TEMPLATES / f"{name}.jinja").read_text()
    expected = trained_alike(agentic_rows(), tokenizer, tmp_path)
    file = str(tmp_path / "rows.parquet")
    Dataset.from_list(agentic_rows()).to_parquet(file)
    from_parquet = encode_rows(tokenizer, load_rows(None, files=[file]), None).dataset()
    assert list(from_parquet["input_ids"]) == [ids for _, ids in expected]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"train_on": "answers"}, "unknown train_on 'answers'; use assistant_turns, last_turn, all_tokens"),
        ({"train_on": "all_tokens", "assistant_only_loss": True}, "assistant_only_loss=True contradicts train_on="),
        ({"train_on": "last_turn", "assistant_only_loss": True}, "assistant_only_loss replaces train_on='last_turn'"),
    ],
)
def test_contradicting_masks_are_refused(tmp_path, arguments, message):
    with pytest.raises(ValueError, match=message):
        quiet_config(tmp_path, **arguments)


ASKED, ANSWERED = {"role": "user", "content": "w3 w4"}, {"role": "assistant", "content": "w5 w6"}
SHARED = [{"from": "human", "value": "w3"}, {"from": "gpt", "value": "w4"}] * 2
# A row of each format and its variants, as files and data sets on the Hub have them.
FORMATS: dict[str, dict[str, Any]] = {
    "alpaca": {"instruction": "w3", "input": "w4", "output": "w5"},
    "alpaca with turns before it": {"instruction": "w3", "output": "w5", "system": "w6", "history": [["w7", "w8"]]},
    "sharegpt": {"conversations": SHARED},
    "sharegpt with a system prompt": {"conversations": SHARED, "system": "w6", "id": "a"},
    "sharegpt by role": {"conversations": [ASKED, ANSWERED]},
    "messages": {"messages": [{"role": "system", "content": "w7"}, ASKED, ANSWERED, ASKED, ANSWERED, ASKED]},
    "UltraChat": {"prompt": "w3 w4", "prompt_id": "a", "messages": [ASKED, ANSWERED] * 2},
    "messages with text": {"messages": [ASKED, ANSWERED], "text": "w9", "source": "w9"},
    "prompt and completion of messages": {"prompt": [ASKED], "completion": [ANSWERED]},
    "completion of several turns": {"prompt": [ASKED, ANSWERED, ASKED], "completion": [ANSWERED, ASKED, ANSWERED]},
    "completion without an answer": {"prompt": [ASKED, ANSWERED, ASKED], "completion": [{**ANSWERED, "content": " "}]},
    "with template arguments": {"messages": [ASKED, ANSWERED], "chat_template_kwargs": {"loud": True}},
    "text": {"text": "w3 w4 w5"},
}


@pytest.mark.parametrize("train_on", ["assistant_turns", "last_turn", "all_tokens"])
def test_every_format_is_the_same_tokens_in_python_and_from_the_command(train_on, tmp_path):
    tokenizer = unmarked(chat_tokenizer())
    tokenizer.chat_template = "{% if loud %}w9 {% endif %}" + tokenizer.chat_template
    formats = set()
    for name, row in FORMATS.items():
        formats.add(detect_format(RawRow("r", 1, row)))
        rows = [row, json.loads(json.dumps(row).replace("w4", "w10 w11"))]
        if name != "completion without an answer":
            assert len(trained_alike(rows, tokenizer, tmp_path, train_on)) >= 2
            continue
        with pytest.raises(InputError, match="responses are empty"):
            load_rows(None, files=[write_jsonl(tmp_path / "rows.jsonl", rows)], train_on=train_on)
        with pytest.raises(InputError, match="train dataset: all 2 responses are empty"):
            make_trainer(tmp_path / "out", rows=Dataset.from_list(rows), tokenizer=tokenizer, train_on=train_on)
    assert formats == {*KEYS}


def test_columns_of_alpaca_and_text_are_ambiguous_and_others_are_named(tmp_path):
    both = Dataset.from_list([{**FORMATS["alpaca"], "text": "w3"}])
    with pytest.raises(InputError, match=r"^train dataset: has the columns of alpaca .* and text; remove those"):
        make_trainer(tmp_path, rows=both, tokenizer=chat_tokenizer())
    trainer = make_trainer(tmp_path, rows=both, tokenizer=chat_tokenizer(), dataset_text_field="output")
    assert trained_rows(trainer) == ["w5 </s>"]


def rejected(count: int, of: int) -> list[dict[str, Any]]:
    """Chats of which the template, which knows no thinking, rejects so many."""
    thinking = agentic_rows()[2]["messages"]
    return [{"messages": thinking if row < count else [ASKED, ANSWERED]} for row in range(of)]


@pytest.mark.parametrize("streamed", [False, True])
def test_the_template_may_reject_a_tenth_of_the_rows_of_a_data_set_or_stream(tmp_path, caplog, streamed):
    def labeled(rows, **arguments):
        tokenizer, given = unmarked(chat_tokenizer()), Dataset.from_list(rows)
        args = quiet_config(tmp_path, max_length=None, **arguments)
        given = given.to_iterable_dataset() if streamed else given
        return list(label_rows(given, tokenizer, args, "train", RowFolder(tmp_path)))

    with pytest.raises(InputError, match=r"rejects 108 of 120 rows; fix them, or set on_bad_row: skip to train"):
        labeled(rejected(108, 120))
    assert len(labeled(rejected(3, 40))) == 37
    assert "left out: 3 of the 40" in caplog.text if streamed else "3 of 40 rows that the chat" in caplog.text
    assert len(labeled(rejected(1000, 1010), on_bad_row="skip")) == 10
    with pytest.raises(InputError, match=r"^train dataset:0: .*does not render the thinking"):
        labeled(rejected(3, 40), on_bad_row="stop")
    odd = {"messages": [{**ASKED, "role": "robot"}, ANSWERED]}
    with pytest.raises(InputError, match=r"^train dataset, row 4: messages\[0\]\.role: unknown role 'robot'"):
        labeled([*rejected(0, 4), odd])


@pytest.mark.parametrize("streamed", [False, True])
def test_a_tokenizer_without_a_template_is_refused_and_not_a_row(tmp_path, streamed):
    rows = Dataset.from_list([{"messages": [ASKED, ANSWERED]}] * 5)
    with pytest.raises(InputError, match=r"^the tokenizer has no chat template; set chat_template_path, or"):
        list(make_trainer(tmp_path, rows=rows.to_iterable_dataset() if streamed else rows).train_dataset)
