"""Task cards: the paper's eight tasks word by word, and what a card must not say."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from instruct.base.cards import list_cards
from instruct.base.errors import InputError
from instruct.measuring.tasks.cards import load_task_card
from instruct.measuring.tasks.prompts import PromptWriter
from instruct.measuring.tasks.rows import TaskRow

# Table 5 of the paper: a template and what stands in it for each label.
PAPER = {
    "sst2": ('Review: "X" It is {}.', ["positive", "negative"]),
    "tweet_emotion": ('Tweet: "X" It is {}.', ["anger", "joy", "optimism", "sadness"]),
    "trec": (
        'Question: "X" It is about {}.',
        ["abbreviation", "entity", "description and abstract concept", "human being", "location", "numerical value"],
    ),
    "subj": ('"X" It is {}.', ["objective", "subjective"]),
    "cr": ('Review: "X" It is {}.', ["negative", "positive"]),
    "rt": ('Review: "X" It is {}.', ["negative", "positive"]),
    "ag_news": ('"X" It is about {}.', ["world", "sports", "business", "science and technology"]),
}
# What the authors' released code has instead.
CODE = {
    "tweet_emotion": ("X It is {}.", PAPER["tweet_emotion"][1]),
    "trec": ('"X" It is about {}.', [*PAPER["trec"][1][:-1], "numeric value"]),
    "subj": ("X It is {}.", ["objective", "subjective"]),
    "cr": ("Review: X It is {}.", ["negative", "positive"]),
    "rt": ("Review: X It is {}", ["negative", "positive"]),
}


def prompts(name: str, variant: str | None = None) -> list[str]:
    card = load_task_card(name)
    prompt = PromptWriter(card, card.worded(variant)).prompt(TaskRow({"text": "X"}, card.labels[0], "here"), [])
    return [prompt.context + label for label in prompt.continuations]


def test_the_eight_tasks_of_the_paper_are_there():
    assert {*PAPER, "mmlu"} == {card.name for card in list_cards("data/tasks")}
    for name in [*PAPER, "mmlu"]:
        card = load_task_card(name)
        assert card.name == name
        assert card.source.hub
        assert (card.shots, card.demonstrations) == ((5, "fixed") if name == "mmlu" else (8, "retrieved"))


@pytest.mark.parametrize("name", PAPER)
def test_a_template_is_the_papers(name):
    template, labels = PAPER[name]
    assert prompts(name) == [template.format(label) for label in labels]


@pytest.mark.parametrize("name", CODE)
def test_the_variant_code_is_the_released_codes_template(name):
    template, labels = CODE[name]
    assert prompts(name, "code") == [template.format(label) for label in labels]


def test_mmlu_has_opencompass_prompt():
    card = load_task_card("mmlu")
    writer = PromptWriter(card, card.worded(None))

    def row(question: str, label: str) -> TaskRow:
        fields = {"question": question, "A": "1", "B": "2", "C": "3", "D": "4", "subject": "abstract_algebra"}
        return TaskRow(fields, label, "here")

    prompt = writer.prompt(row("Second?", "D"), [row("First {A}?", "B")])
    assert prompt.context == (
        "The following are multiple choice questions (with answers) about  abstract algebra.\n\n"
        "First {A}?\nA. 1\nB. 2\nC. 3\nD. 4\nAnswer: B\n\nSecond?\nA. 1\nB. 2\nC. 3\nD. 4\nAnswer:"
    )
    assert prompt.continuations == [" A", " B", " C", " D"]


CARD = {
    "name": "mine",
    "labels": ["bad", "good"],
    "template": "{text} This is {label}.",
    "source": {"splits": {"train": ["train.csv"], "test": ["test.csv"]}},
    "licence": "MIT",
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"template": "{text}"}, "template: must contain {label} once"),
        (
            {"variants": {"short": {"template": "{label} {label}"}}},
            "variants.short.template: must contain {label} once",
        ),
        ({"labels": ["good", "good"]}, "labels: a name is given twice"),
        ({"verbalizers": {"fine": "well"}}, "verbalizers: 'fine' is not among the labels (bad, good)"),
        ({"verbalizers": {"bad": "good"}}, "verbalizers: each label needs a text of its own"),
        ({"source": {"splits": {"train": ["a.csv"]}}}, "source.splits: the split 'test' is missing; add it"),
        ({"demonstrations_from": "dev"}, "source.splits: the split 'dev' is missing; add it"),
        ({"source": {**CARD["source"], "values": ["bad", "ugly"]}}, "source.values: 'ugly' is not among the labels"),
        ({"source": {"hub": "a/b", "splits": {"train": ["a.csv"], "test": "test"}}}, "splits.train: a data set of the"),
        ({"source": {**CARD["source"], "format": "csv"}}, "header and format: csv require each other"),
        ({"source": {"splits": {"train": {}, "test": ["a.csv"]}}}, "give exactly one of split"),
        ({"hint": "About {label}:"}, "hint: must not contain {label}"),
        ({"text": "label"}, "text: must be a field other than the label"),
        ({"group": "label"}, "group: must be a field other than the label"),
        (
            {"source": {**CARD["source"], "format": "csv", "header": ["text", "text"]}},
            "source: header: a column is given twice or called file; rename it",
        ),
        (
            {
                "source": {
                    "format": "lines",
                    "splits": {"test": {"files": ["a.txt"], "label_files": ["b.txt", "c.txt"]}},
                }
            },
            "splits.test: label_files needs one file for each of files",
        ),
        ({"shot": 3}, "unknown key 'shot' (nearest: shots"),
    ],
)
def test_a_wrong_card_is_refused_in_one_line(tmp_path, change, message):
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump({**CARD, **change}))
    with pytest.raises(InputError) as raised:
        load_task_card(str(path))
    assert str(raised.value).startswith(f"{path}: ")
    assert message in str(raised.value)


def test_an_unknown_variant_is_refused_with_the_nearest():
    with pytest.raises(InputError, match=r"task trec: has no variant 'cod' \(nearest: code\)"):
        load_task_card("trec").worded("cod")


def test_tasks_are_listed(instruct, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("data/tasks").mkdir(parents=True)
    Path("data/tasks/mine.yaml").write_text(yaml.safe_dump(CARD))
    code, stdout, _ = instruct("list", "tasks")
    assert code == 0
    assert "2 labels · 8 shots, retrieved · licence: MIT · data/tasks/mine.yaml" in stdout
    assert "6 labels · 8 shots, retrieved · hub: CogComp/trec" in stdout
