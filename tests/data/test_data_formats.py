"""Each format, rendered with each template, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from instruct.base.errors import InputError
from instruct.data.formats import alpaca_prompt, detect_format, to_row
from instruct.data.rows import load_rows
from instruct.data.sources import RawRow

Write = Callable[[str, Any], str]

WITH_INPUT = """\
Below is an instruction that describes a task, paired with an input that provides further context. \
Write a response that appropriately completes the request.

### Instruction:
Add.

### Input:
1, 2

### Response:"""
WITHOUT_INPUT = """\
Below is an instruction that describes a task. Write a response that appropriately completes the request.

### Instruction:
Add 1 and 2.

### Response:"""


def user(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def assistant(text: str) -> list[dict[str, str]]:
    return [{"role": "assistant", "content": text}]


ADD_CHAT = {"prompt": user("Add 1 and 2."), "completion": assistant("3")}
SAME_ROW: dict[str, dict[str, Any]] = {
    "alpaca": {"instruction": "Add 1 and 2.", "input": "", "output": "3"},
    "sharegpt": {"conversations": [{"from": "human", "value": "Add 1 and 2."}, {"from": "gpt", "value": "3"}]},
    "messages": {"messages": [*user("Add 1 and 2."), *assistant("3")]},
    "prompt_completion": {"prompt": "Add 1 and 2.", "completion": "3"},
}


@pytest.mark.parametrize("format", SAME_ROW)
def test_every_format_gives_the_same_row(format, write):
    assert detect_format(RawRow("f", 1, SAME_ROW[format])) == format
    file = write("rows.jsonl", [SAME_ROW[format]])
    assert list(load_rows(None, files=[file]).rows) == [ADD_CHAT]
    plain = load_rows(None, files=[file], template="alpaca")
    assert list(plain.rows) == [{"prompt": WITHOUT_INPUT, "completion": "3"}]


def test_the_prompts_equal_stanford_alpacas():
    assert alpaca_prompt("Add.", "1, 2") == WITH_INPUT
    assert alpaca_prompt("Add 1 and 2.") == WITHOUT_INPUT
    verbatim = WITH_INPUT.replace("1, 2", "{instruction}").replace("Add.", "Fill {input}.")
    assert alpaca_prompt("Fill {input}.", "{instruction}") == verbatim
    row = {"instruction": "Add.", "input": "1, 2", "output": "3"}
    assert to_row(RawRow("f", 1, row), "alpaca", "alpaca") == {"prompt": WITH_INPUT, "completion": "3"}
    assert to_row(RawRow("f", 1, row), "alpaca", "chat") == {
        "prompt": user("Add.\n\n1, 2"),
        "completion": assistant("3"),
    }


SYSTEM = {"role": "system", "content": "Be brief."}


def test_the_columns_of_llama_factorys_alpaca_rows_are_turns():
    row = {"instruction": "Two?", "input": "", "output": "2", "system": "Be brief.", "history": [["One?", "1"]]}
    chat = [SYSTEM, *user("One?"), *assistant("1"), *user("Two?"), *assistant("2")]
    assert to_row(RawRow("f", 1, row), "alpaca", "chat") == {"messages": chat}
    empty = {**row, "history": None, "system": " "}
    assert to_row(RawRow("f", 1, empty), "alpaca", "chat") == {"prompt": user("Two?"), "completion": assistant("2")}
    with pytest.raises(
        InputError, match=r"row 1: the turns .* \(system, user, assistant, user\) do not fit the alpaca template"
    ):
        to_row(RawRow("f", 1, row), "alpaca", "alpaca")


@pytest.mark.parametrize(
    ("format", "row"),
    [
        ("alpaca", {"instruction": "Go.", "output": " \n\t"}),
        ("sharegpt", {"conversations": [{"from": "human", "value": "Anyone?"}]}),
        ("prompt_completion", {"prompt": user("Go."), "completion": assistant(" ")}),
    ],
)
def test_a_row_without_a_response_is_counted_and_left_out(format, row, write):
    assert to_row(RawRow("f", 1, row), format, "chat") is None  # type: ignore[arg-type]
    file = write("rows.jsonl", [SAME_ROW[format], row, SAME_ROW[format]])
    found = load_rows(None, files=[file])
    assert found.counts == {"read": 3, "kept": 2, "empty": 1}
    assert list(found.sources) == [f"{file}:1", f"{file}:3"]
    with pytest.raises(InputError, match=r"empty.jsonl: all 2 responses are empty; fill them in or give other files$"):
        load_rows(None, files=[write("empty.jsonl", [SAME_ROW[format] | row] * 2)])


REFUSED = [
    (
        {"instructions": "Go.", "input": "", "output": "ok"},
        "alpaca",
        "no column 'instruction' (columns: instructions, input, output); "
        "rename the column, or name the format in a data card",
    ),
    (
        {"conversations": [{"from": "bot", "value": "x"}]},
        "sharegpt",
        "conversations[0].from: unknown role 'bot'; known are human, user, gpt, assistant, system",
    ),
    (
        {"messages": [{"role": "user", "content": [{"type": "image_url"}]}, *assistant("x")]},
        "messages",
        "messages[0].content: has a part of type 'image_url'; only text is trained on here (EMOTrainer takes pictures, "
        "as TRL); remove the row, or set on_bad_row: skip",
    ),
]


@pytest.mark.parametrize(("row", "format", "message"), REFUSED)
def test_an_invalid_row_is_refused_in_one_line(row, format, message):
    with pytest.raises(InputError) as error:
        to_row(RawRow("my.jsonl", 12, row), format, "chat")
    assert str(error.value).startswith(f"my.jsonl, row 12: {message}")
    assert "\n" not in str(error.value)


def test_columns_of_text_that_a_format_does_not_read_are_named_with_their_share(write):
    beside = [{"topic": "history", "empty": " ", "number": 3}, {"topic": None, "tags": [{"a": "b"}]}]
    read = load_rows(None, files=[write("rows.jsonl", [SAME_ROW["alpaca"] | more for more in beside])])
    assert read.notes == ["columns with text that is not trained on: topic (50% of the rows), tags (50% of the rows)"]
