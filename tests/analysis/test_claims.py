"""What a report may claim: a small grid of benchmarks/claims.py, exact where that is possible."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks import claims
from instruct.analysis.claims import agreeing_interval, finding_of


@pytest.mark.parametrize(
    ("p", "rate", "enough", "finding"),
    [
        (0.05, 60.0, True, "candidate"),
        (0.05, 40.0, True, "baseline"),
        (0.051, 60.0, True, "no difference"),
        (None, 60.0, True, "no difference"),
        (0.001, 50.0, True, "no difference"),
        (0.001, 60.0, False, "too few"),
    ],
)
def test_the_test_decides(p, rate, enough, finding):
    assert finding_of(p, rate, enough) == finding


def test_the_interval_agrees_with_the_finding():
    assert agreeing_interval([51.0, 60.0], "no difference") == [50.0, 60.0]
    assert agreeing_interval([49.0, 60.0], "candidate") == [50.000001, 60.0]
    assert agreeing_interval([40.0, 51.0], "baseline") == [40.0, 49.999999]
    assert agreeing_interval(None, "too few") is None


@pytest.mark.parametrize("n", [3, 8, 20])
def test_counted_claims_and_intervals_hold_in_every_cell(n):
    cells = list(claims.counted(n))
    assert min(cell["coverage"] for cell in cells) >= (0.92 if n >= 20 else 0.9)
    assert max(cell["claimed"] for cell in cells if cell["rate"] == 0.5) <= 0.05
    assert max(cell["sign_test"] - cell["claimed"] for cell in cells) <= 1e-9  # the power of the sign test


@pytest.mark.slow
def test_the_small_grid_holds(tmp_path: Path):
    assert claims.whole_way(tmp_path, np.random.default_rng(1), 6) == 6
    for row in claims.rows(small=True):
        if row["headline"] != "weighted":
            assert row.get("coverage", 1) >= (0.9 if row["n"] < 20 else 0.92), row
            assert row["rate"] != 0.5 or row.get("claimed", 0) <= 0.07, row
