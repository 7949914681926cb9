"""recipes/continual.py: the tables next to the paper's, and the whole recipe on a tiny model, corpus and task."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import continual
import forked
import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
RECIPE = ROOT / "recipes" / "continual.py"


def test_our_accuracies_stand_above_the_papers():
    found = {"base": {"trec": 70.0, "mmlu_ppl": 30.04}, "emo_code": {"trec": 71.0}}
    assert continual.table(found, "llama-7b") == [
        "| system | trec | mmlu_ppl |",
        "| --- | --: | --: |",
        "| base | 70.0 | 30.0 |",
        "| base, the paper | 77.8 | 31.4 |",
        "| emo_code | 71.0 | - |",
    ]
    assert "paper" not in "".join(continual.table(found, None))


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
def test_the_recipe_trains_and_answers_and_resumes(tmp_path, tiny_model_folder):
    draw = random.Random(0)
    lines = [" ".join(draw.choices(["night", "dark", "was", "the", "rain"], k=14)) for _ in range(40)]
    (tmp_path / "texts.txt").write_text("\n".join(lines) + "\n")
    write_task(tmp_path)
    flags = [
        "--config", "continual_smollm2", "--model.name", str(tiny_model_folder), "--data.files", "texts.txt",
        "--train.max_steps", "2", "--train.max_length", "64", "--train.report_to", "none",
        "--tasks", "mood", "--name", "tiny",
    ]  # fmt: skip
    for _ in range(2):  # the second time everything is done
        done = forked.run([sys.executable, RECIPE, *flags], tmp_path)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
        table = [line.split(" | ") for line in (tmp_path / "runs" / "tiny.md").read_text().splitlines()[4:]]
        assert [row[0] for row in table] == ["| base", "| mle", "| emo", "| emo_code", "| retrieval alone"]
        assert all(0 <= float(row[1].removesuffix(" |")) <= 100 for row in table)
    steps = json.loads((tmp_path / "runs" / "tiny" / "manifest.json").read_text())["steps"]
    assert {record["attempts"] for record in steps.values()} == {1}
    assert "| mood | emo_code | acc |" in (tmp_path / "runs" / "tiny" / "report" / "report.md").read_text()


@pytest.mark.slow
def test_a_plan_that_cannot_be_run_is_refused_in_one_line(tmp_path):
    command = [sys.executable, RECIPE, "--base", "llama-7b", "--dry-run"]
    done = forked.run(command, tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("instruct: llama-7b: ")
    assert "Traceback" not in done.stderr
