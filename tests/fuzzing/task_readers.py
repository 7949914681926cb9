"""The readers of few-shot tasks: a card, and the files that a card can name."""

from __future__ import annotations

import csv
import io
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from reading import ROWS, Reader, fixed, rows_in

from instruct.data.sources import read_file
from instruct.measuring.tasks.answering import load_task
from instruct.measuring.tasks.cards import TaskCard
from instruct.measuring.tasks.options import TaskOptions
from instruct.measuring.tasks.rows import load_rows

TASK_ROWS = [{"text": f"a {word} day", "label": n % 2} for n, word in enumerate(("grim", "fine", "cold", "warm"))]


def task_card(source: dict[str, Any], **more: object) -> dict[str, Any]:
    return {
        "name": "mine", "labels": ["bad", "good"], "template": "{text} It is {label}.", "shots": 1, "licence": "none",
        "source": source,
    } | more  # fmt: skip


def read_task_card(path: Path) -> None:
    """A task with its card at a path, its rows in the folder above."""
    folder = Path(tempfile.gettempdir())
    for name in ("train.json", "test.json"):
        fixed(TASK_ROWS, name)
    (folder / "rows.csv").write_text("".join(f'{row["label"]},"{row["text"]}"\n' for row in TASK_ROWS))
    (folder / "texts.txt").write_text("".join(f"{row['text']}\n" for row in TASK_ROWS))
    (folder / "labels.txt").write_text("".join(f"{row['label']}\n" for row in TASK_ROWS))
    task = load_task(str(path), TaskOptions(folder=str(folder)))
    assert len(task.rows) == task.of == len(task.places) == len(task.demonstrations)
    for row, found in zip(task.rows, task.demonstrations, strict=True):
        prompt = task.writer.prompt(row, found)
        assert len(found) == task.shots
        assert len({*prompt.continuations}) == len(task.card.labels)
        prompt.context.encode()


def task_rows(path: Path, **source: object) -> list[str]:
    """The texts of a file as the demonstrations and the test rows of a task: each of its rows is in both."""
    files = [f"{path.name}!*.csv" if path.suffix == ".zip" else path.name]
    content = task_card({"splits": {"train": files, "test": files}, **source})
    rows = load_rows(TaskCard.model_validate(content), path.parent)
    assert rows.train == rows.test
    assert {row.label for row in rows.test} <= {"bad", "good"}
    return [row.fields["text"] for row in rows.test]


def read_task_table(path: Path) -> None:
    assert task_rows(path) == [str(row.fields["text"]) for row in read_file(path)]


def read_task_lines(path: Path) -> None:
    assert len(task_rows(path, format="label_text")) == rows_in(path)


def read_task_records(path: Path) -> None:
    found = task_rows(path, format="csv", header=["label", "text"])
    if path.suffix == ".csv":
        with path.open(encoding="utf-8-sig", newline="") as file:
            assert found == [text for _, text in csv.reader(file)]


def task_archive() -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("a", "b"):
            archive.writestr(f"{name}.csv", "".join(f'{row["label"]},"{row["text"]}"\n' for row in TASK_ROWS))
    return content.getvalue()


HUB = {"hub": "a/b", "splits": {"train": "train", "test": "test"}}
TASK_FILES = ("train.json", "test.json", "rows.csv", "texts.txt", "labels.txt")
TASK_CARDS = (
    task_card({"splits": {"train": ["train.json"], "test": {"files": ["test.json"], "each_label": [0, 1]}}}),
    task_card(
        HUB,
        local={"format": "csv", "header": ["label", "text"], "splits": {"train": ["rows.csv"], "test": ["rows.csv"]}},
        group="file", demonstrations="fixed", hint="{file}",
    ),
    task_card(
        HUB,
        local={
            "format": "lines",
            "splits": {name: {"files": ["texts.txt"], "label_files": ["labels.txt"]} for name in ("train", "test")},
            "values": {"0": "bad", "1": "good"}, "encoding": "latin-1", "fields": {"words": "{text} {text}"},
        },
        text="words", template="{words}: {label}", verbalizers={"bad": "worse"},
        variants={"short": {"template": "{text} {label}"}}, metric="macro_f1", share=0.5,
    ),
)  # fmt: skip
TASK_READERS = {
    "task card": Reader((".yaml",), TASK_CARDS, read_task_card, ("task ", "data set ", *TASK_FILES)),
    "table of a task": Reader((*ROWS, ".csv"), (TASK_ROWS,), read_task_table, ("task mine",)),
    "lines of a task": Reader((".txt",), ([f"{n % 2} a day {n}" for n in range(4)],), read_task_lines, ("task mine",)),
    "records of a task": Reader(
        (".csv",), ([{"0": n % 2, "a": f"day {n}"} for n in range(4)],), read_task_records, ("task mine",)
    ),
    "archive of a task": Reader((".zip",), (task_archive(),), read_task_records, ("task mine",)),
}
