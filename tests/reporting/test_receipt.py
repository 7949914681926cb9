"""`instruct report --receipt`: what a claim survives."""

from __future__ import annotations

from instruct.reporting.receipt import receipts
from instruct.reporting.report import build_report

WIN, LOSS = ("first", "second"), ("second", "first")


def survived(folder, number=0):
    return {check.check: check.survives for check in receipts(build_report(folder))[number].checks}


def test_each_check_says_what_a_claim_survives(instruct, run, card, write_answers, judge_pairs):
    card("sure", human_agreement={"people": {"pairs": 200, "accuracy": 80.0, "kappa": 0.6}})
    card("torn", warning="do not quote")
    for name in ("emo", "mle"):
        write_answers(name, 40)
    judge_pairs([WIN] * 32 + [LOSS] * 8, judge="sure")
    judge_pairs([WIN] * 20 + [("first", "first")] * 12 + [("failed", "failed")] * 8, judge="torn")
    code, out, _ = instruct("report", run.folder, "--receipt")
    assert code == 0
    assert f"receipt: {run.report / 'receipt.md'}" in out
    assert survived(run.folder) == {
        "paired interval and test": "yes",
        "pairs without a verdict": "yes",
        "equal length": "not known",
        "equal style": "not known",
        "order of the answers": "yes",
        "the judge's trust": "yes",
        "power": "yes",
    }
    torn = survived(run.folder, 1)
    assert (torn["order of the answers"], torn["the judge's trust"]) == ("no", "not known")
    text = (run.report / "receipt.md").read_text(encoding="utf-8")
    assert "## sure: emo is better than mle (80.0 % for emo)" in text
    assert "Would survive what could be checked: 5 of 7 checks; not known: equal length, equal style." in text
    assert "Would not survive: " in text
    assert "beats" not in text
    page = (run.report / "receipt.html").read_text(encoding="utf-8")
    assert "paired interval and test" in page


def test_the_receipt_of_published_verdicts(instruct, shared_data, tmp_path):
    file = shared_data / "alpaca_eval" / "alpaca-7b.alpaca_eval_gpt4.annotations.json"
    assert instruct("report", "--annotations", file, "--output", tmp_path / "theirs", "--receipt")[0] == 0
    unknown = {check for check, survives in survived(tmp_path / "theirs").items() if survives != "yes"}
    assert unknown == {"order of the answers", "the judge's trust"}
    text = (tmp_path / "theirs" / "report" / "receipt.md").read_text(encoding="utf-8")
    assert "text_davinci_003 is better than alpaca-7b (73.5 % for text_davinci_003)" in text
    assert "| equal length | 74.3 % (71.1–77.6) | yes |" in text
