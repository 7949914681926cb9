"""The report's exports: CSV, LaTeX, AlpacaEval's leaderboard rows, model cards."""

from __future__ import annotations

import csv
import io
import re

import pytest
import yaml
from huggingface_hub import ModelCard

from instruct.base.files import write_atomically
from instruct.judging.interchange.exchange import import_into_run
from instruct.reporting.exports import (
    cell,
    csv_text,
    escape_latex,
    evaluated_model_cards,
    figures_rows,
    latex_tables,
    leaderboards,
    win_rate_tables,
    write_exports,
)
from instruct.reporting.report import build_report, write_report

WIN, LOSS, TIE = ("first", "second"), ("second", "first"), ("tie", "tie")
UNREAD = ("unparsed", "unparsed")


@pytest.fixture
def judged(run, card, write_answers, judge_pairs):
    """Two judges on the same 8 pairs: 4 wins, 2 ties, 1 loss and 1 unparsed; 8 wins."""
    card("j", warning="a judge for tests, not for figures")
    card("k")
    for name in ("emo", "mle"):
        write_answers(name, 8)
    judge_pairs([WIN] * 4 + [TIE] * 2 + [LOSS, UNREAD], judge="j")
    judge_pairs([WIN] * 8, judge="k")
    return run


def test_a_report_writes_its_exports_reproducibly(judged):
    write_report(judged.folder)
    folder = judged.report / "exports"
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert sorted(files) == [
        "figures.csv", "leaderboard-j-vs-mle.csv", "leaderboard-k-vs-mle.csv", "model-card-emo.md", "tables.tex",
    ]  # fmt: skip
    write_report(judged.folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == files
    assert not any(b"secret" in content for content in files.values())  # no prompt, no answer


def test_csv_has_a_row_per_judge_comparison_and_policy(judged):
    rows = list(csv.DictReader(io.StringIO(csv_text(figures_rows(build_report(judged.folder))))))
    assert [(row["judge"], row["policy"], row["leading"]) for row in rows] == [
        *((judge, policy, str(policy == "strict").lower()) for judge in ("j", "k") for policy in ("strict", "single")),
        ("majority of j, k", "majority", "true"),
    ]
    first = rows[0]
    assert [first[key] for key in ("win", "tie", "loss", "unparsed", "failed", "n", "n_judged")] == list("4211087")
    assert float(first["win_rate"]) == pytest.approx(100 * 5 / 7, abs=1e-6)
    assert float(first["bound_low"]) == pytest.approx(100 * 5 / 8)
    comparison = build_report(judged.folder).judges[0].comparisons[0]
    interval = comparison.policies["strict"].claim.interval
    assert [float(first["interval_low"]), float(first["interval_high"])] == interval
    assert (first["test"], first["claims"]) == ("sign", "3")
    assert float(first["p"]) == comparison.leading_figures.claim.p == 0.6875  # 4 against 1, and one missing
    assert rows[1]["p"] == ""  # a policy other than the leading one
    assert (first["run"], first["candidate"], first["baseline"]) == ("small", "emo", "mle")
    assert first["warnings"].split("; ")[0] == "a judge for tests, not for figures"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('=HYPERLINK("http://x")', '\'=HYPERLINK("http://x")'),
        ("+1", "'+1"),
        ("-emo", "'-emo"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", "'=1"),
        ("\r\n=1", "'=1"),
        ("＝1", "'＝1"),
        ("emo=1", "emo=1"),
        ("a\nb", "a b"),
        (-1.5, -1.5),
        (True, "true"),
        (None, ""),
    ],
)
def test_no_cell_is_a_formula(text, shown):
    assert cell(text) == shown


def test_hostile_names_are_escaped_in_every_export(run, card, judge_pairs):
    name = "=cmd|'/c calc'!A1\n\\input{/etc/passwd} <script> a_b & 100% #1 $x$"
    card("j")
    judge_pairs([WIN, LOSS], candidate=name)
    files = {path.name: path.read_text(encoding="utf-8") for path in write_exports(run, build_report(run.folder))}
    rows = list(csv.DictReader(io.StringIO(files["figures.csv"])))
    assert rows[0]["candidate"] == "'" + name.replace("\n", " ")
    assert list(csv.reader(io.StringIO(files["leaderboard-j-vs-mle.csv"])))[1][0] == "'" + name.replace("\n", " ")
    assert r"\textbackslash{}input\{/etc/passwd\}" in files["tables.tex"]
    assert "\\input" not in files["tables.tex"]
    (card_name,) = (file for file in files if file.startswith("model-card-"))
    assert re.fullmatch(r"[\w.-]+", card_name)
    assert "<script>" not in files[card_name].split("\n---\n")[1]
    metadata = yaml.safe_load(files[card_name].split("---\n")[1])
    assert metadata["model-index"][0]["name"] == name.replace("\n", " ")


def test_latex_has_a_row_per_system_and_a_column_per_judge(judged):
    text = latex_tables(win_rate_tables(build_report(judged.folder)))
    assert "System & j & k \\\\\n\\midrule\nemo & 71 $\\pm$ 15 & 100.0 (63.1–100.0) \\\\\n\\bottomrule" in text
    assert "against mle" in text
    assert "j: strict, 7 pairs with a verdict; k: strict, 8 pairs with a verdict." in text
    assert text.count(r"\begin{tabular}{lrr}") == text.count(r"\end{tabular}") == 1


def test_latex_shows_a_system_that_a_judge_has_not_judged(judged, judge_pairs):
    judge_pairs([UNREAD, UNREAD], judge="k", candidate="third")
    judge_pairs([WIN], judge="j", candidate="third", baseline="other")
    text = latex_tables(win_rate_tables(build_report(judged.folder)))
    assert text.count("third & ") == 1
    assert text.count(r"\begin{table}") == 2  # a table per baseline


def test_latex_special_characters_are_escaped():
    escaped = escape_latex("\\ & % $ # _ { } ~ ^ < > | \" ` ' - [ ]")
    bare = re.sub(r"\\(text\w+\{\}|[&%$#_{}])|\{[-\[\]]\}", "", escaped)
    assert bare.split() == []
    assert escape_latex("a\nb\x00c") == "a b c"


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


def test_the_evaluation_is_added_to_an_adapters_model_card(judged):
    readme = (
        "---\nbase_model: m\ntags: [instruct]\n---\n\n# small/emo\n\nText.\n\n"
        "## Evaluation\n\nOld.\n\n## Limits\n\nSome.\n"
    )
    write_atomically(judged.adapters / "emo" / "README.md", readme)
    report = build_report(judged.folder)
    text = evaluated_model_cards(judged, report)["emo"]
    loaded = ModelCard(text)
    assert (loaded.data.base_model, loaded.data.tags, loaded.data.model_name) == ("m", ["instruct"], "emo")
    assert [result.metric_value for result in loaded.data.eval_results] == [71.43, 100.0]
    first = loaded.data.eval_results[0]
    assert (first.metric_type, first.dataset_name, first.task_type) == ("win_rate", "starter_eval", "text-generation")
    assert first.metric_name == "win rate against mle, judge j"
    assert (first.metric_args["n"], first.metric_args["without_verdict"], first.metric_args["policy"]) == (
        7,
        1,
        "strict",
    )
    interval = report.judges[0].comparisons[0].policies["strict"].claim.interval
    assert first.metric_args["interval_95"] == interval
    assert "# small/emo\n\nText." in text
    assert "Some." in text
    assert "Old." not in text
    assert text.count("## Evaluation") == 1
    assert "> **Warning:** a judge for tests, not for figures" in text
    assert "agreement with people: " in text
    assert f"| j | mle | strict | 7 | 1 | 71 | 15 | {interval[0]:.0f}–{interval[1]:.0f} |" in text
    assert (judged.adapters / "emo" / "README.md").read_text() == readme
    # Replacing an existing section leaves the card unchanged.
    write_atomically(judged.adapters / "emo" / "README.md", text)
    assert evaluated_model_cards(judged, report)["emo"] == text


def test_a_card_with_broken_metadata_gives_only_the_section(judged):
    write_atomically(judged.adapters / "emo" / "README.md", "---\n{a: [\n---\ntext\n")
    text = evaluated_model_cards(judged, build_report(judged.folder))["emo"]
    assert text.startswith("---\nmodel-index:")
    assert "## Evaluation" in text


def test_no_metric_is_written_without_a_rate(run, card, judge_pairs):
    card("j")
    judge_pairs([UNREAD])
    text = evaluated_model_cards(run, build_report(run.folder))["emo"]
    assert text.startswith("## Evaluation")
    assert "no verdict on emo" in text
    assert "model-index" not in text


def test_a_comment_has_the_claims_numbers_warnings_and_place(judged, instruct):
    _, printed, _ = instruct("report", judged.folder, "--for", "pr")
    report = build_report(judged.folder)
    assert printed.strip() == report.to_comment(str(judged.report / "report.html")).strip()
    lines = printed.splitlines()
    assert "> **Warning, j:** a judge for tests, not for figures" in lines
    headline = "k: emo beats mle: win rate 100.0 % (95 % CI 63.1–100.0, n = 8). p = 0.023, corrected for 3 claims"
    assert f"- **{headline}**" in lines
    assert "  - Warning: too few: 5 pairs with a winner of 7 judged; a finding needs at least 6 decided pairs" in lines
    assert "| emo | 8 | 4 | 2 | 1 | 1 | 71 | 24–97 |" in lines
    assert lines[-1] == f"Report: {judged.report / 'report.html'}"
    code, told, _ = instruct("report", judged.folder, "--for", "slack", "--fail-under", "90", "--allow-weak-judge")
    assert code == 4
    assert ":warning: a judge for tests, not for figures (j)" in told.splitlines()
    assert f"• *{headline}*" in told.splitlines()
    assert len(told.split("```")) == 5  # a table for each judge
    for text in (printed, told):
        assert "secret" not in text


def test_slack_shows_foreign_names_as_they_are(run, card, write_answers, judge_pairs):
    card("j")
    judge_pairs([WIN] * 7, candidate="<!channel> *b* `c`", baseline="gpt4_1106_preview")
    told = build_report(run.folder).to_slack()
    assert "<!channel>" not in told
    assert "&lt;!channel&gt; \u200b*b\u200b* \u200b`c\u200b`" in told
    assert "gpt4_1106_preview" in told
