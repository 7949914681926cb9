"""What EMOTrainer trains on of a chat: every assistant turn with its end token, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import trl
from datasets import Dataset
from json_files import write_json
from tiny import chat_tokenizer, conversations, make_trainer, quiet_config, tiny_tokenizer
from tokenizers.processors import TemplateProcessing
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


def test_columns_that_are_not_read_and_a_doubled_begin_are_said_once(tmp_path, capsys, caplog):
    tokenizer = chat_tokenizer()
    begin = [("<s>", tokenizer.bos_token_id)]
    tokenizer._tokenizer.post_processor = TemplateProcessing(single="<s> $A", special_tokens=begin)
    tokenizer.chat_template = "{{ bos_token }}<s>" + tokenizer.chat_template
    rows = [dict(row) | {"system": "w1"} for row in conversations()]
    make_trainer(tmp_path, rows=Dataset.from_list(rows), tokenizer=tokenizer)
    said = capsys.readouterr().err + caplog.text
    assert said.count("columns with text that is not trained on: system (100% of the rows)") == 1
    assert said.count(f"train dataset: warning: {len(rows)} rows with the token that") == 1


def call(**arguments):
    return {"type": "function", "function": {"name": "add", "arguments": arguments}}


def agentic_rows():
    """Chats as users have them: calls without text, thinking under two names, turns that are not trained."""
    asked = {"role": "user", "content": "w1"}
    answers = [
        [
            {"role": "assistant", "content": None, "tool_calls": [call(w2="w3")]},
            {"role": "tool", "name": "add", "content": "w3"},
            {"role": "assistant", "content": "w4"},
        ],
        [{"role": "assistant", "content": "w7", "reasoning_content": "w8"}],
        [{"role": "assistant", "content": "w7", "thinking": "w10"}],
        [{"role": "assistant", "content": "w7", "train": False}, asked, {"role": "assistant", "content": "w11"}],
        [{"role": "assistant", "content": "w7", "weight": 0}, asked, {"role": "assistant", "content": "w12"}],
        [{"role": "assistant", "content": "w4", "tool_calls": [call(w2="w3", w5="w6", w15=None)]}],
    ]
    return [{"messages": [asked, *turns]} for turns in answers]


def trained_alike(rows, tokenizer, folder, train_on="assistant_turns") -> list[tuple[list[int], list[int]]]:
    """Labels and ids of rows, which a file, a data set in Python and a stream give alike."""
    file = str(write_json(folder / "rows.jsonl", rows))
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


def test_a_file_and_a_data_set_in_python_are_trained_alike(tmp_path):
    tokenizer = tiny_tokenizer()
    tokenizer.add_tokens(["<|im_end|>"], special_tokens=True)
    tokenizer.chat_template = (Path(trl.__file__).parent / "chat_templates" / "qwen3_5_think.jinja").read_text()
    trained_alike(agentic_rows(), tokenizer, tmp_path)


ASKED, ANSWERED = {"role": "user", "content": "w3 w4"}, {"role": "assistant", "content": "w5 w6"}
SHARED = [{"from": "human", "value": "w3"}, {"from": "gpt", "value": "w4"}] * 2
# A row of each format and its variants, as files and data sets on the Hub have them.
FORMATS: list[dict[str, Any]] = [
    {"instruction": "w3", "input": "w4", "output": "w5"},
    {"instruction": "w3", "output": "w5", "system": "w6", "history": [["w7", "w8"]]},
    {"conversations": SHARED},
    {"conversations": [ASKED, ANSWERED]},
    {"messages": [{"role": "system", "content": "w7"}, ASKED, ANSWERED, ASKED, ANSWERED, ASKED]},
    {"prompt": "w3 w4", "prompt_id": "a", "messages": [ASKED, ANSWERED] * 2},
    {"prompt": [ASKED, ANSWERED, ASKED], "completion": [ANSWERED, ASKED, ANSWERED]},
    {"messages": [ASKED, ANSWERED], "chat_template_kwargs": {"loud": True}},
    {"text": "w3 w4 w5"},
]


@pytest.mark.parametrize("train_on", ["assistant_turns", "last_turn"])
def test_every_format_is_the_same_tokens_in_python_and_from_the_command(train_on, tmp_path):
    tokenizer = unmarked(chat_tokenizer())
    tokenizer.chat_template = "{% if loud %}w9 {% endif %}" + tokenizer.chat_template
    formats = set()
    for row in FORMATS:
        formats.add(detect_format(RawRow("r", 1, row)))
        rows = [row, json.loads(json.dumps(row).replace("w4", "w10 w11"))]
        assert len(trained_alike(rows, tokenizer, tmp_path, train_on)) >= 2
    assert formats == {*KEYS}


def rejected(count: int, of: int) -> list[dict[str, Any]]:
    """Chats of which the template, which knows no thinking, rejects so many."""
    thinking = agentic_rows()[1]["messages"]
    return [{"messages": thinking if row < count else [ASKED, ANSWERED]} for row in range(of)]


def test_the_template_may_reject_a_tenth_of_the_rows_of_a_data_set(tmp_path, caplog):
    def labeled(rows, **arguments):
        args = quiet_config(tmp_path, max_length=None, **arguments)
        return label_rows(Dataset.from_list(rows), unmarked(chat_tokenizer()), args, "train", RowFolder(tmp_path))

    with pytest.raises(InputError, match=r"rejects 108 of 120 rows; fix them, or set on_bad_row: skip to train"):
        labeled(rejected(108, 120))
    assert len(labeled(rejected(3, 40))) == 37
    assert "3 of 40 rows that the chat" in caplog.text
    with pytest.raises(InputError, match=r"^train dataset:0: .*does not render the thinking"):
        labeled(rejected(3, 40), on_bad_row="stop")
