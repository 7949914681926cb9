"""The report's exports: claims as CSV, AlpacaEval's leaderboard rows, comments for pull requests."""

from __future__ import annotations

import csv
import io

import pytest
from imported import import_into_run
from pages import LOSS, WIN

from instruct.reporting.exports import cell, csv_text, leaderboards, write_exports
from instruct.reporting.report import build_report


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('=HYPERLINK("http://x")', '\'=HYPERLINK("http://x")'),
        ("\r\n=1", "'=1"),
        (";=1+1", ";'=1+1"),
        ("＝1", "'＝1"),
        ("emo=1", "emo=1"),
        (-1.5, -1.5),
    ],
)
def test_no_cell_is_a_formula(text, shown):
    assert cell(text) == shown


def test_hostile_names_are_escaped_in_every_export(run, card, judge_pairs):
    name = "=cmd|'/c calc'!A1\n<script>"
    card("j", leading_policy="single")
    judge_pairs([WIN, LOSS], candidate=name)
    report = build_report(run.folder)
    files = {path.name: path.read_bytes().decode() for path in write_exports(run, report)}
    assert csv_text(report.rows()) == files["claims.csv"]
    rows = list(csv.DictReader(io.StringIO(files["claims.csv"])))
    assert rows[0]["candidate"] == "'" + name.replace("\n", " ")
    assert list(csv.reader(io.StringIO(files["leaderboard-j-vs-mle.csv"])))[1][0] == "'" + name.replace("\n", " ")


def test_the_leaderboard_row_equals_the_published_one(shared_data, tmp_path):
    from alpaca_eval import constants

    folder = shared_data / "alpaca_eval"
    for judge, board, reference in (
        ("alpaca_eval_gpt4", "data_AlpacaEval/alpaca_eval_gpt4_leaderboard.csv", None),
        (
            "weighted_alpaca_eval_gpt4_turbo",
            "data_AlpacaEval_2/weighted_alpaca_eval_gpt4_turbo_leaderboard.csv",
            folder / "reference_gpt4_1106_preview.json",
        ),
    ):
        file = folder / f"alpaca-7b.{judge}.annotations.json"
        found = leaderboards(build_report(import_into_run(file, tmp_path / judge, reference=reference).folder))
        ((ours,),) = (list(csv.DictReader(io.StringIO(csv_text(board)))) for board in found.values())
        with (constants.CURRENT_DIR / "leaderboards" / board).open() as published:
            rows = {row[""]: row for row in csv.DictReader(published)}
        theirs = rows["alpaca-7b"]
        compared = [key for key in ours if key in theirs and key not in ("", "mode") and "length_c" not in key]
        assert {"win_rate", "standard_error", "n_total", "avg_length", "n_wins"} <= set(compared)
        for key in compared:
            if ours[key]:
                assert float(ours[key]) == pytest.approx(float(theirs[key]), abs=1e-6), key
        assert ours[""] == "alpaca-7b"
