"""Ten chats as people have them today: tools, Japanese, thinking, an emoji; previewed, trained and asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import trl
from transformers import AutoTokenizer

pytestmark = pytest.mark.slow

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "The weather of a city.",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        },
    }
]


def user_turn(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def answer(text: str | None, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **more}


def call(city: str) -> dict[str, Any]:
    function = {"name": "weather", "arguments": json.dumps({"city": city})}
    return {"tool_calls": [{"id": "call_1", "type": "function", "function": function}]}


CHATS: list[list[dict[str, Any]]] = [
    [
        user_turn("Is it raining in Oslo?"),
        answer(None, **call("Oslo")),
        {"role": "tool", "tool_call_id": "call_1", "name": "weather", "content": "rain, 4 C"},
        answer("Yes, it is raining in Oslo, at 4 degrees."),
    ],
    [user_turn("大阪は雨ですか。"), answer(None, **call("大阪"))],
    [user_turn("What is 17 times 3?"), answer("51.", reasoning_content="30 plus 21.")],
    [
        user_turn("Is 91 prime?"),
        answer("No: 7 times 13.", reasoning_content="7 times 13 is 91."),
        user_turn("And 97?"),
        answer("Yes, 97 is prime.", reasoning_content="Not divisible by 2, 3, 5 or 7."),
    ],
    [{"role": "system", "content": "Answer in one word."}, user_turn("Capital of Norway?"), answer("Oslo.")],
    [user_turn("Name a color."), answer("Blue."), user_turn("Another?"), answer("Green.")],
    [user_turn("An emoji for rain?"), answer("🌧️")],
    [user_turn("日本語で挨拶してください。"), answer("こんにちは。")],
    [user_turn("Repeat: a  b"), answer("a  b\n")],
    [user_turn("One line on snow."), answer("Snow keeps the quiet.", reasoning_content="Short, about silence.")],
]
CONFIG = """\
name: mine
model: {{name: {model}, dtype: float32}}
data: {{files: chats.jsonl, template: chat, on_bad_row: skip}}
lora: {{r: 2}}
train: {{max_steps: 5, per_device_train_batch_size: 2, report_to: none}}
systems:
  base: {{objective: none}}
  emo: {{objective: emo}}
answers:
  files: questions.txt
  generation: {{engine: transformers, max_new_tokens: 24}}
judges: smollm2_score
comparisons: [[emo, base]]
"""


def asked(tokenizer: Any, turns: list[dict[str, Any]], tools: Any, thinks: bool) -> str:
    """The prompt after these turns, by the tokenizer's own template."""
    messages = json.loads(json.dumps(turns))
    for function in (each["function"] for turn in messages for each in turn.get("tool_calls", [])):
        function["arguments"] = json.loads(function["arguments"])
    return str(
        tokenizer.apply_chat_template(
            messages, tools=tools, add_generation_prompt=True, tokenize=False, enable_thinking=thinks
        )
    )


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "template", [None, *(pytest.param(name, marks=pytest.mark.full) for name in ("qwen3", "qwen3_5_think"))]
)
def test_chats_of_today_are_trained_as_they_are_asked(user, says, smollm2, template):
    tools = [TOOLS if any("tool_calls" in turn for turn in chat) else None for chat in CHATS]
    rows = [{"messages": chat} | ({"tools": own} if own else {}) for chat, own in zip(CHATS, tools, strict=True)]
    user.writes("chats.jsonl", rows)
    questions = ["大阪は雪ですか。", "What is 12 times 4?"]
    user.writes("questions.txt", "\n".join(questions))
    user.writes("mine.yaml", CONFIG.format(model=smollm2))
    flags = ["--data.chat_template", template] if template else []
    tokenizer = AutoTokenizer.from_pretrained(smollm2)
    if template:
        tokenizer.chat_template = (Path(trl.__file__).parent / "chat_templates" / f"{template}.jinja").read_text()
    else:
        shown = user.types("preview", "mine.yaml", "--data.on_bad_row", "stop", code=2)
        says(
            shown, "chats.jsonl:1: the tokenizer's chat template does not render tool call 1 of an answer; fix the row"
        )
        says(shown, "chats.jsonl:10: the tokenizer's chat template does not render the thinking of an answer")

    # The preview: every answer that the template renders is trained on, after the prompt that asks for it.
    prompts = [
        (asked(tokenizer, chat[:place], own, "reasoning_content" in turn), turn)
        for chat, own in zip(CHATS, tools, strict=True)
        for place, turn in enumerate(chat)
        if turn["role"] == "assistant" and (template or not {"tool_calls", "reasoning_content"} & {*chat[1], *chat[-1]})
    ]
    preview = user.types("preview", "mine.yaml", "--rows", "20", "--json", *flags)
    found = json.loads(preview[preview.index("{\n") : preview.rindex("\n}") + 2])
    trained = []
    for row in found["rows"]:
        before = ""
        for part in row["parts"]:
            if part["trained_on"]:
                trained.append((before, part["text"]))
            before += part["text"]
    assert sorted(before for before, _ in trained) == sorted(prompt for prompt, _ in prompts)
    for (prompt, turn), (_, reply) in zip(sorted(prompts, key=lambda pair: pair[0]), sorted(trained), strict=True):
        text = (turn["content"] or "").strip()  # a template may strip white space
        assert reply.removesuffix("<|im_end|>").rstrip().endswith(text), prompt
        assert (turn.get("reasoning_content") or "") in reply
        assert ("weather" in reply) == ("tool_calls" in turn)
    assert found["counts"].get("rejected", 0) == (0 if template else 5)

    says(user.types("preview", "mine.yaml", "--rows", "20", *flags), "⟦こんにちは。<|im_end|>")
    says(user.types("run", "mine.yaml", *flags), "page: runs/mine/report/report.html")
    manifest = json.loads((user.folder / "runs/mine/manifest.json").read_text())
    results = manifest["steps"]["train/emo"]["results"]
    assert results["rows"]["read"] == 10
    assert results["rows"].get("rejected", 0) == (0 if template else 5)
    answers = json.loads((user.folder / "runs/mine/outputs/emo.json").read_text())
    assert [row["instruction"] for row in answers] == questions
    assert not any("<think>" in row["output"] for row in answers)
