"""Sets by card alone: columns and labels mapped, several files side by side, and cards that do not fit."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from json_files import write_json

from instruct.base.errors import InputError
from instruct.data.prompts import EvalPrompt
from instruct.validation.human_sets import HumanPair, load_human_set

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "validation.md"
CARDS = dict(re.findall(r"^```yaml (\S+)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S))
BASE = {
    "name": "mine",
    "description": "of the tests",
    "file": "mine.json",
    "columns": {"instruction": "ask", "first": "a", "second": "b", "label": "who"},
    "labels": {1: "first", "B": "second", "=": "tie"},
    "licence": "none",
}
ROWS = [{"ask": "Why?", "a": "So.", "b": "No.", "who": 1}, {"ask": "How?", "a": "A", "b": "B", "who": " B "}]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty working folder with the cards of docs/validation.md."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("INSTRUCT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("INSTRUCT_SHARED_DATA", raising=False)
    for path, text in CARDS.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    return tmp_path / "data" / "human"


def card(folder, **changes):
    content = {key: value for key, value in {**BASE, **changes}.items() if value is not None}
    (folder / "mine.yaml").write_text(yaml.safe_dump(content))
    write_json(folder / "mine.json", ROWS)
    return "mine"


def faireval(folder, ids=(1, 2, 3), labels=("CHATGPT", "TIE", "VICUNA13B")):
    root = folder / "FairEval"
    questions = [{"question_id": n, "text": f"Question {n}?", "category": "generic"} for n in (1, 2, 3)]
    write_json(root / "question.jsonl", questions)
    for name, numbers in (("gpt35", (1, 2, 3)), ("vicuna-13b", ids)):
        answers = [{"question_id": n, "text": f"{name} on {n}", "answer_id": f"{name}{n}"} for n in numbers]
        write_json(root / "answer" / f"answer_{name}.jsonl", answers)
    (root / "review").mkdir(exist_ok=True)
    (root / "review" / "review_gpt35_vicuna-13b_human.txt").write_text("\n".join(labels) + "\n")
    path = folder / "faireval.yaml"
    path.write_text(path.read_text().replace("rows: 80\n", "rows: 3\n"))


def test_a_card_of_one_file_is_found_by_its_name_and_by_its_path(folder):
    human = load_human_set(card(folder))
    assert human.pairs == [
        HumanPair(EvalPrompt("Why?", ""), "So.", "No.", ("first",)),
        HumanPair(EvalPrompt("How?", ""), "A", "B", ("second",)),
    ]
    assert load_human_set(str(folder / "mine.yaml")).pairs == human.pairs
    # The same file with its labels exchanged must not pass for the set that verdicts were compared with.
    exchanged = load_human_set(card(folder, labels={1: "second", "B": "first", "=": "tie"}))
    assert exchanged.sha256 != human.sha256


def test_faireval_is_added_by_the_card_in_the_documentation(folder):
    faireval(folder)
    human = load_human_set("faireval")
    assert [pair.label for pair in human.pairs] == ["first", "tie", "second"]
    prompt = EvalPrompt("Question 3?", "")
    assert human.pairs[2] == HumanPair(prompt, "gpt35 on 3", "vicuna-13b on 3", ("second",), "generic")
    faireval(folder, labels=("CHATGPT", "TIE", "TIE"))
    assert load_human_set("faireval").sha256 != human.sha256


def test_files_that_do_not_belong_together_are_refused(folder):
    faireval(folder, ids=(1, 3, 2))
    with pytest.raises(InputError, match=r"answer_vicuna-13b\.jsonl, row 2: question_id: 3 is not that of .* \(2\)"):
        load_human_set("faireval")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"file": None}, "give exactly one of file (a path) and files (paths by name)"),
        ({"columns": {**BASE["columns"], "first": "answer"}}, "has no column 'answer', which the card mine names"),
        ({"labels": {1: "first", 2: "second"}}, "row 2: who: ' B ' is not one of the card's labels (1, 2)"),
    ],
)  # fmt: skip
def test_a_card_that_does_not_fit_is_refused_with_one_line(folder, changes, said):
    with pytest.raises(InputError) as caught:
        load_human_set(card(folder, **changes))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
