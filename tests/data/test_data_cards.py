"""The installed cards, the two sets written for this project, and invalid cards."""

from __future__ import annotations

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


def test_an_evaluation_card_is_not_trained_on():
    with pytest.raises(InputError, match=r"card starter_eval: is an evaluation set; name a tr"):
        load_rows(load_dataset_card("starter_eval"))
