"""recipes/learnable_truth.py: its truth against enumeration, and the whole recipe with few trainings."""

from __future__ import annotations

import itertools
import json
import re
import sys
from pathlib import Path

import learnable_truth as recipe
import pytest
import torch

ROOT = Path(__file__).resolve().parent.parent


def test_the_next_token_is_as_enumeration_over_the_states_says(monkeypatch):
    for name, value in (("STATES", 3), ("VOCABULARY", 4), ("WIDTH", 2), ("LENGTH", 4)):
        monkeypatch.setattr(recipe, name, value)
    truth = recipe.Truth.draw(5)

    def joint(tokens):
        return sum(
            truth.start[states[0]]
            * torch.stack([truth.moves[a, b] for a, b in itertools.pairwise(states)] or [torch.tensor(1.0)]).prod()
            * torch.stack([truth.emissions[s, t] for s, t in zip(states, tokens, strict=True)]).prod()
            for states in itertools.product(range(3), repeat=len(tokens))
        )

    tokens = truth.sample(6, torch.Generator().manual_seed(1))
    exact = truth.log_probabilities(tokens).exp()
    assert exact.shape == (6, 3, 4)
    for row, sequence in zip(exact, tokens.tolist(), strict=True):
        for place in range(3):
            seen = sequence[: place + 1]
            expected = [float(joint([*seen, token]) / joint(seen)) for token in range(4)]
            assert row[place].tolist() == pytest.approx(expected)


def test_a_rerun_trains_nothing_again_and_the_report_says_the_same(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(recipe, "RATES", (1e-3,))
    monkeypatch.setattr(recipe, "HELD_OUT", (8, 8))
    monkeypatch.setattr(recipe, "SYSTEMS", {name: recipe.SYSTEMS[name] for name in ("mle", "emo", "mle_half")})
    monkeypatch.setattr(sys, "argv", ["recipe", "--sequences", "32", "--epochs", "1", "--seeds", "2"])
    recipe.main()
    rows = json.loads((tmp_path / "runs/learnable_truth/results.json").read_text())
    assert len(rows) == 9
    assert all(0 < value < 0.7 for row in rows for value in row["test"]["jensen_shannon"])
    report = (tmp_path / "runs/learnable_truth/report.md").read_text()
    assert "| mle_half | at T 1 |" in report
    monkeypatch.setattr(recipe, "train", None)
    recipe.main()
    assert (tmp_path / "runs/learnable_truth/report.md").read_text() == report


@pytest.mark.parametrize(
    ("name", "sequences", "column"), [("learnable_truth", 2000, 1), ("learnable_truth_500", 500, 3)]
)
def test_the_page_has_the_figures_of_the_committed_trainings(name, sequences, column):
    folder = ROOT / "docs" / "results" / "learnable_truth"
    rows = json.loads((folder / f"{name}.json").read_text())
    made = [line.split(" | ") for line in recipe.report(rows, sequences) if "(primary)" in line]
    page = [
        line.split("|") for line in (folder / "README.md").read_text().splitlines() if re.match(r"\| .*\(\.\d", line)
    ]
    assert len(made) == len(page) == 4
    for figures, cells in zip(made, page, strict=True):
        difference, low, high = map(float, re.findall(r"[-+]?\.\d+", cells[column + 1]))
        assert difference == pytest.approx(float(figures[2]), abs=6e-5)
        assert (low, high) == pytest.approx(tuple(map(float, figures[3].split(" to "))), abs=6e-5)
