"""Evaluation sets and answers: AlpacaEval's files, ours, and invalid files."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from instruct.base.errors import InputError
from instruct.data.evaluation import load_answers, load_eval_set
from instruct.data.prompts import EvalPrompt, conversations


def row(text: str, **more: Any) -> dict[str, Any]:
    return {"dataset": "mine", "instruction": text, "output": "yes", "generator": "m"} | more


def test_alpaca_eval_has_805_prompts_and_a_baseline(shared_data):
    file = shared_data / "alpaca_eval" / "reference_text_davinci_003.json"
    found = load_eval_set("alpaca_eval", files=[str(file)])
    assert Counter(prompt.dataset for prompt in found.prompts) == {
        "selfinstruct": 252,
        "oasst": 188,
        "koala": 156,
        "helpful_base": 129,
        "vicuna": 80,
    }
    assert found.baseline == json.loads(file.read_text(encoding="utf-8"))
    assert found.baseline_name == "text_davinci_003"


def test_leaderboard_files_load_unchanged(shared_data):
    file = shared_data / "alpaca_eval" / "alpaca-7b.model_outputs.json"
    assert load_answers(file) == json.loads(file.read_text(encoding="utf-8"))


WRONG = [
    ([row("a?"), {"instruction": "b?"}], "row 2: no column 'output' (columns: instruction); rename the column"),
    ([row("b?"), row("a?", output=None)], "row 2: output: must be text (given: None); write a string"),
    ([row("a?"), row("b?"), row("a?")], "row 3: instruction: 'a?' is already in row 1; give each of these rows"),
]


@pytest.mark.parametrize(("content", "message"), WRONG)
def test_invalid_answers_are_refused_with_the_row(content, message, write):
    file = write("answers.json", content)
    with pytest.raises(InputError) as error:
        load_answers(file)
    assert str(error.value).startswith(f"{file}, {message}")
    assert "\n" not in str(error.value)


def test_turns_of_a_conversation_are_known_by_their_ids_or_by_the_messages_before_them():
    turns = EvalPrompt("Hi?", "chat", id="81", later=("And?",)).answered(["Ho.", "So."], "m")
    assert conversations(turns) == {"81, turn 1": "81", "81, turn 2": "81"}
    earlier = [{"role": "user", "content": "a?"}, {"role": "assistant", "content": "A"}]
    plain = [row("a?"), row("b?"), row("more?", earlier=earlier), row("b? more", earlier=[{"content": "c?"}])]
    assert conversations(plain) == {"a?": "a?", "more?": "a?", "b? more": "c?", "c?": "c?"}
    clustered = [*(row | {"cluster": "c"} for row in turns), row("a?", cluster="c"), row("b?"), {"instruction": "a?"}]
    assert set(conversations(clustered).values()) == {"cluster c"}


def test_prompts_are_read_by_the_names_that_files_give_them(write, printed):
    chat = [{"role": role, "content": text} for role, text in (("system", "S"), ("user", "a?"), ("assistant", "A"))]
    rows = [
        {"prompt": "b?", "cluster": "x", "id": 1},
        {"question": "c?"},
        {"text": "d?", "source": "web"},
        {"messages": [*chat, {"role": "user", "content": "e?"}]},
        {"prompt": chat},
        {"turns": ["f?", "g?"]},
    ]
    for row, asked in zip(rows, ("b?", "c?", "d?", "e?", "a?", "f?"), strict=True):
        evaluated = load_eval_set("starter_eval", [str(write("p.jsonl", [row]))])
        (prompt,) = evaluated.prompts
        assert prompt.instruction == asked
        assert prompt.system == ("S" if chat in row.values() or "messages" in row else "")
        assert prompt.later == (("g?",) if "turns" in row else ())
        assert len(prompt.earlier) == (2 if "messages" in row else 0)
        assert prompt.cluster == row.get("cluster", "")
        assert (evaluated.baseline or [{}])[0].get("output") == ("A" if chat in row.values() else None)
    assert "columns with text that no model or judge is shown: source" in printed.readouterr().out
    with pytest.raises(InputError, match=r"row 1: has no prompt \(columns: query\); rename its column to"):
        load_eval_set("starter_eval", [str(write("p.jsonl", [{"query": "h?"}]))])


def test_what_a_judge_is_shown_of_a_row_and_its_temperature_reach_the_answers(write, tmp_path):
    rows = [
        row("a?", rubric="Score 1: wrong.", checklist=["says hi", "is short"]),
        row("b?", dataset="writing"),
    ]
    write("prompts.jsonl", rows)
    card = tmp_path / "mine.yaml"
    card.write_text(
        "name: mine\npurpose: eval\nsource: {files: [prompts.jsonl]}\nformat: alpaca\nlicence: MIT\n"
        "temperatures: {writing: 0.7}\n"
    )
    first, second = load_eval_set(str(card)).prompts
    assert dict(first.guides) == {"rubric": "Score 1: wrong.", "checklist": "- says hi\n- is short"}
    assert (first.temperature, second.temperature, second.guides) == (None, 0.7, ())
    (answered,) = first.answered(["Hi."], "m")
    (read,) = load_answers(write("m.json", [answered]))
    assert (read["rubric"], read["checklist"]) == ("Score 1: wrong.", "- says hi\n- is short")
