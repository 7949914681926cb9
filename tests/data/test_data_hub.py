"""The hub's path with the real clients, against a hub on localhost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

ROWS: list[dict[str, Any]] = [
    {"instruction": "Add.", "input": "1, 2", "output": "3", "text": "ignored"},
    {"instruction": "Say hello.", "input": "", "output": "Hello!", "text": "ignored"},
    {"instruction": "Say nothing.", "input": None, "output": "", "text": "ignored"},
]

LOAD = """
import json
from instruct.data.cards import load_dataset_card
from instruct.data.evaluation import load_eval_set
from instruct.data.rows import load_rows
from instruct.base.errors import InputError
for path in {cards!r}:
    try:
        card = load_dataset_card(path)
        if card.purpose == "train":
            found = load_rows(card)
            print(json.dumps([list(found.rows), list(found.sources), found.counts, found.notes]))
        else:
            found = load_eval_set(path)
            print(json.dumps([[p.instruction for p in found.prompts], found.baseline, found.baseline_name]))
    except InputError as error:
        print(json.dumps(str(error)))
"""


def jsonl(rows: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def load_all(hub: Any, folder: Path, *cards: str, **variables: str) -> list[Any]:
    """The results of loading cards with these texts, in a process of their own."""
    paths = [folder / f"card{number}.yaml" for number in range(len(cards))]
    for path, card in zip(paths, cards, strict=True):
        path.write_text(f"name: mine\nlicence: none\n{card}", encoding="utf-8")
    printed = hub.run(LOAD.format(cards=[str(path) for path in paths]), **variables).splitlines()
    return [json.loads(line) for line in printed[-len(cards) :]]


TRAIN = "purpose: train\nformat: alpaca\nsource: {{hub: me/rows{more}}}\ntemplate: alpaca\n"


@pytest.mark.slow
def test_a_data_set_loads_and_then_loads_offline(hub, tmp_path):
    hub.repositories["me/rows"] = {"train.jsonl": jsonl(ROWS), "README.md": b"# rows\n"}
    ((rows, sources, counts, notes),) = load_all(hub, tmp_path, TRAIN.format(more="") + "rows: 4\n")
    assert [row["completion"] for row in rows] == ["3", "Hello!"]
    assert "### Input:\n1, 2\n\n### Response:" in rows[0]["prompt"]
    assert sources == ["me/rows:1", "me/rows:2"]
    assert counts == {"read": 3, "kept": 2, "empty": 1}
    assert notes == [
        "card mine expects 4 rows, its source has 3: the data set has changed",
        "columns with text that is not trained on: text (100% of the rows)",
    ]

    hub.requests.clear()
    (again,) = load_all(hub, tmp_path, TRAIN.format(more="") + "rows: 3\n", HF_HUB_OFFLINE="1")
    assert again == [rows, sources, counts, notes[1:]]
    assert hub.requests == []


EVAL = "purpose: eval\nformat: alpaca\nsource: {hub: me/eval, file: questions.json}\n"


def test_only_the_named_files_of_an_evaluation_set_are_downloaded(hub, tmp_path):
    questions = [{"instruction": q, "output": "old", "generator": "davinci", "dataset": "d"} for q in ("a?", "b?")]
    answers = [{"instruction": q, "output": q + "!", "generator": "gpt4", "dataset": "d"} for q in ("b?", "a?")]
    hub.repositories["me/eval"] = {
        "questions.json": json.dumps(questions).encode(),
        "answers.json": json.dumps(answers).encode(),
        "eval.py": b"raise RuntimeError('a loading script is never run')",
    }
    whole, other, refused = load_all(
        hub,
        tmp_path,
        EVAL,
        EVAL + "baseline: {hub: me/eval, file: answers.json}\n",
        EVAL.replace("questions", "other"),
    )
    assert whole == [["a?", "b?"], questions, "davinci"]
    prompts, baseline, name = other
    assert (prompts, name) == (["a?", "b?"], "gpt4")
    assert [row["output"] for row in baseline] == ["a?!", "b?!"]
    assert refused.startswith(
        "data set me/eval, file other.json: not found at revision 'main'; check the card's source"
    )


@pytest.mark.slow
def test_what_cannot_be_downloaded_is_refused_in_one_line_with_a_remedy(hub, tmp_path):
    hub.repositories["me/rows"] = {"train.jsonl": jsonl(ROWS), "test.jsonl": jsonl(ROWS[:1])}
    hub.gated.add("me/gated")
    commit, card = "0123456789abcdef0123456789abcdef01234567", TRAIN.format(more="")
    sources = (f", revision: {commit}, split: test", ", split: dev", ", revision: v9")
    cards = [
        *(TRAIN.format(more=more) for more in sources),
        *(card.replace("rows", name) for name in ("gated", "none")),
    ]
    (rows, *_), *refused = load_all(hub, tmp_path, *cards)
    refused += load_all(hub, tmp_path, cards[-1], HF_HUB_OFFLINE="1")
    assert len(rows) == 1
    for line, start in zip(
        refused,
        (
            "data set me/rows: has no split 'dev' (Unknown split",
            "data set me/rows: not found at revision 'v9'; check the card's source",
            "data set me/gated: access is restricted; accept its terms on its hub page and run `hf",
            "data set me/none: not found at revision 'main'; check the card's source",
            "data set me/none: the rows are not cached, and the hub is out of reach or its offline mode is on",
        ),
        strict=True,
    ):
        assert line.startswith(start)
        assert "\n" not in line
