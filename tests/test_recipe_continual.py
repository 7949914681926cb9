"""recipes/continual.py: the tables next to the paper's, and the whole recipe on a tiny model, corpus and task."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import forked
import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
RECIPE = ROOT / "recipes" / "continual.py"


def write_task(folder: Path) -> None:
    (folder / "data" / "tasks").mkdir(parents=True)
    card = {
        "task": "mood", "dataset_path": "csv",
        "dataset_kwargs": {"data_files": {"train": "mood.csv", "test": "mood.csv"}},
        "doc_to_text": "{{text}} It is", "doc_to_choice": ["bad.", "good."], "num_fewshot": 2,
        "output_type": "multiple_choice", "test_split": "test", "fewshot_split": "train", "doc_to_target": "label",
        "fewshot_delimiter": "\n", "metadata": {"nearest_by": "text"},
    }  # fmt: skip
    path = folder / "data" / "tasks" / "mood.yaml"
    path.write_text(yaml.safe_dump(card))
    rows = ["a fine day,1", "a grim day,0", "fine food,1", "grim food,0"]
    (folder / "mood.csv").write_text("text,label\n" + "\n".join(rows) + "\n")


@pytest.mark.slow
def test_the_recipe_trains_and_answers(tmp_path, tiny_model_folder):
    draw = random.Random(0)
    lines = [" ".join(draw.choices(["night", "dark", "was", "the", "rain"], k=14)) for _ in range(40)]
    (tmp_path / "texts.txt").write_text("\n".join(lines) + "\n")
    write_task(tmp_path)
    flags = [
        "--config", "continual_smollm2", "--model.name", str(tiny_model_folder), "--data.files", "texts.txt",
        "--train.max_steps", "2", "--train.max_length", "64", "--train.report_to", "none",
        "--tasks", "mood", "--name", "tiny",
    ]  # fmt: skip
    done = forked.run([sys.executable, RECIPE, *flags], tmp_path)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    table = [line.split(" | ") for line in (tmp_path / "runs" / "tiny.md").read_text().splitlines()[4:]]
    assert [row[0] for row in table] == ["| base", "| mle", "| emo", "| emo_code", "| retrieval alone"]
    assert all(0 <= float(row[1].removesuffix(" |")) <= 100 for row in table)
