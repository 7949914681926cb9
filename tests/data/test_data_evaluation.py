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
    first = load_eval_set("alpaca_eval", files=[str(file)], limit=10)
    assert (first.prompts, first.baseline) == (found.prompts[:10], found.baseline[:10])
    assert first.sha256 != found.sha256


@pytest.mark.parametrize(
    "name", ["alpaca-7b.model_outputs.json", "gpt4.model_outputs.json", "reference_gpt4_1106_preview.json"]
)
def test_leaderboard_files_load_unchanged(shared_data, name):
    file = shared_data / "alpaca_eval" / name
    assert load_answers(file) == json.loads(file.read_text(encoding="utf-8"))


def test_extra_fields_are_dropped_and_missing_labels_filled_in(write):
    bare = {"instruction": "a?", "output": "", "avg_time_per_example": 3, "datasplit": "eval"}
    assert load_answers(write("m7.model_outputs.json", [bare])) == [
        {"dataset": "unknown", "instruction": "a?", "output": "", "generator": "m7"}
    ]


WRONG = [
    ([row("a?"), {"instruction": "b?"}], "row 2: no column 'output' (columns: instruction); rename the column"),
    ([{"query": "a?", "output": "b"}], "row 1: no column 'instruction' (columns: query, output); rename the column"),
    ([row("b?"), row("a?", output=None)], "row 2: output: must be text (given: None); write a string"),
    ([row("a?"), row(" ")], "row 2: instruction: is empty; write a prompt or remove the row"),
    ([row("a?"), row("b?"), row("a?")], "row 3: instruction: 'a?' is already in row 1; give each of these rows"),
    ([row("a?"), ["b?"]], "row 2: is a JSON array, not an object; write"),
]


@pytest.mark.parametrize(("content", "message"), WRONG)
def test_invalid_answers_are_refused_with_the_row(content, message, write):
    file = write("answers.json", content)
    with pytest.raises(InputError) as error:
        load_answers(file)
    assert str(error.value).startswith(f"{file}, {message}")
    assert "\n" not in str(error.value)
    with pytest.raises(InputError, match="row "):
        load_eval_set("starter_eval", files=[file])


def test_files_may_contain_only_prompts(write):
    file = write("prompts.jsonl", [{"instruction": "a?"}, {"instruction": "b?", "dataset": "two"}])
    found = load_eval_set("starter_eval", files=[file])
    assert found.prompts == [EvalPrompt("a?", "prompts"), EvalPrompt("b?", "two")]
    assert found.name == "prompts"
    assert (found.baseline, found.baseline_name) == (None, None)
    again = write("again.jsonl", [{"instruction": "b?"}])
    with pytest.raises(InputError, match=rf"again.jsonl, row 1: instruction: 'b\?' is already in {file}, row 2; "):
        load_eval_set("starter_eval", files=[file, again])


def test_a_text_file_has_a_prompt_on_each_line(tmp_path):
    path = tmp_path / "mine.txt"
    path.write_text("Say hi.\n\n  Name a color. \n", encoding="utf-8")
    found = load_eval_set("starter_eval", files=[str(path)])
    assert found.prompts == [EvalPrompt("Say hi.", "mine"), EvalPrompt("  Name a color. ", "mine")]


def test_a_separate_baseline_file_is_joined_by_instruction(write, tmp_path):
    write("questions.json", [{"instruction": "a?"}, {"instruction": "b?"}])
    card = "name: mine\npurpose: eval\nformat: alpaca\nlicence: none\nsource: {files: [questions.json]}\n"
    card = write("mine.yaml", card + "baseline: {files: [answers.json]}\n")
    write("answers.json", [row("b?", output="B"), row("a?", output="A"), row("c?", output="C")])
    found = load_eval_set(card)
    assert [answer["output"] for answer in found.baseline] == ["A", "B"]
    answers = write("answers.json", [row("b?")])
    with pytest.raises(InputError) as error:
        load_eval_set(card)
    assert str(error.value).startswith(f"{answers}: has no answer to 'a?' of mine; ")


def test_turns_of_a_conversation_are_known_by_their_ids_or_by_the_messages_before_them():
    turns = EvalPrompt("Hi?", "chat", id="81", later=("And?",)).answered(["Ho.", "So."], "m")
    assert conversations(turns) == {"81, turn 1": "81", "81, turn 2": "81"}
    earlier = [{"role": "user", "content": "a?"}, {"role": "assistant", "content": "A"}]
    plain = [row("a?"), row("b?"), row("more?", earlier=earlier), row("b? more", earlier=[{"content": "c?"}])]
    assert conversations(plain) == {"a?": "a?", "more?": "a?", "b? more": "c?", "c?": "c?"}
    again = [row("a?", id="1"), row("b?"), row("a?", id="2"), {"instruction": "1"}, {"instruction": "2"}]
    assert conversations(again) == {"1": "1", "2": "1"}
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
    wrong = write("p.jsonl", [{"query": "h?"}])
    with pytest.raises(InputError, match=r"row 1: has no prompt \(columns: query\); rename its column to"):
        load_eval_set("starter_eval", [str(wrong)])
    with pytest.raises(InputError, match="messages: does not end with a message of the user, or an answer to it"):
        load_eval_set("starter_eval", [str(write("p.jsonl", [{"messages": chat[2:]}]))])


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
