"""recipes/scaling.py: means with error bars, and a whole sweep on a tiny model, corpus and task."""

from __future__ import annotations

import sys
from pathlib import Path

import forked
import pytest
from test_recipe_continual import write_task

RECIPE = Path(__file__).resolve().parent.parent / "recipes" / "scaling.py"


@pytest.mark.slow
def test_the_sweep_over_data_ends_in_a_table_and_a_figure(tmp_path, tiny_model_folder):
    (tmp_path / "texts.txt").write_text("night was dark in the rain by the sea of it\n" * 40)
    write_task(tmp_path)
    flags = [
        "--config", "continual_smollm2", "--model.name", str(tiny_model_folder), "--data.files", "texts.txt",
        "--train.max_length", "64", "--train.per_device_train_batch_size", "400",
        "--train.report_to", "none", "--tasks", "mood", "--systems", "{base: {objective: none}, emo: {objective: emo}}",
    ]  # fmt: skip
    done = forked.run([sys.executable, RECIPE, *flags], tmp_path)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    path = tmp_path / "runs" / "continual_smollm2_scaling_data.md"
    rows = [line.split(" | ") for line in path.read_text().splitlines()[2:]]
    points = ["25k", "51k", "76k"]
    assert [(row[0].removeprefix("| "), row[1]) for row in rows] == [(p, s) for p in points for s in ("base", "emo")]
    for row in rows:
        mean, half = map(float, row[2].split(" ± "))
        share = mean / 100
        assert half == pytest.approx(196 * (share * (1 - share) / 4) ** 0.5, abs=0.06)  # of 4 rows
    assert path.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
