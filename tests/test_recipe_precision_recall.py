"""Figure 2 on tiny data, end to end: trained, measured with its control, written beside the paper's claim."""

from __future__ import annotations

from pathlib import Path

import pytest
from precision_recall import main

from instruct.run.directory import RunDirectory
from instruct.run.measurements import read_metrics


@pytest.mark.slow
def test_figure_2_has_every_objective_and_the_control(tiny_model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = "one two three four five six seven eight nine ten"
    Path("train.txt").write_text("".join(f"{n} {words}\n" for n in range(8)))
    flags = [
        "--config", "precision_recall_smollm2", "--name", "figure2", "--model.name", str(tiny_model), "--data.files",
        "train.txt", "--data.eval_files", "train.txt", "--train.max_steps", "1", "--train.eval_steps", "1",
        "--train.max_length", "64", "--train.report_to", "none",
        "--systems", "{mle: {objective: mle}, emo: {objective: emo, objective_args: {variant: paper}}}",
        "--evaluation.texts.held_out.files", "train.txt", "--evaluation.texts.reference_model", str(tiny_model),
    ]  # fmt: skip
    main(flags)
    found = read_metrics(RunDirectory("runs/figure2")).texts
    table = Path("runs/figure2/precision_recall.md").read_text()
    for name in ("mle", "emo", "mle-matched-emo"):
        assert f"| {name} | " in table
        assert f"{found[name]['reverse_cross_entropy'].value:.4f}" in table
    assert "The paper's claim (Figure 2" in table
