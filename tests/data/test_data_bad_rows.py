"""Rows that cannot be trained on: which stop, which are left out, and what is said about them."""

from __future__ import annotations

from typing import Any

import pytest
from small_tokenizers import CHATML, small_tokenizer, text_of

from instruct.base.errors import InputError, InputErrors
from instruct.data.rows import RowSet, load_rows
from instruct.data.tokens import EncodedRows, encode_rows

USER = {"role": "user", "content": "Say hello"}
FINE = {"messages": [USER, {"role": "assistant", "content": "hello"}]}
CALL = {"type": "function", "function": {"name": "add", "arguments": {"a": 1}}}
CALLS = {"messages": [USER, {"role": "assistant", "content": None, "tool_calls": [CALL]}]}
THINKS = {"messages": [USER, {"role": "assistant", "content": "hello", "reasoning_content": "Hm."}]}
WRONG = {"messages": [USER, {"role": "robot", "content": "hello"}]}


def encoded(rows: RowSet, choice: Any = None) -> EncodedRows:
    return encode_rows(small_tokenizer(CHATML), rows, None, on_bad_row=choice)


def test_what_a_template_drops_is_not_trained(write):
    file = write("rows.jsonl", [FINE, CALLS, THINKS, {**FINE, "tools": [CALL]}])
    found = encoded(load_rows(None, files=[file]), "skip")
    assert found.counts == {"kept": 1, "truncated": 0, "empty": 0, "fully_masked": 0, "rejected": 3}
    reasons = ["render tool call 1 of an answer", "render the thinking of an answer", "render the row's tools"]
    for number, (note, reason) in enumerate(zip(found.notes[-3:], reasons, strict=True), start=2):
        assert note.startswith(f"left out: {file}:{number}: the tokenizer's chat template does not {reason}")
    with pytest.raises(InputErrors) as error:
        encoded(load_rows(None, files=[file]), "stop")
    assert len(error.value.problems) == 3


def test_malformed_rows_stop_together_or_are_left_out(write):
    file = write("rows.jsonl", [FINE, WRONG, FINE, {"messages": "hello"}])
    with pytest.raises(InputErrors) as error:
        load_rows(None, files=[file])
    assert [problem.split(": ")[0] for problem in error.value.problems] == [f"{file}, row {row}" for row in (2, 4)]
    rows = load_rows(None, files=[file], on_bad_row="skip")
    assert rows.counts == {"read": 4, "kept": 2, "empty": 0, "malformed": 2}
    assert rows.notes[0].startswith(f"left out: {file}, row 2: messages[1].role: unknown role 'robot'")


def test_a_turn_says_whether_it_is_trained_and_other_keys_are_named(write):
    answers = [
        {"role": "assistant", "content": "one", **more} for more in ({"train": False}, {"weight": 0}, {"weight": 1})
    ]
    turns = [turn for answer in answers for turn in ({**USER, "name": "Ann"}, answer)]
    rows = load_rows(None, files=[write("rows.jsonl", [{"messages": turns}])])
    tokenizer = small_tokenizer(CHATML)
    found = encode_rows(tokenizer, rows, None).encoded[0]
    assert text_of(tokenizer, [label for label in found["labels"] if label != -100]) == "one<|im_end|>"
    assert rows.notes == [
        '2 answers with "train": false or "weight": 0: context, not trained on',
        "unused key name in 3 turns: not part of the text",
    ]
    half = write("half.jsonl", [{"messages": [USER, {"role": "assistant", "content": "x", "train": 0.5}]}])
    with pytest.raises(InputError, match=r"messages\[1\]\.train: must be true or false, 1 or 0"):
        load_rows(None, files=[half])
