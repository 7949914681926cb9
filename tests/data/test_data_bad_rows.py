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
    assert [problem.split(": ")[0] for problem in error.value.problems] == [f"{file}:{number}" for number in (2, 3, 4)]


def test_a_few_rejected_rows_are_left_out_and_many_stop(write):
    few = load_rows(None, files=[write("few.jsonl", [*[FINE] * 10, CALLS])])
    assert encoded(few).counts["rejected"] == 1
    many = load_rows(None, files=[write("many.jsonl", [*[FINE] * 8, CALLS])])
    with pytest.raises(InputErrors, match=r"rejects 1 of 9 rows; fix them, or set on_bad_row: skip"):
        encoded(many)
    assert encoded(many, "skip").counts["kept"] == 8
    with pytest.raises(InputError, match="does not render tool call 1"):
        encoded(load_rows(None, files=[write("all.jsonl", [CALLS])]), "skip")


def test_what_is_wrong_with_every_row_is_said_once(write):
    for count, others in ((50, range(2, 21)), (3, (2, 3))):
        rows = load_rows(None, files=[write("rows.jsonl", [CALLS] * count)])
        with pytest.raises(InputError, match="does not render tool call 1") as error:
            encode_rows(small_tokenizer(CHATML), rows, None)
        assert not isinstance(error.value, InputErrors)
        also = ", ".join(f"row {row}" for row in others)
        assert str(error.value).startswith(f"{rows.sources[0]}: ")
        assert str(error.value).endswith(f"(also {also}, …)" if count == 50 else f"(also {also})")
    with pytest.raises(InputError, match=r"^the tokenizer has no chat template; set data\.chat_template"):
        encode_rows(small_tokenizer(None), rows, None)


def test_malformed_rows_stop_together_or_are_left_out(write):
    file = write("rows.jsonl", [FINE, WRONG, FINE, {"messages": "hello"}])
    with pytest.raises(InputErrors) as error:
        load_rows(None, files=[file])
    assert [problem.split(": ")[0] for problem in error.value.problems] == [f"{file}, row {row}" for row in (2, 4)]
    rows = load_rows(None, files=[file], on_bad_row="skip")
    assert rows.counts == {"read": 4, "kept": 2, "empty": 0, "malformed": 2}
    assert rows.notes[0].startswith(f"left out: {file}, row 2: messages[1].role: unknown role 'robot'")


def test_a_turn_says_whether_it_is_trained_and_other_keys_are_named(write):
    turns = [
        USER,
        {"role": "assistant", "content": "one", "train": False},
        {**USER, "name": "Ann"},
        {"role": "assistant", "content": "two", "weight": 0},
        {**USER, "name": "Ann"},
        {"role": "assistant", "content": "three", "weight": 1},
    ]
    rows = load_rows(None, files=[write("rows.jsonl", [{"messages": turns}])])
    tokenizer = small_tokenizer(CHATML)
    found = encode_rows(tokenizer, rows, None).encoded[0]
    assert text_of(tokenizer, [label for label in found["labels"] if label != -100]) == "three<|im_end|>"
    assert rows.notes == [
        '2 answers with "train": false or "weight": 0: context, not trained on',
        "unused key name in 2 turns: not part of the text",
    ]
    half = write("half.jsonl", [{"messages": [USER, {"role": "assistant", "content": "x", "train": 0.5}]}])
    with pytest.raises(InputError, match=r"messages\[1\]\.train: must be true or false, 1 or 0"):
        load_rows(None, files=[half])


@pytest.mark.parametrize("place", ["tools", "call"])
def test_half_a_surrogate_pair_is_refused_wherever_it_is(place, write, tmp_path):
    broken = r'"\ud83d"'
    tools = f'[{{"type": "function", "function": {{"name": {broken}}}}}]' if place == "tools" else "null"
    call = f'[{{"function": {{"name": "add", "arguments": {{"a": {broken}}}}}}}]' if place == "call" else "null"
    file = tmp_path / "rows.jsonl"
    file.write_text(
        f'{{"tools": {tools}, "messages": [{{"role": "user", "content": "x"}}, '
        f'{{"role": "assistant", "content": "y", "tool_calls": {call}}}]}}\n'
    )
    with pytest.raises(InputError, match="has half a surrogate pair; write complete characters"):
        load_rows(None, files=[str(file)])


def test_answers_that_lose_their_end_token_are_counted_and_warned_about(write):
    rows = load_rows(None, files=[write("rows.jsonl", [FINE] * 200)])
    whole = encoded(rows)
    assert whole.notes == []
    length = whole.encoded[0]["length"]
    cut = encode_rows(small_tokenizer(CHATML), rows, length - 1)
    assert (cut.facts["ends"], cut.facts["cut"]) == (200, 200)
    assert cut.notes[0].startswith("warning: 200 of 200 answers lost the end token to max_length (100.0%)")
