"""recipes/learnable_truth.py: its truth against enumeration, and the whole recipe with few trainings."""

from __future__ import annotations

import itertools
import json
import re
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


def test_the_page_has_the_figures_of_the_committed_trainings(monkeypatch):
    monkeypatch.setattr(recipe, "frequencies", lambda seed, sequences: 0.0)  # takes long, and is in no comparison
    folder = ROOT / "docs" / "results" / "learnable_truth"
    rows = json.loads((folder / "learnable_truth.json").read_text())
    made = [line.split(" | ") for line in recipe.report(rows, 2000) if "(primary)" in line]
    page = [
        line.split("|") for line in (folder / "README.md").read_text().splitlines() if re.match(r"\| .*\(\.\d", line)
    ]
    assert len(made) == len(page) == 4
    for figures, cells in zip(made, page, strict=True):
        difference, low, high = map(float, re.findall(r"[-+]?\.\d+", cells[2]))
        assert difference == pytest.approx(float(figures[2]), abs=6e-5)
        assert (low, high) == pytest.approx(tuple(map(float, figures[3].split(" to "))), abs=6e-5)
