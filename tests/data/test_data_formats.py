"""Each format, rendered with each template, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

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
    row = {"instruction": "Add.", "input": "1, 2", "output": "3"}
    assert to_row(RawRow("f", 1, row), "alpaca", "alpaca") == {"prompt": WITH_INPUT, "completion": "3"}
    assert to_row(RawRow("f", 1, row), "alpaca", "chat") == {
        "prompt": user("Add.\n\n1, 2"),
        "completion": assistant("3"),
    }


@given(st.text(), st.text(min_size=1))
@example("Fill {input} and {instruction}", "{instruction}")
def test_text_is_inserted_verbatim_into_the_alpaca_prompt(instruction, input):
    template = WITH_INPUT.replace("Add.", "\0").replace("1, 2", "\1")
    assert alpaca_prompt(instruction, input) == "".join(
        {"\0": instruction, "\1": input}.get(part, part) for part in template
    )


def test_every_answer_of_a_chat_is_kept_or_the_last_one_is_the_completion():
    turns = [("system", "Be brief."), ("human", "One?"), ("gpt", "1"), ("user", "Two?"), ("assistant", "2")]
    row = {"conversations": [{"from": role, "value": text, "weight": 1} for role, text in [*turns, ("user", "Thanks")]]}
    chat = [SYSTEM, *user("One?"), *assistant("1"), *user("Two?"), *assistant("2")]
    assert to_row(RawRow("f", 1, row), "sharegpt", "chat") == {"messages": chat}
    last = {"prompt": chat[:-1], "completion": chat[-1:]}
    assert to_row(RawRow("f", 1, row), "sharegpt", "chat", "last_turn") == last


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
    for history in ("x", [["One?"]]):
        with pytest.raises(InputError, match=r"f, row 1: history"):
            to_row(RawRow("f", 1, {**row, "history": history}), "alpaca", "chat")


def test_a_sharegpt_rows_own_system_prompt_and_tools_are_read():
    turns = [{"from": "human", "value": "One?"}, {"from": "gpt", "value": "1"}]
    tools = [{"type": "function", "function": {"name": "add"}}]
    row = {"conversations": turns, "system": "Be brief.", "tools": json.dumps(tools)}
    found = to_row(RawRow("f", 1, row), "sharegpt", "chat")
    assert found == {"prompt": [SYSTEM, *user("One?")], "completion": assistant("1"), "tools": tools}
    twice = {"conversations": [{"from": "system", "value": "Its own."}, *turns], "system": "Be brief."}
    assert to_row(RawRow("f", 1, twice), "sharegpt", "chat")["prompt"][0]["content"] == "Its own."


@pytest.mark.parametrize(
    ("format", "row"),
    [
        ("alpaca", {"instruction": "Go.", "output": " \n\t"}),
        ("alpaca", {"instruction": "Go.", "output": None}),
        ("sharegpt", {"conversations": [{"from": "human", "value": "Anyone?"}]}),
        ("messages", {"messages": [*user("Anyone?"), {"role": "assistant", "content": None}]}),
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
    ({"instruction": "Go.", "output": 1.5}, "alpaca", "output: must be text (given: 1.5); write a string"),
    (
        {"instruction": "\ud800", "output": "ok"},
        "alpaca",
        "instruction: has half a surrogate pair; write complete char",
    ),
    ({"conversations": "hi"}, "sharegpt", "conversations: must be a list of turns (given: 'hi')"),
    ({"conversations": ["hi"]}, "sharegpt", "conversations[0]: must be a mapping with from and value (given: 'hi')"),
    ({"conversations": [{"name": "user"}]}, "sharegpt", "conversations[0]: no key 'from' (keys: name); rename the key"),
    (
        {"conversations": [{"from": "bot", "value": "x"}]},
        "sharegpt",
        "conversations[0].from: unknown role 'bot'; known are human, user, gpt, assistant, system",
    ),
    (
        {"messages": [{"role": "critic", "content": "x"}]},
        "messages",
        "messages[0].role: unknown role 'critic'; known are system, developer, user, assistant, tool",
    ),
    (
        {"messages": [*user("x"), {"role": "assistant", "tool_calls": "add(1)"}]},
        "messages",
        "messages[1].tool_calls: must be a list of mappings (given: 'add(1)')",
    ),
    ({"messages": assistant("y"), "tools": ["add"]}, "messages", "tools: must be a list of mappings (given: ['add'])"),
    (
        {"messages": [*user("x"), *assistant("y")], "tools": "{"},
        "messages",
        "tools: is not JSON ('{'); write a list of mappings",
    ),
    (
        {"messages": [{"role": "user", "content": [{"type": "image_url"}]}, *assistant("x")]},
        "messages",
        "messages[0].content: has a part of type 'image_url'; only text is trained on here (EMOTrainer takes pictures, "
        "as TRL); remove the row, or set on_bad_row: skip",
    ),
    (
        {"messages": [*user("x"), *assistant("y")], "images": ["a.png"]},
        "messages",
        "images: only text is trained on here (EMOTrainer takes pictures, as TRL); remove the row, or set "
        "on_bad_row: skip",
    ),
    ({"messages": assistant("x")}, "messages", "no turn before the answer; remove the row"),
    (
        {"prompt": "Go.", "completion": user("x")},
        "prompt_completion",
        "completion: has no assistant message; move its turns to the prompt",
    ),
]


@pytest.mark.parametrize(("row", "format", "message"), REFUSED)
def test_an_invalid_row_is_refused_in_one_line(row, format, message):
    with pytest.raises(InputError) as error:
        to_row(RawRow("my.jsonl", 12, row), format, "chat")
    assert str(error.value).startswith(f"my.jsonl, row 12: {message}")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("format", SAME_ROW)
def test_columns_of_text_that_a_format_does_not_read_are_named_with_their_share(format, write):
    beside = [{"topic": "history", "empty": " ", "number": 3}, {"topic": None, "tags": [{"a": "b"}]}]
    read = load_rows(None, files=[write("rows.jsonl", [SAME_ROW[format] | more for more in beside])])
    assert read.notes == ["columns with text that is not trained on: topic (50% of the rows), tags (50% of the rows)"]


def test_columns_that_match_no_format_are_listed():
    with pytest.raises(InputError, match=r"row 1: columns question, answer match no format \(alpaca: instruction, "):
        detect_format(RawRow("my.jsonl", 1, {"question": "a", "answer": "b"}))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["from", "value", "role", "content", "messages", "conversations", "prompt", "completion"]),
            inner | st.sampled_from(["user", "assistant", "gpt"]),
            max_size=3,
        )
    ),
    max_leaves=12,
)


@given(
    st.dictionaries(
        st.sampled_from(["instruction", "input", "output", "messages", "conversations", "prompt", "completion"]), JSON
    ),
    st.sampled_from(list(SAME_ROW)),
    st.sampled_from(["alpaca", "chat"]),
)
def test_any_row_gives_text_or_a_one_line_error(fields, format, template):
    try:
        row = to_row(RawRow("my.jsonl", 1, fields), format, template)
    except InputError as error:
        row, message = None, str(error)
        assert (message[:17], len(message.splitlines())) == ("my.jsonl, row 1: ", 1)
    if row is None:
        return
    if template == "alpaca":
        assert isinstance(row["prompt"], str)
        assert row["completion"].strip()
    elif "messages" in row:
        assert sum(message["role"] == "assistant" for message in row["messages"]) > 1
        assert row["messages"][-1]["role"] == "assistant"
    else:
        assert {type(message["content"]) for message in row["prompt"]} == {str}
        assert [message["role"] for message in row["completion"]] == ["assistant"]
    json.dumps(row).encode()
