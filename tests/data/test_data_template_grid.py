"""What is trained with every chat template that TRL ships, against replies written by hand (template_replies.py)."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import trl
from row_sets import row_set
from small_tokenizers import small_tokenizer, text_of
from template_replies import REPLIES, Call

from instruct.data.formats import to_row
from instruct.data.sources import RawRow
from instruct.data.templates import Rendering
from instruct.data.tokens import EncodedRows, encode_rows

FOLDER = Path(trl.__file__).parent / "chat_templates"
NAMES = sorted(file.stem for file in FOLDER.glob("*.jinja") if not file.stem.endswith("_training"))
# Cells that may not be trained, each with the reason; a test fails if there are others.
REFUSED: dict[str, dict[str, str]] = json.loads((Path(__file__).parent / "refused_cells.json").read_text())
PAGE = Path(__file__).parents[2] / "docs" / "training.md"
BEGIN, END = "<!-- written by python tests/data/test_data_template_grid.py -->\n", "<!-- end -->\n"


@dataclass(frozen=True)
class Turn:
    role: str
    text: str
    thinking: str | None = None
    calls: list[Call] = field(default_factory=list)
    inline: bool = False
    train: bool = True

    def given(self) -> dict[str, Any]:
        """The turn as a user's file has it."""
        inline = f"<think>\n{self.thinking}\n</think>\n\n" if self.inline else ""
        message: dict[str, Any] = {"role": self.role, "content": inline + self.text}
        if self.thinking is not None and not self.inline:
            message["reasoning_content"] = self.thinking
        if self.calls:
            message["tool_calls"] = calls_of(self)
        if self.role == "tool":
            message |= {"name": "add", "tool_call_id": "c0"}
        if not self.train:
            message["weight"] = 0.0
        return message

    def as_read(self, name: str) -> dict[str, Any]:
        """The turn as the template's model card says it is written."""
        spec = REPLIES[name]
        message = {key: value for key, value in self.given().items() if key not in ("train", "reasoning_content")}
        message["content"] = self.text if spec.thought else message["content"]
        if spec.parts:
            message["content"] = [{"type": "text", "text": message["content"]}]
        if self.thinking is not None and spec.thought:
            message[spec.key] = self.thinking
        if self.calls and name == "deepseekv3":
            message["tool_calls"] = [
                {**call, "function": {**call["function"], "arguments": json.dumps(call["function"]["arguments"])}}
                for call in message["tool_calls"]
            ]
        return message


def calls_of(turn: Turn) -> list[dict[str, Any]]:
    return [
        {"type": "function", "id": f"c{number}", "function": {"name": "add", "arguments": call}}
        for number, call in enumerate(turn.calls)
    ]


def user(text: str) -> Turn:
    return Turn("user", text)


def answer(text: str, thinking: str | None = None, *calls: Call, **more: Any) -> Turn:
    return Turn("assistant", text, thinking, list(calls), **more)


ONE, TWO, RESULT = {"a": 1, "b": 2}, {"a": 3, "b": 4}, Turn("tool", "3")
CELLS: dict[str, list[Turn]] = {
    "single turn": [user("One?"), answer("It is 1.")],
    "several turns": [user("One?"), answer("It is 1."), user("Two?"), answer("It is 2."), user("3?"), answer("3.")],
    "system turn": [Turn("system", "Be brief."), user("One?"), answer("It is 1.")],
    "thinking": [user("One?"), answer("It is 1.", "Hm, one.")],
    "thinking in the text": [user("One?"), answer("It is 1.", "Hm, one.", inline=True)],
    "thinking, several turns": [user("One?"), answer("It is 1.", "Hm."), user("Two?"), answer("It is 2.", "Hm, two.")],
    "one of two thinks": [user("One?"), answer("It is 1.", "Hm."), user("Two?"), answer("It is 2.")],
    "tool call": [user("1+2?"), answer("", None, ONE), RESULT, answer("It is 3.")],
    "two tool calls": [user("1+2?"), answer("", None, ONE, TWO)],
    "text beside a call": [user("1+2?"), answer("I add.", None, ONE)],
    "thinking and a call": [user("1+2?"), answer("", "Hm, add.", ONE), RESULT, answer("It is 3.", "Hm, three.")],
    "empty answer": [user("One?"), answer(""), user("Two?"), answer("It is 2.")],
    "white space": [user("One?"), answer("\n  It is 1. \n")],
    "unicode": [user("Größe 🙂?"), answer("Grün 🙂 日本\u2028e\u0301")],
    "train: false": [user("One?"), answer("It is 1.", train=False), user("Two?"), answer("It is 2.")],
    "two answers": [user("One?"), answer("It is 1."), answer("It is one.")],
}
PROPERTIES = {name: {"type": "integer", "description": name} for name in "ab"}
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "add",
            "description": "Adds.",
            "parameters": {"type": "object", "properties": PROPERTIES, "required": ["a", "b"]},
        },
    }
]


def tokenizer_of(name: str) -> Any:
    template = (FOLDER / f"{name}.jinja").read_text()
    tokenizer = small_tokenizer(template)
    spec = REPLIES[name]
    ends = re.findall(r"<[^<>\s]+>", spec.end + (spec.call_end or ""))
    tokenizer.add_tokens(ends, special_tokens=True)
    return tokenizer


def encoded(name: str, rendering: Rendering, max_length: int | None = None) -> tuple[EncodedRows, list[str]]:
    """All cells as one data set; those that were refused."""
    rows = []
    for turns in CELLS.values():
        tools = TOOLS if any(turn.calls for turn in turns) else None
        raw = RawRow("r", 1, {"messages": [turn.given() for turn in turns], "tools": tools})
        rows.append(to_row(raw, "messages", "chat"))
    found = encode_rows(tokenizer_of(name), row_set(*rows), max_length, "assistant_turns", rendering, "skip")
    cells = list(CELLS)
    return found, [cells[int(problem.split(":")[1]) - 1] for problem in found.bad]


def expected(name: str, cell: str, empty_thinking: bool) -> list[tuple[str, str]]:
    """The prompt and the reply of each answer of a cell."""
    turns, tokenizer, spec = CELLS[cell], tokenizer_of(name), REPLIES[name]
    tools = TOOLS if any(turn.calls for turn in turns) else None
    if turns[0].role == "system" and not spec.system:
        turns = [Turn("user", f"{turns[0].text}\n\n{turns[1].text}"), *turns[2:]]
    messages = [turn.as_read(name) for turn in turns]
    pairs = []
    for index, turn in enumerate(turns):
        if turn.role != "assistant" or not turn.train or not (turn.text or turn.calls):
            continue
        thinks = turn.thinking is not None and spec.thought is not None
        mode = {"enable_thinking": thinks or empty_thinking}
        prompt = tokenizer.apply_chat_template(
            messages[:index], tools=tools, add_generation_prompt=True, tokenize=False, **mode
        )
        thinking = turn.thinking if thinks else "" if empty_thinking and prompt.endswith("<think>\n") else None
        text = turn.text if thinks or not turn.inline else turn.given()["content"]
        pairs.append((prompt, spec.reply(text, thinking, turn.calls, prompt)))
    return pairs


def fewest_rows(pairs: list[tuple[str, str]]) -> int:
    """The fewest texts with every prompt followed by its reply, by trying which answer follows which."""
    texts = [prompt + reply for prompt, reply in pairs]
    follows = [[None, *(j for j in range(i) if prompt.startswith(texts[j]))] for i, (prompt, _) in enumerate(pairs)]
    return min(
        choice.count(None)
        for choice in itertools.product(*follows)
        if len({j for j in choice if j is not None}) == len(choice) - choice.count(None)
    )


def spans(tokenizer: Any, row: dict[str, Any]) -> list[tuple[str, str]]:
    """What is trained in a row, each with all the text before it."""
    trained = [label != -100 for label in row["labels"]]
    ids, pairs, done = row["input_ids"], [], 0
    for on, group in itertools.groupby(trained):
        size = len(list(group))
        if on:
            pairs.append((text_of(tokenizer, ids[:done]), text_of(tokenizer, ids[done : done + size])))
        done += size
    assert row["input_ids"] == [a if b == -100 else b for a, b in zip(ids, row["labels"], strict=True)]
    return pairs


def check_template(name: str, empty_thinking: bool = False) -> list[str]:
    """Compare every cell that is trained; the cells that are refused."""
    found, refused = encoded(name, Rendering(empty_thinking=empty_thinking))
    tokenizer = tokenizer_of(name)
    for number, cell in enumerate(CELLS, start=1):
        if cell in refused:
            continue
        rows = [row for row in found.encoded if row["place"] == f"r:{number}"]
        pairs = expected(name, cell, empty_thinking)
        assert sorted(pair for row in rows for pair in spans(tokenizer, row)) == sorted(pairs), (name, cell)
        assert len(rows) == fewest_rows(pairs), (name, cell)
    return refused


@pytest.mark.parametrize("name", NAMES)
def test_each_answer_is_trained_after_the_prompt_of_a_server(name):
    assert name in REPLIES, "TRL has a new template: write down what its model replies"
    assert check_template(name) == [cell for cell in CELLS if cell in REFUSED.get(name, {})]


@pytest.mark.parametrize("name", ["deepseek_r1_distill", "deepseekv3", "qwen3_5_think"])
def test_empty_thoughts_are_trained_if_asked_for(name):
    refused = check_template(name, empty_thinking=True)
    reasons = REFUSED.get(name, {})
    assert refused == [cell for cell in CELLS if cell in reasons and "empty_thinking" not in reasons[cell]]


GROUPS = {
    "all thinking": ["thinking", "thinking, several turns", "one of two thinks"],
    "all tool calls": ["tool call", "two tool calls", "text beside a call", "thinking and a call"],
    "all without thinking*": [
        *("single turn*", "several turns*", "system turn*", "one of two thinks*", "empty answer*", "white space*"),
        *("unicode*", "train: false*", "two answers*"),
    ],
}


def grouped(cells: list[str]) -> str:
    """The cells' names, or the name of a group whose cells are all there."""
    names = list(cells)
    for group, members in GROUPS.items():
        if set(members) <= set(cells):
            names = [group, *(name for name in names if name not in members)]
    return "; ".join(names)


def table() -> str:
    """The cells that templates refuse; alike templates together."""
    lines: dict[str, list[str]] = {}
    for name, cells in sorted(REFUSED.items()):
        refused = [f"{cell}*" if reason.startswith("empty_thinking") else cell for cell, reason in cells.items()]
        lines.setdefault(grouped(refused), []).append(name)
    head = "| templates | refused |\n|---|---|\n"
    return head + "".join(f"| {', '.join(names)} | {cells} |\n" for cells, names in lines.items())


def test_the_page_has_the_table():
    page = PAGE.read_text(encoding="utf-8")
    assert page.split(BEGIN)[1].split(END)[0] == table(), f"run python {Path(__file__).relative_to(PAGE.parents[1])}"


if __name__ == "__main__":
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    PAGE.write_text(before + BEGIN + table() + END + rest.partition(END)[2], encoding="utf-8")
