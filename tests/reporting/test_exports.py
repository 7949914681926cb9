"""The report's exports: claims as CSV, AlpacaEval's leaderboard rows, comments for pull requests."""

from __future__ import annotations

import csv
import io

import pytest
from pages import LOSS, TIE, UNREAD, WIN

from instruct.judging.interchange.exchange import import_into_run
from instruct.reporting.exports import cell, csv_text, leaderboards, write_exports
from instruct.reporting.report import build_report


@pytest.fixture
def judged(run, card, write_answers, judge_pairs):
    """Two judges on the same 8 pairs: 4 wins, 2 ties, 1 loss and 1 unparsed; 8 wins."""
    card("j", warning="a judge for tests, not for figures")
    card("k", leading_policy="single")
    for name in ("emo", "mle"):
        write_answers(name, 8)
    judge_pairs([WIN] * 4 + [TIE] * 2 + [LOSS, UNREAD], judge="j")
    judge_pairs([WIN] * 8, judge="k")
    return run


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('=HYPERLINK("http://x")', '\'=HYPERLINK("http://x")'),
        ("-emo", "'-emo"),
        ("\t=1", "'=1"),
        ("\r\n=1", "'=1"),
        (";=1+1", ";'=1+1"),
        ("＝1", "'＝1"),
        ("emo=1", "emo=1"),
        (-1.5, -1.5),
        (True, "true"),
        (None, ""),
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


def test_markdown_has_the_claims_numbers_and_warnings_on_one_screen(judged, instruct):
    instruct("report", judged.folder)
    written = (judged.report / "report.md").read_text()
    lines = written.splitlines()
    assert "> **Warning, j:** a judge for tests, not for figures" in lines
    headline = "k: emo beats mle: win rate 100.0 % (95 % CI 63.1–100.0, n = 8). p = 0.016, corrected for 2 claims"
    assert f"- **{headline}**" in lines
    assert "  - WARNING: too few: 5 pairs with a winner of 7 judged; a finding needs at least 6 decided pairs" in lines
    assert len(lines) < 50
    assert "secret" not in written
