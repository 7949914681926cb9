"""recipes/open_ended.py: the table beside the paper's, and the whole recipe on a tiny model and corpus."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import forked
import open_ended
import pytest

ROOT = Path(__file__).resolve().parent.parent
RECIPE = ROOT / "recipes" / "open_ended.py"


def test_the_table_has_means_over_seeds_beside_the_papers_figures():
    mauve = {"emo-seed0": 0.5, "mle-seed0": 0.25, "emo-seed1": 0.7, "mle-matched-emo-seed0": 0.4}
    assert open_ended.rows(mauve, "ptb", "openai-community/gpt2") == [
        ["ptb", "emo", "60.0 ± 14.1", "2", "79.6"],
        ["ptb", "mle", "25.0", "1", "76.1"],
        ["ptb", "mle-matched-emo", "40.0", "1", "-"],
    ]
    assert open_ended.rows(mauve, "ptb", "facebook/opt-125m")[0][-1] == "86.1"
    assert open_ended.rows(mauve, None, "openai-community/gpt2")[0] == ["own", "emo", "60.0 ± 14.1", "2", "-"]
    assert open_ended.rows(mauve, "ptb", "smollm2-135m-instruct")[1][-1] == "-"


@pytest.mark.slow
def test_the_recipe_trains_continues_and_compares(tmp_path, tiny_model_folder):
    draw = random.Random(0)
    words = ["night", "dark", "was", "the", "rain", "sea", "it", "and"]
    lines = [" ".join(draw.choices(words, k=14)) for _ in range(220)]
    (tmp_path / "texts.txt").write_text("\n".join(lines) + "\n")
    flags = [
        "--config", "open_ended_smollm2", "--model.name", str(tiny_model_folder), "--data.files", "texts.txt",
        "--data.eval_files", "texts.txt", "--data.limit", "40", "--data.eval_limit", "4", "--train.max_steps", "2",
        "--train.eval_steps", "2", "--train.max_length", "64", "--train.report_to", "none",
        "--continuations.files", "texts.txt", "--continuations.prefix", "4 words", "--continuations.continuation",
        "8 words", "--continuations.min_words", "12", "--continuations.min_characters", "10",
        "--continuations.limit", "200", "--continuations.generation.engine", "transformers",
        "--evaluation.texts.mauve_model", str(tiny_model_folder), "--name", "tiny",
    ]  # fmt: skip
    for _ in range(2):  # the second time everything is done
        done = forked.run([sys.executable, RECIPE, *flags], tmp_path)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
        table = [line.split(" | ") for line in (tmp_path / "runs" / "tiny.md").read_text().splitlines()[2:]]
        assert {row[1] for row in table} == {"mle", "emo", "energy", "mle-matched-emo", "mle-matched-energy"}
        assert all(0 < float(row[2]) <= 100 for row in table)
    steps = json.loads((tmp_path / "runs" / "tiny" / "manifest.json").read_text())["steps"]
    assert {record["attempts"] for record in steps.values()} == {1}
