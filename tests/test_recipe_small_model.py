"""recipes/small_model.py: the tuning grid, the table over seeds, and the whole recipe on a few words."""

from __future__ import annotations

import json
import random
import runpy
import sys
from pathlib import Path

import forked
import pytest
import study

from instruct.config import load_config

ROOT = Path(__file__).resolve().parent.parent


def test_every_objective_is_tuned_on_the_same_learning_rates():
    config = load_config("small_model", ["--seeds", "null"])
    found = study.candidates(config, [1e-3, 1e-2], [5.0, 20.0])
    rates = {}
    for system in found.values():
        rates.setdefault(system["tunes"], set()).add(system["learning_rate"])
    assert set(rates) == set(config.systems)
    assert all(own == {1e-3, 1e-2} for own in rates.values())
    energy = [system for system in found.values() if system["tunes"] == "energy"]
    assert len(energy) == 4
    assert {system["objective_args"]["weight"] for system in energy} == {5.0, 20.0}
    assert found["mle-lr0.001"]["seed"] == found["emo-lr0.01"]["seed"]


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


def run(name: str, folder: Path, *flags: str) -> str:
    done = forked.run([sys.executable, ROOT / "recipes" / name, *flags], folder)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    return done.stdout


def test_no_corpus_is_refused_in_one_line(tmp_path, monkeypatch, capsys):
    recipe = str(ROOT / "recipes" / "small_model.py")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [recipe])
    with pytest.raises(SystemExit) as end:
        runpy.run_path(recipe, run_name="__main__")
    assert end.value.code == 2
    assert capsys.readouterr().err == "instruct: no corpus; give --data.files FILE and --data.eval_files FILE\n"


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
    first = run("small_model.py", tmp_path, *flags)
    tuning = json.loads((tmp_path / "runs" / "small_model-tuning" / "tuning.json").read_text())
    assert len(tuning["validation_ce"]) == 3 + 6
    best = min((ce, name) for name, ce in tuning["validation_ce"].items() if name.startswith("mle"))[1]
    assert best == f"mle-lr{tuning['chosen']['ce']['mle']['learning_rate']:g}"
    highest = max((value, name) for name, value in tuning["validation_mauve"].items() if name.startswith("mle"))[0]
    assert tuning["validation_mauve"][f"mle-lr{tuning['chosen']['mauve']['mle']['learning_rate']:g}"] == highest
    config = json.loads((tmp_path / "runs" / "small_model" / "manifest.json").read_text())
    assert config["steps"]["train/energy-seed1"]["results"]["steps"] == 2
    table = (tmp_path / "runs" / "small_model" / "seeds.md").read_text()
    assert table in first
    named = [line.split(" | ")[0] for line in table.splitlines()[2:]]
    assert [name for name in named if "_by_mauve" not in name] == ["| energy", "| mle-matched-energy", "| mle"]
    differing = [name for name, own in tuning["chosen"]["mauve"].items() if own != tuning["chosen"]["ce"][name]]
    assert [name in " ".join(named) for name in (f"| {each}_by_mauve" for each in differing)] == [True] * len(differing)
    again = run("small_model.py", tmp_path, *flags)
    assert table in again
    assert "train_runtime" not in again  # nothing is trained twice
