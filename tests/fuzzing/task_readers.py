"""The readers of few-shot tasks: a card, and the files that only tasks have."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from reading import Reader, rows_in

from instruct.base.cards import read_yaml
from instruct.measuring.tasks.cards import FEW_SHOT, read_task
from instruct.measuring.tasks.rows import RowOptions, TaskRowReader

TASK_ROWS = [{"text": f"a {word} day", "label": n % 2} for n, word in enumerate(("grim", "fine", "cold", "warm"))]


def task_card(path: str, files: list[str], **more: object) -> dict[str, Any]:
    return {
        "task": "mine", "class": FEW_SHOT, "dataset_path": path, "doc_to_text": "{{text}} It is",
        "dataset_kwargs": {"data_files": {"train": files, "test": files}}, "doc_to_choice": ["bad.", "good."],
    } | more  # fmt: skip


def read_task_card(path: Path) -> None:
    """A task with its card at a path, its rows in the folder above."""
    from instruct.measuring.tasks.few_shot import FewShot
    from instruct.measuring.tasks.harness import refusing

    folder = Path(tempfile.gettempdir())
    (folder / "texts.txt").write_text("".join(f"{row['text']}\n" for row in TASK_ROWS))
    (folder / "labels.txt").write_text("".join(f"{row['label']}\n" for row in TASK_ROWS))
    content = dict(read_task(str(path)).content)
    assert content == read_yaml(path)
    about = content.get("metadata")
    content["metadata"] = {**about, "folder": str(folder)} if isinstance(about, dict) else about
    with refusing("mine"):  # as when a run loads and asks it: most of a card is lm-eval's to read
        task = FewShot(content)
        for doc in task.eval_docs:
            task.fewshot_context(dict(doc), 0).encode()


def task_rows(path: Path, file: str, **options: Any) -> list[str]:
    """The texts of a file as the rows of a task."""
    source = {
        "dataset_path": "text",
        "dataset_kwargs": {"data_files": {"test": file}, "column_names": ["label", "text"]},
    }
    rows = TaskRowReader("mine", RowOptions(**options), source, str(path.parent), ["bad.", "good."]).rows(
        "test", "text"
    )
    assert {row["label"] for row in rows} <= {0, 1}
    return [row["text"] for row in rows]


def read_task_lines(path: Path) -> None:
    assert len(task_rows(path, path.name, label_first=True)) == rows_in(path)


TASK_CARDS = (
    task_card("text", ["texts.txt"], metadata={"label_files": {"train": "labels.txt", "test": "labels.txt"}}),
    task_card(
        "text",
        ["texts.txt"],
        metadata={
            "label_files": {"train": "labels.txt", "test": "labels.txt"}, "values": {"0": 0, "1": 1},
            "columns": {"words": "{text} {text}"}, "nearest_by": "words", "share": 0.5,
            "each_label": {"test": [0, 1]}, "variants": {"short": {"doc_to_text": "{{text}}"}},
        },
    ),
)  # fmt: skip
TASK_READERS = {
    "task card": Reader(
        (".yaml",),
        TASK_CARDS,
        read_task_card,
        ("task ", "lm_eval: ", "texts.txt", "labels.txt", "no such file", "data set "),
    ),
    "lines of a task": Reader((".txt",), ([f"{n % 2} a day {n}" for n in range(4)],), read_task_lines, ("task mine",)),
}
