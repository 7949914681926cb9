"""The installed cards, the two sets written for this project, and invalid cards."""

from __future__ import annotations

import json

import pytest

from instruct.base.cards import packaged_folder
from instruct.base.errors import InputError
from instruct.data.cards import load_dataset_card
from instruct.data.evaluation import load_eval_set
from instruct.data.overlap import find_overlap
from instruct.data.rows import load_rows

NAMES = sorted(path.stem for path in packaged_folder("data").glob("*.yaml"))


@pytest.mark.parametrize("name", NAMES)
def test_every_card_loads(name):
    card = load_dataset_card(name)
    assert card.name == name
    assert card.description
    assert card.licence
    assert card.rows
    if card.source.hub:
        assert card.citation
    elif name.startswith("webtext"):  # neither here nor on the Hub
        section = "data" if card.purpose == "train" else "continuations"
        assert f"download it and set {section}.files" in (card.notes or "")
    else:
        for file in card.source.files or []:
            assert (card.folder / file).is_file()


@pytest.mark.parametrize("template", ["alpaca", "chat"])
def test_the_starter_set_loads_without_duplicates(template):
    card = load_dataset_card("starter")
    found = load_rows(card, template=template)
    assert found.counts == {"read": card.rows, "kept": card.rows, "empty": 0}
    assert found.notes == []
    assert len({json.dumps(row["prompt"]) for row in found.rows}) == len(found.rows)


def test_the_starter_evaluation_set_shares_no_instruction_with_the_starter_set():
    found = load_eval_set("starter_eval")
    assert len(found.prompts) == load_dataset_card("starter_eval").rows
    assert found.baseline_name == "starter_baseline"
    assert [row["instruction"] for row in found.baseline] == [prompt.instruction for prompt in found.prompts]
    assert all(row["output"].strip() for row in found.baseline)

    rows = load_rows(load_dataset_card("starter"))
    assert find_overlap([prompt.instruction for prompt in found.prompts], rows)["exact"] == 0


def test_files_of_a_card_are_relative_to_the_card(write, tmp_path, monkeypatch):
    write("rows.jsonl", [{"prompt": "a", "completion": "b"}])
    card = "name: mine\npurpose: train\nformat: prompt_completion\nlicence: none\nsource: {files: [rows.jsonl]}\n"
    path = write("mine.yaml", card)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert load_rows(load_dataset_card(path)).counts == {"read": 1, "kept": 1, "empty": 0}
    assert load_rows(load_dataset_card("../mine.yaml")).sources == [f"{tmp_path / 'rows.jsonl'}:1"]


def test_an_evaluation_card_is_not_trained_on():
    with pytest.raises(InputError, match=r"card starter_eval: is an evaluation set; name a tr"):
        load_rows(load_dataset_card("starter_eval"))


GOOD = "name: mine\npurpose: train\nformat: alpaca\nlicence: none\nsource: {files: [a.jsonl]}\n"
WRONG = [
    (GOOD.replace("{files: [a.jsonl]}", "{}"), "source: give exactly one of hub (a data set's id) and files (a list)"),
    (GOOD.replace("[a.jsonl]", "[a.jsonl], split: test"), "source: split requires hub; remove it"),
    (GOOD.replace("[a.jsonl]", "[]"), "source.files: is too short, with fewer entries than 1"),
    (GOOD + "baseline: {files: [b.json]}\n", "(top level): baseline is for evaluation cards; remove it"),
    (GOOD.replace("train", "eval") + "column: data\n", "(top level): an evaluation card needs format: alpaca and"),
    (GOOD.replace("alpaca", "text") + "template: chat\n", "(top level): template is for prompts; remove it from a"),
    (GOOD + "documents: line\n", "(top level): documents is for format: text; remove it"),
]


@pytest.mark.parametrize(("text", "message"), WRONG)
def test_an_invalid_card_is_refused_in_one_line(text, message, write):
    path = write("mine.yaml", text)
    with pytest.raises(InputError) as error:
        load_dataset_card(path)
    assert str(error.value).startswith(f"{path}: {message}")
    assert "\n" not in str(error.value)
