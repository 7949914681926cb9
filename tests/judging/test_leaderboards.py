"""The judgments of Arena-Hard and MT-Bench in a report: the same figures as their own scripts."""

from __future__ import annotations

import random
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from imported import import_into_run
from json_files import write_json
from log_samples import arena_hard, rated

from instruct.reporting.report import written_report

BATTLES = {"A>>B": [1] * 3, "A>B": [1], "A=B": [0.5], "B>A": [0], "B>>A": [0] * 3}


def reported(rows: list[dict[str, Any]], folder: Path, **given: str) -> Any:
    """The only comparison in the report on a file of judgments."""
    path = write_json(folder / "judgments.jsonl", rows)
    [judge] = written_report(import_into_run(path, folder / "run", **given).folder).judges
    [comparison] = judge.comparisons
    return comparison


def test_arena_hard_judgments_have_the_score_of_show_result(tmp_path, caplog) -> None:
    """A pair is unparsed if a game has no verdict or was not played."""
    draw = random.Random(1)
    drawn = [[draw.choice((*BATTLES, None)) for _ in range(2)] for _ in range(60)]
    rows = arena_hard(drawn, baseline="o3")
    del rows[2]["games"][1]
    drawn[2][1] = None
    kept = [games for games in drawn if None not in games]
    official = [s for games in kept for s in [*BATTLES[games[1]], *(1 - s for s in BATTLES[games[0]])]]
    claim = reported(rows, tmp_path).claim
    assert claim.value == pytest.approx(100 * fmean(official), abs=1e-6)
    assert claim.counts.unparsed == len(drawn) - len(kept)
    assert "judgments.jsonl: 1 of 60 rows without two games; their pairs are unparsed" in caplog.text


def test_mt_bench_ratings_have_the_means_of_show_result(tmp_path) -> None:
    draw = random.Random(3)
    rows = [row for model in ("emo", "mle") for row in rated(draw.choices([1, 4.5, 8, 10], k=40), model=model)]
    found = reported(rows, tmp_path, baseline="mle").ratings
    for figures, turns in zip((found, *found.turns), ((1, 2), (1,), (2,)), strict=True):
        for side, model in ((figures.candidate, "emo"), (figures.baseline, "mle")):
            scores = [row["score"] for row in rows if row["model"] == model and row["turn"] in turns]
            assert side == pytest.approx(fmean(scores), abs=1e-6)
