"""Rows of tasks: the published files, each format, and files that are wrong."""

from __future__ import annotations

import gzip
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from instruct.analysis.clusters import row_clusters
from instruct.base.errors import InputError
from instruct.measuring.tasks.rows import RowOptions, TaskRowReader

few_shot = pytest.importorskip("instruct.measuring.tasks.few_shot")


def read(folder: Path, source: dict[str, Any], split: str = "test", **options: Any) -> list[dict[str, Any]]:
    """The rows of a task whose choices are `bad.` and `good.`."""
    return TaskRowReader("mine", RowOptions(**options), source, str(folder), ["bad.", "good."]).rows(split, "text")


def files(*names: str, path: str = "text", **more: Any) -> dict[str, Any]:
    return {"dataset_path": path, "dataset_kwargs": {"data_files": {"test": list(names)}, **more}}


@pytest.mark.parametrize(
    ("path", "name", "content", "message"),
    [
        ("csv", "rows.csv", "text,label,text\na,0,b\n", "rows.csv, header: has the column 'text' 2 times"),
        ("csv", "rows.csv", "text, label\na,0\n", "rows.csv, header: the column ' label' begins or ends with white"),
        ("json", "rows.json", '[{"text": "a", "text": "b", "label": 0}]', "rows.json, row 1: has the key 'text' 2 tim"),
        ("json", "rows.jsonl", '{"text": "a", "text": "b", "label": 0}', "rows.jsonl, row 1: has the key 'text' 2 tim"),
    ],
)
def test_a_column_that_is_there_twice_is_refused(path, name, content, message, tmp_path):
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=message):
        read(tmp_path, files(name, path=path))


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")


# Rows and, of the test rows, how many have each label; what 8 neighbors alone say; test rows among the training rows.
PUBLISHED = {
    "sst2": (6920, {"positive": 909, "negative": 912}, 73.9, 2),
    "trec": (
        5452,
        {"abbreviation": 9, "entity": 94, "description": 138, "human": 65, "location": 81, "number": 113},
        82.8,
        10,
    ),
    "subj": (8000, {"objective": 1000, "subjective": 1000}, 87.5, 0),
    "tweet_emotion": (3257, {"anger": 558, "joy": 358, "optimism": 123, "sadness": 382}, 55.2, 0),
    "rt": (8530, {"negative": 533, "positive": 533}, 72.8, 0),
}


def published(name: str, folder: Path) -> Any:
    from lm_eval.tasks import TaskManager

    from instruct.measuring.tasks.cards import read_task

    manager = TaskManager(include_defaults=False, metadata={"folder": str(folder)})
    (task,) = manager.load([str(read_task(name).path)])["tasks"].values()
    return task


@pytest.mark.slow
@pytest.mark.parametrize("name", PUBLISHED)
def test_neighbors_alone_reach_the_floor_of_the_published_files(name, shared_data):
    task = published(name, shared_data / "tasks")
    train, labels, floor, among = PUBLISHED[name]
    assert len(task.pool) == train
    rows = list(task.eval_docs)
    choices = [choice.strip(".") for choice in task.config.doc_to_choice]
    count = Counter(choices[row["label"]] for row in rows)
    assert [count[choice] for choice in choices] == list(labels.values())
    right = sum(task.vote(row, 8) == row["label"] for row in rows)
    assert 100 * right / len(rows) == pytest.approx(floor, abs=0.5)  # how ties are broken
    assert task.in_training(rows) == among


@pytest.mark.slow
def test_mmlu_has_its_subjects_and_five_fixed_demonstrations_of_each(shared_data):
    task = published("mmlu", shared_data / "tasks")
    rows = list(task.eval_docs)
    assert (len(task.pool), len(rows)) == (285, 14042)
    assert len({row["subject"] for row in rows}) == 57
    for row in rows[::50]:
        assert {each["subject"] for each in task.demonstrations(row, 5)[:5]} == {row["subject"]}


def test_each_format_gives_the_same_rows(tmp_path):
    rows = [("bad", "Oh, no."), ("good", "None")]
    numbers = {"bad": "0", "good": "1"}
    (tmp_path / "rows.txt").write_text("".join(f"{numbers[label]} {text}\n" for label, text in rows))
    (tmp_path / "rows.txt.gz").write_bytes(gzip.compress((tmp_path / "rows.txt").read_bytes()))
    (tmp_path / "texts.txt").write_text("".join(f"{text}\n" for _, text in rows))
    (tmp_path / "labels.txt").write_text("".join(f"{numbers[label]}\n" for label, _ in rows))
    (tmp_path / "table.csv").write_text("label,text\n" + "".join(f'{label},"{text}"\n' for label, text in rows))
    (tmp_path / "bare.csv").write_text("".join(f'{label},"{text[:2]}","{text[2:]}"\n' for label, text in rows))
    with zipfile.ZipFile(tmp_path / "rows.zip", "w") as archive:
        for label, text in rows:
            archive.writestr(f"data/{label}_test.csv", f'"{text}"\n')
    bare = {"path": "csv", "column_names": ["label", "a", "b"], "keep_default_na": False}
    zipped = {"path": "csv", "column_names": ["text"]}
    for source, options in [
        (files("rows.txt"), {"label_first": True}),
        (files("rows.txt.gz"), {"label_first": True}),
        (files("texts.txt"), {"label_files": {"test": "labels.txt"}}),
        (files("table.csv", path="csv", keep_default_na=False), {}),
        (files("bare.csv", **bare), {"columns": {"text": "{a}{b}"}}),
        (files("zip://data/*_test.csv::rows.zip", **zipped), {"file_column": "name", "label": "name"}),
    ]:
        found = read(tmp_path, source, **options)
        assert [(row["label"], row["text"]) for row in found] == [(0, "Oh, no."), (1, "None")]


def test_blank_rows_are_left_out_counted_and_named(tmp_path, printed):
    (tmp_path / "test.txt").write_bytes("0 caf\xe9\n\n1 well made\n  \n".encode("latin-1"))
    rows = read(tmp_path, files("test.txt", encoding="latin-1"), label_first=True)
    assert [(row["label"], row["text"]) for row in rows] == [(0, "caf\xe9"), (1, "well made")]
    out = printed.readouterr().out
    assert "task mine: test: blank rows left out: 2 (" in out
    assert "test.txt, row 2, " in out
    assert "test.txt, row 4)" in out
    (tmp_path / "texts.txt").write_text("fine\n\nwell\n")
    (tmp_path / "labels.txt").write_text("1\n0\n1\n")
    rows = read(tmp_path, files("texts.txt"), label_files={"test": ["labels.txt"]})
    assert [row["text"] for row in rows] == ["fine", "well"]
    assert "blank rows left out: 1 (" in printed.readouterr().out


def test_a_split_can_be_cut_from_a_sorted_file(tmp_path):
    (tmp_path / "all.txt").write_text("".join(f"{label} row {n}\n" for label in (0, 1) for n in range(4)))
    for first, last, expected in [(0, 3, [0, 1, 2]), (3, 4, [3])]:
        rows = read(tmp_path, files("all.txt"), label_first=True, each_label={"test": [first, last]})
        assert [(row["label"], row["text"]) for row in rows] == [(n, f"row {k}") for n in (0, 1) for k in expected]


LINES = {"label_first": True}
BARE = {"path": "csv", "column_names": ["label", "text"]}


@pytest.mark.parametrize(
    ("source", "options", "content", "message"),
    [
        ({}, LINES, "0 fine\n2 well\n", "test.txt, row 2: the label '2' is not in the task mine (0, 1, bad, good)"),
        ({}, LINES, "0 fine\nbroken\n", "test.txt, row 2: is not a label, a space and a text"),
        ({}, LINES, "0 f\xefne\n".encode("latin-1"), "is not UTF-8 text; set dataset_kwargs.encoding to"),
        ({}, LINES, "", "test.txt: is empty"),
        ({}, {**LINES, "values": {"n": 0}}, "0 fine\n", "the label '0' is not in the task mine (n)"),
        ({"encoding": "utf-9"}, LINES, "0 fine\n", "unknown encoding 'utf-9'; set dataset_kwargs.encoding"),
        ({}, LINES, f"{'9' * 5000} fine\n", f"test.txt, row 1: the label '{'9' * 39}…' is not in the task mine"),
        ({}, {**LINES, "columns": {"text": "{words}"}}, "0 fine\n", "test.txt, row 1: has no 'words'"),
        ({}, {"label": "class"}, "fine\n", "test.txt, row 1: has no 'class' (columns: text); correct the row"),
        ({}, {**LINES, "each_label": {"test": [5, 9]}}, "0 fine\n", "the split 'test' has no rows"),
        ({}, {"label_files": {"test": "test.csv"}}, "fine\nwell\n", "test.txt: has 2 lines, "),
        (BARE, {}, '0,fine\n1,"', "task mine: its rows cannot be read (ParserError: "),
        ({"path": "json"}, {}, "{", "task mine: its rows cannot be read ("),
    ],
)
def test_wrong_rows_are_refused_with_their_place(tmp_path, source, options, content, message):
    (tmp_path / "test.txt").write_bytes(content if isinstance(content, bytes) else content.encode())
    (tmp_path / "test.csv").write_text("0\n")
    with pytest.raises(InputError) as raised:
        read(tmp_path, files("test.txt", **source), **options)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_missing_files_are_refused_with_the_remedy(tmp_path):
    with pytest.raises(InputError, match=r"test\.txt: no such file"):
        read(tmp_path, files("test.txt"))
    with pytest.raises(InputError, match=r"set evaluation\.tasks\.folder to the folder with its files"):
        read(tmp_path, files("test.csv", path="csv"))
    with pytest.raises(InputError, match="task mine: the split 'dev' is missing; add it to data_files"):
        read(tmp_path, files("test.txt"), split="dev")
    (tmp_path / "a.zip").write_bytes(b"PK")
    with pytest.raises(InputError, match="task mine: its rows cannot be read"):
        read(tmp_path, files("zip://*.csv::a.zip", path="csv"), file_column="name")


def test_the_nearest_rows_come_first_and_ties_in_their_order():
    train = ["a red house", "the weather today", "a red house", "a green house"]
    nearest = few_shot.nearest_of(train)
    assert nearest("a red house", 3) == [0, 2, 3]
    assert nearest("nothing shared", 4) == [0, 1, 2, 3]


def task_with(labels: list[int], monkeypatch, **content: Any) -> Any:
    rows = [{"text": f"some words {n}", "label": label} for n, label in enumerate(labels)]
    monkeypatch.setattr(few_shot.TaskRowReader, "rows", lambda *_: [dict(row) for row in rows])
    config = {"task": "mine", "dataset_path": "csv", "doc_to_text": "{{text}}", "doc_to_choice": ["a", "b", "c"]}
    return few_shot.FewShot(config | content)


def test_a_vote_goes_to_the_nearest_of_equally_frequent_labels(monkeypatch):
    task = task_with([1, 0, 0, 1, 2], monkeypatch, metadata={"nearest_by": "text"})
    doc = {"text": "some words"}
    assert [task.vote(doc, 5), task.vote(doc, 1), task.vote(doc, 0)] == [1, 1, None]
    assert task_with([0, 1], monkeypatch).vote(doc, 2) is None


def test_a_row_is_no_demonstration_of_itself(monkeypatch):
    task = task_with([0, 1, 2], monkeypatch, metadata={"nearest_by": "text"}, fewshot_split="test")
    for doc in task.eval_docs:
        assert doc["text"] not in task.fewshot_context(dict(doc), 2).split("\n")[:-1]


def test_more_shots_than_rows_are_refused(monkeypatch):
    with pytest.raises(InputError, match="task mine: has 2 rows for 3 demonstrations; lower shots"):
        task_with([0, 1], monkeypatch).demonstrations({"text": "word"}, 3)


def test_an_encoder_that_cannot_be_loaded_is_refused_in_one_line():
    with pytest.raises(InputError, match=r"^retriever no/encoder: "):
        few_shot.nearest_of(["word here"], retriever="no/encoder")


@pytest.mark.parametrize(
    ("rows", "column", "expected"),
    [
        ([("P", "a"), ("P", "b"), ("Q", "a")], None, {0: 0, 1: 0, 2: 2}),  # a passage before the question
        ([("", "a"), ("", "b"), ("", "a ")], None, {0: 0, 1: 1, 2: 0}),
        ([("P", "a"), ("P", "b"), ("Q", "a")], "subject", {0: 0, 1: 1, 2: 0}),
        ([("P", "a"), ("Q", "b")], None, {}),
        ([("P", "a"), ("P", "b")], None, {}),  # a text that every row has tells none apart
        ([("", 0), ("", 0), ("", 1)], None, {}),  # a number of a choice is no question
    ],
)
def test_rows_about_one_passage_or_with_one_question_are_a_cluster(rows, column, expected):
    docs = {
        place: {"passage": passage, "subject": "AB"[place % 2], "question": question}
        for place, (passage, question) in enumerate(rows)
    }
    assert row_clusters(docs, {place: doc["question"] for place, doc in docs.items()}, column) == expected
