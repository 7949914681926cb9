"""recipes/small_model.py: the table over seeds, and the whole recipe on a few words."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import forked
import pytest
import study

ROOT = Path(__file__).resolve().parent.parent


def test_the_table_has_means_over_seeds_and_controls_below_their_systems():
    table = study.seeds_table(
        {
            "mle-seed1": {"MAUVE": 0.5},
            "mle-seed2": {"MAUVE": 0.7},
            "emo-seed1": {"MAUVE": 0.6},
            "mle-matched-emo-seed1": {"MAUVE": None},
        },
        ("MAUVE",),
    )
    assert table[2:] == [
        "| emo | 1 | 0.600 |",
        "| mle-matched-emo | 1 | - |",
        "| mle | 2 | 0.600 ± 0.141 |",
    ]


@pytest.mark.slow
def test_the_recipe_tunes_trains_continues_and_compares(tmp_path, tiny_model_folder):
    draw = random.Random(0)
    words = ["night", "dark", "was", "the", "rain", "sea", "it", "and"]
    for name, lines in (("train.txt", 120), ("valid.txt", 600), ("test.txt", 500)):
        (tmp_path / name).write_text("".join(f" {' '.join(draw.choices(words, k=12))} \n" for _ in range(lines)))
    flags = [
        "--data.files", "train.txt", "--data.eval_files", "valid.txt", "--continuations.files", "test.txt",
        "--words", "1000", "--vocabulary", "20", "--tuning-steps", "1", "--train.max_steps", "2",
        "--train.eval_steps", "2", "--train.save_steps", "2", "--train.report_to", "none", "--seeds", "[1]",
        "--continuations.limit", "240", "--evaluation.texts.mauve_model", str(tiny_model_folder),
        "--systems", "{mle: {objective: mle}, energy: {objective: energy}}",
    ]  # fmt: skip
    command = [sys.executable, ROOT / "recipes" / "small_model.py", *flags]
    first = forked.run(command, tmp_path)
    assert first.returncode == 0, first.stdout[-2000:] + first.stderr[-3000:]
    tuning = json.loads((tmp_path / "runs" / "small_model-tuning" / "tuning.json").read_text())
    assert len(tuning["validation_ce"]) == 3 + 6
    best = min((ce, name) for name, ce in tuning["validation_ce"].items() if name.startswith("mle"))[1]
    assert best == f"mle-lr{tuning['chosen']['ce']['mle']['learning_rate']:g}"
    highest = max((value, name) for name, value in tuning["validation_mauve"].items() if name.startswith("mle"))[0]
    assert tuning["validation_mauve"][f"mle-lr{tuning['chosen']['mauve']['mle']['learning_rate']:g}"] == highest
    config = json.loads((tmp_path / "runs" / "small_model" / "manifest.json").read_text())
    assert config["steps"]["train/energy-seed1"]["results"]["steps"] == 2
    table = (tmp_path / "runs" / "small_model" / "seeds.md").read_text()
    assert table in first.stdout
    named = [line.split(" | ")[0] for line in table.splitlines()[2:]]
    assert [name for name in named if "_by_mauve" not in name] == ["| energy", "| mle-matched-energy", "| mle"]
    differing = [name for name, own in tuning["chosen"]["mauve"].items() if own != tuning["chosen"]["ce"][name]]
    assert [name in " ".join(named) for name in (f"| {each}_by_mauve" for each in differing)] == [True] * len(differing)
    again = forked.run(command, tmp_path).stdout
    assert table in again
    assert "train_runtime" not in again  # nothing is trained twice
