"""The planned test of instruction tuning: its rows, its choice of a learning rate and its conclusions."""

from __future__ import annotations

import json
from pathlib import Path

import instruction
import numpy as np
import pytest

from instruct.base.errors import InputError


def rows_file(tmp_path, count):
    path = tmp_path / "rows.jsonl"
    rows = [
        {"instruction": f"Question {n}?", "input": "in" if n % 3 else "", "output": f"Answer {n}."}
        for n in range(count)
    ]
    rows.append(rows[0])
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def test_rows_are_split_into_disjoint_sets_whatever_their_order(tmp_path, monkeypatch):
    monkeypatch.setattr(instruction, "SIZES", {"train": 20, "choose": 5, "test": 8})
    file = rows_file(tmp_path, 40)
    sets = instruction.split([file], tmp_path / "rows")
    prompts = {part: {row["instruction"] for row in rows} for part, rows in sets.items()}
    assert {part: len(own) for part, own in prompts.items()} == {"train": 20, "choose": 5, "test": 8}
    assert len(set.union(*prompts.values())) == 33
    lines = (tmp_path / "rows" / "train.jsonl").read_text(encoding="utf-8").splitlines()
    assert {json.loads(line)["instruction"] for line in lines} == prompts["train"]
    reverse = tmp_path / "reverse.jsonl"
    reverse.write_text("\n".join(reversed(Path(file).read_text(encoding="utf-8").splitlines())), encoding="utf-8")
    assert instruction.split([str(reverse)], tmp_path / "other") == sets
    monkeypatch.setattr(instruction, "SIZES", {"train": 41})
    with pytest.raises(InputError, match="40 different prompts; 41 are needed"):
        instruction.split([file], tmp_path / "rows")


def test_rates_are_extended_at_the_edge_alone():
    rates = [1e-4, 3e-4, 1e-3]
    assert instruction.beyond(3e-4, rates) is None
    assert instruction.beyond(1e-4, rates) == 3e-5
    assert instruction.beyond(1e-3, rates) == 3e-3
    assert instruction.beyond(1e-2, [*rates, 3e-3, 1e-2]) is None


def test_differences_have_the_interval_of_a_two_way_analysis():
    generator = np.random.default_rng(0)
    seeds, prompts, mean = 5, 500, 0.02
    noise = generator.normal(0, 0.004, (seeds, 1)) + generator.normal(0, 0.08, (1, prompts))
    noise = noise + generator.normal(0, 0.05, (seeds, prompts))
    first, second = 0.3 + mean + noise, np.full((seeds, prompts), 0.3)
    result = instruction.compared(first.tolist(), second.tolist())
    assert result["difference"] == pytest.approx((first - second).mean())
    assert result["low"] < result["difference"] < result["high"]
    assert result["high"] - result["difference"] == pytest.approx(
        1.98 * np.hypot(0.08 / 500**0.5, 0.004 / 5**0.5), rel=0.35
    )
    back = instruction.compared(second.tolist(), first.tolist())
    assert (back["low"], back["high"]) == pytest.approx((-result["high"], -result["low"]))


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.001, 0.02, "gain"),
        (-0.01, 0.005, "no gain detected; gains above 0.0050 excluded"),
        (-0.03, -0.001, "no gain detected; gains above 0.0000 excluded"),
        (-0.01, 0.02, "undecided"),
        (None, None, "undecided: no variation to estimate an interval from"),
    ],
)
def test_a_conclusion_is_one_of_those_planned(low, high, expected):
    assert instruction.conclusion({"low": low, "high": high}) == expected
