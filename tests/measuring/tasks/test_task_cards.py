"""Task cards: the paper's eight tasks word by word, and what a card must not say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from datasets import Dataset

from instruct.base.cards import list_cards
from instruct.base.errors import InputError
from instruct.measuring.tasks.cards import read_task
from instruct.measuring.tasks.evaluate import Harness
from instruct.measuring.tasks.options import TaskOptions

# Table 5 of the paper: a template and what stands in it for each label.
PAPER = {
    "sst2": ('Review: "X" It is {}.', ["negative", "positive"]),
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


def task_of(name: str, rows: list[dict[str, Any]], monkeypatch) -> Any:
    """A card's task with these rows in each split."""
    task = pytest.importorskip("lm_eval.api.task")
    splits = dict.fromkeys(("train", "dev", "test"), Dataset.from_list(rows))
    monkeypatch.setattr(task.ConfigurableTask, "download", lambda self, *_, **__: setattr(self, "dataset", splits))
    return task.ConfigurableTask(config=dict(read_task(name).content))


def prompts(name: str, monkeypatch, shots: int = 0, text: str = "X") -> list[str]:
    task = task_of(name, [{"text": text, "label": 0, "coarse_label": 0}] * 2, monkeypatch)
    context = task.fewshot_context(task.eval_docs[0], shots)
    return [
        "".join(request.args) for request in task.construct_requests(task.eval_docs[0], context, metadata=("x", 0, 1))
    ]


def test_the_eight_tasks_of_the_paper_are_there():
    assert {*PAPER, "mmlu_ppl"} == {card.name for card in list_cards("data/tasks")}
    for name in [*PAPER, "mmlu_ppl"]:
        task = read_task(name)
        assert task.name == name
        assert task.content["num_fewshot"] == (5 if name == "mmlu_ppl" else 8)
        assert ("nearest_by" in task.about) == (name != "mmlu_ppl")
        assert task.about["licence"]


@pytest.mark.parametrize("name", PAPER)
def test_a_template_is_the_papers(name, monkeypatch):
    template, labels = PAPER[name]
    assert prompts(name, monkeypatch) == [template.format(label) for label in labels]


def test_demonstrations_are_in_lines_before_the_text(monkeypatch):
    assert prompts("sst2", monkeypatch, 1, text="so so")[1] == (
        'Review: "so so" It is negative.\nReview: "so so" It is positive.'
    )


def test_mmlu_has_opencompass_prompt(monkeypatch):
    def row(question: str, label: int) -> dict[str, Any]:
        return {"question": question, "choices": [*"1234"], "subject": "abstract_algebra", "answer": label}

    task = task_of("mmlu_ppl", [row("First {A}?", 1), row("Second?", 3)], monkeypatch)
    context = task.fewshot_context(task.eval_docs[1], 1)
    assert context == (
        "The following are multiple choice questions (with answers) about  abstract algebra.\n\n"
        "First {A}?\nA. 1\nB. 2\nC. 3\nD. 4\nAnswer: B\n\nSecond?\nA. 1\nB. 2\nC. 3\nD. 4\nAnswer:"
    )
    requests = task.construct_requests(task.eval_docs[1], context, metadata=("mmlu_ppl", 0, 1))
    assert [request.args[1] for request in requests] == [" A", " B", " C", " D"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("group: x\n", "is no task of lm-eval; it needs the key task"),
        ("[]", "is no task of lm-eval; it needs the key task"),
        ("task: [\n", "is not valid YAML (expected the node content"),
        ("task: a/b\n", "task: is part of file names; use letters, digits"),
    ],
)
def test_a_file_that_is_no_task_is_refused(tmp_path, text, message):
    (tmp_path / "a.yaml").write_text(text)
    with pytest.raises(InputError) as raised:
        read_task(str(tmp_path / "a.yaml"))
    assert re.sub(", line [0-9]+", "", str(raised.value)).startswith(f"{tmp_path / 'a.yaml'}: {message}")


def test_a_file_that_names_code_is_refused_until_it_is_trusted(tmp_path):
    def name(trusted: bool) -> str:
        return read_task(str(tmp_path / "mine.yaml"), trusted=trusted).name

    (tmp_path / "mine.yaml").write_text("include: part.yaml\ntask: mine\n")
    (tmp_path / "part.yaml").write_text("process_docs: !function steal.all\n")
    with pytest.raises(
        InputError, match=r"part\.yaml: runs code of its own \(steal\.all\); .*evaluation\.tasks\.trust_task_code"
    ):
        name(trusted=False)
    assert name(trusted=True) == "mine"
    for text in (
        "a: !<!function> steal.all\n",
        "%TAG !x! !func\n---\na: !x!tion steal.all\n",
        "class: steal.all\n",
    ):
        (tmp_path / "part.yaml").write_text(text)
        with pytest.raises(InputError, match=r"part\.yaml: runs code of its own \(steal\.all\)"):
            name(trusted=False)


@pytest.mark.parametrize("metric", ["./theirs", "org/theirs", "theirs"])
def test_a_metric_in_a_script_is_code(tmp_path, monkeypatch, metric):
    monkeypatch.chdir(tmp_path)
    Path("theirs").mkdir()
    Path("mine.yaml").write_text(yaml.safe_dump({"task": "mine", "metric_list": [{"metric": metric}]}))
    with pytest.raises(InputError, match=r"mine\.yaml: runs code of its own \(.*theirs\)"):
        read_task("mine.yaml")
    assert read_task("mine.yaml", trusted=True).name == "mine"


@pytest.mark.parametrize("key", ["doc_to_text", "doc_to_target", "doc_to_choice"])
def test_a_template_of_a_task_reaches_no_code(tmp_path, monkeypatch, key):
    dummy = pytest.importorskip("lm_eval.models.dummy")
    monkeypatch.chdir(tmp_path)
    Path("rows.csv").write_text("text,label\nX,0\n")
    templates = {"doc_to_text": "{{text}}", "doc_to_target": "label", "doc_to_choice": "{{['a', 'b']}}"}
    reach = "{{ cycler.__init__.__globals__.os.system('touch ran') }}{{ ''.__class__.__mro__ }}"
    task = {"task": "theirs", "dataset_path": "csv", "dataset_kwargs": {"data_files": {"test": "rows.csv"}}}
    task |= {"test_split": "test", "output_type": "multiple_choice", **templates, key: reach}
    Path("theirs.yaml").write_text(yaml.safe_dump(task))
    tasks = Harness(TaskOptions(names=["theirs.yaml"]))
    with pytest.raises(InputError, match="the task theirs cannot be run") as raised:
        tasks.evaluate(dummy.DummyLM, "theirs", tmp_path / "kept")
    assert "unsafe" in str(raised.value)
    assert not Path("ran").exists()


def test_tasks_are_listed(instruct, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("data/tasks").mkdir(parents=True)
    card = {"task": "mine", "dataset_path": "csv", "num_fewshot": 2, "metadata": {"licence": "MIT"}}
    Path("data/tasks/mine.yaml").write_text(yaml.safe_dump(card))
    code, stdout, _ = instruct("list", "tasks")
    assert code == 0
    assert "2 shots · from csv · licence: MIT · data/tasks/mine.yaml" in stdout
    assert "8 shots · from CogComp/trec" in stdout
