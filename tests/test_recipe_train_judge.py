"""recipes/train_judge.py: choices inside the labels, no position, held-out labels, TRL, determinism, refusals."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from train_judge import main
from train_judge_head import LabeledFeatures, train_head

from instruct.engines.score_heads import HeadReading
from instruct.judging.cards import load_judge_card
from instruct.validation.card_figures import trained_on
from instruct.validation.human_sets import load_human_set


def features(pairs: int = 300, noise: float = 0.5, seed: int = 0) -> LabeledFeatures:
    """Two layers of four states and a length; people follow the second layer's first state."""
    rng = np.random.default_rng(seed)
    first, second = (rng.normal(size=(pairs, 9)).astype(np.float32) for _ in range(2))
    gap = first[:, 4] - second[:, 4] + noise * rng.normal(size=pairs)
    sign = np.where(np.abs(gap) < 0.3, 0, np.sign(gap)).astype(int)
    return LabeledFeatures((5, 9), first, second, sign, np.arange(pairs) // 3)


def accuracy(verdicts: list[str], sign: np.ndarray) -> float:
    return float(np.mean([{"first": 1, "second": -1, "tie": 0}[v] == s for v, s in zip(verdicts, sign, strict=True)]))


def test_labels_without_information_are_at_chance_in_cross_validation():
    """Verdicts on pairs come from heads that saw none of the pairs with their instruction."""
    data = features(noise=0)
    rng = np.random.default_rng(3)
    sign = np.repeat(rng.choice([-1, 1], size=100), 3)  # the same for all pairs of an instruction
    blind = LabeledFeatures(data.layers, data.first, data.second, sign, data.groups)
    assert 0.35 < accuracy(train_head(blind, HeadReading((5, 9))).verdicts, sign) < 0.6


def test_a_head_is_trained_on_ones_own_labels_and_measured_on_held_out_ones(tmp_path, tiny_model_folder, monkeypatch):
    """Of two answers of one length, the one with more z's is better."""
    for module in ("train_judge", "instruct.validation.card_figures"):
        monkeypatch.setattr(f"{module}.LEAST_PAIRS", 8)  # a fifth of forty
    monkeypatch.setattr("train_judge.LAYERS", (1, 2))
    monkeypatch.chdir(tmp_path)
    rng, rows = np.random.default_rng(0), []
    for number in range(40):
        counts = rng.choice(12, size=2, replace=False)
        answers = ["".join(rng.permutation(list("z" * n + "a" * (12 - n)))) for n in counts]
        label = "first" if counts[0] > counts[1] else "second"
        rows.append({"instruction": f"Say {number}.", "response1": answers[0], "response2": answers[1], "label": label})
    Path("mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    flags = ["--labels", "mine.jsonl", "--name", "mine", "--licence", "our own", "--model", str(tiny_model_folder)]
    monkeypatch.setattr(sys, "argv", ["train_judge.py", *flags])
    main()
    card = load_judge_card("judges/mine")
    assert card.human_agreement["held_out"]["pairs"] == 8
    assert card.human_agreement["held_out"]["accuracy"] >= 75.0
    held_out, labeled = (load_human_set(name).pairs for name in ("judges/mine/held_out.jsonl", "mine.jsonl"))
    assert (trained_on(card, labeled), trained_on(card, held_out)) == (32, 0)
