"""What the report says about judging: reasons, costs, notes, ratings, weights, other models, missing cards."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pages import TIE, WIN, only_comparison, rows_of, warned

from instruct.base.files import write_atomically
from instruct.base.replies import PROMPT_CUT, Failure
from instruct.judging.store import JudgmentStore
from instruct.reporting.report import build_report

pytestmark = pytest.mark.usefixtures("without_figures")

ONE = {"order_policy": "one", "leading_policy": "single"}


def texts(run):
    report = build_report(run.folder)
    return report.to_markdown(), str(report)


def test_missing_verdicts_are_counted_with_their_reasons(judge_run):
    run = judge_run([
        *[{"verdict": "failed", "reason": "too long: 5000 tokens"}] * 3,
        {"verdict": "unparsed"},
        {"verdict": "tie", "reason": "equal ranks"},
        {"verdict": "first"},
    ])  # fmt: skip
    rows = rows_of(build_report(run.folder).to_html())
    assert "failed | too long: 5000 tokens | 3\ntie | equal ranks | 1\nunparsed | no reason recorded | 1" in rows
    assert "  3 x failed: too long: 5000 tokens" in texts(run)[1]


def test_the_report_says_what_stopped_the_judging(run, card, write_answers, judge_pairs, add_step):
    card("j")
    write_answers("emo", 10)
    judge_pairs([WIN] * 4)
    stopped = "the budget of 0.5 USD is used up"
    add_step("judge/j/emo_vs_mle", status="stopped", results={"stopped": stopped, "asked": 8, "notes": ["greedy"]})
    comparison = only_comparison(run)
    assert (comparison.partial, comparison.stopped) == (True, stopped)
    for text in texts(run):
        assert f"PARTIAL: judging has not finished ({stopped}): 4 of 10 pairs judged in both orders; " in text
        assert "note: greedy" in text


def test_costs_are_reported_by_judge(run, card, write_answers, judge_pairs):
    write_answers("emo", 2)
    for judge in ("dear", "free"):
        card(judge)
        judge_pairs([WIN] * 2, judge=judge)
    with JudgmentStore(run.store) as store:
        store.add_replies("dear", [("a", Failure("no"), 1.25), ("b", Failure("no"), 0.5)])
        store.add_replies("gone since", [("c", Failure("no"), 0.25)])
    report = build_report(run.folder)
    assert (report.usd, {judge.name: judge.usd for judge in report.judges}) == (2.0, {"dear": 1.75, "free": 0.0})
    for text in texts(run):
        assert "\nSpent on judging: 2.00 USD (dear 1.75).\n" in text


FIRST, SECOND = {"verdict": "first"}, {"verdict": "second"}


@pytest.mark.parametrize(
    ("verdicts", "counts", "said"),
    [
        (  # a judge that contradicts itself
            [WIN] * 3 + [("first", "first")] * 28 + [TIE],
            {"win": 3, "tie": 29, "contradicted": 28, "identical": 0, "loss": 0, "called": 1},
            ["too few pairs to compare emo with mle: 3 won, 29 tied, 0 lost (n = 32)",
             "28 of 32 pairs: the judge contradicted itself"],
        ),
        (  # identical answers, which it was not asked about
            [*[FIRST] * 5, SECOND, {"verdict": "tie"},
             *[{"verdict": "tie", "reason": "identical outputs", "key": ""}] * 3],
            {"win": 5, "tie": 4, "identical": 3, "loss": 1, "value": 70.0},
            ["n = 10, 3 identical); "],
        ),
        (  # a judge that grades its preferences
            [*[{"verdict": "second", "preference": 1.75, "position": "second"}] * 6,
             {"verdict": "first", "preference": 1.2, "position": "second"}, {"verdict": "failed"}],
            {"weighted": True, "value": 67.142857, "discrete_win_rate": 85.714286, "bounds": [58.75, 71.25]},
            ["no difference shown between emo and mle: weighted win rate 67 % (95 % CI 30–86",
             "no length-controlled rate: no instruction-difficulty file was given"],
        ),
        (
            [FIRST | {"trimmed": True}] * 2 + [SECOND],
            {"win": 2, "loss": 1},
            ["the answers of 2 of 3 pairs were trimmed to fit the judge's context"],
        ),
    ],
    ids=["contradicted", "identical", "weighted", "trimmed"],
)  # fmt: skip
def test_verdicts_are_counted_and_said(judge_run, verdicts, counts, said):
    run = judge_run(verdicts)
    comparison = only_comparison(run)
    found = {"value": comparison.claim.value, "called": comparison.counts.called, **comparison.counts.model_dump()}
    assert {key: found[key] for key in counts} == counts
    for text in texts(run):
        assert [each for each in said if each not in text] == []


def test_a_different_model_with_the_same_prompt_is_a_separate_judge(run, card, write_answers, judge_pairs, add_step):
    card("j", human_agreement={"pandalm": {"pairs": 999, "accuracy": 66.8}})
    write_answers("emo", 2)
    judge_pairs([WIN] * 2, judge="j@org/other-model")
    add_step("judge/j@org/other-model/emo_vs_mle", inputs={"judge": {"card": "j", "model": "org/other-model"}})
    (judge,) = build_report(run.folder).judges
    assert (judge.name, judge.model, judge.other_model) == ("j@org/other-model", "org/other-model", True)
    assert (judge.human_agreement, judge.agreement) == (None, "not measured")
    for text in texts(run):
        assert "do not compare these figures with published ones" in text


def test_agreement_with_people_is_reported_as_measured_and_warned_about(judge_run):
    worse = {"pairs": 999, "accuracy": 42.24, "yardstick": "the longer answer", "yardstick_accuracy": 61.06}
    run = judge_run([WIN] * 2, human_agreement={"pandalm": worse, "autoj": {"pairs": 1392}})
    assert build_report(run.folder).judges[0].human_agreement["pandalm"] == worse
    for text in texts(run):
        assert "judge agrees with people no better than the longer answer does: 42.2 % against 61.1 % of 999" in text
        assert "autoj: 1392 pairs; pandalm: accuracy 42.2 % of 999 (always the longer answer: 61.1 %)" in text


def test_an_invalid_judge_card_does_not_stop_the_report(judge_run):
    run = judge_run([WIN] * 2, human_agreement={"s": {"pairs": 9, "judge": "0" * 12}})
    Path("judges/j/prompt.txt").unlink()
    (judge,) = build_report(run.folder).judges
    assert judge.comparisons[0].counts.win == 2
    assert "prompt.txt" in judge.warnings[0]


def test_stored_winners_of_identical_answers_are_warned_about(run, judge_run, write_answers):
    judge_run([{"verdict": "first"}, {"verdict": "second"}, {"verdict": "tie"}])
    for name in ("emo", "mle"):
        write_answers(name, 3, "the same")
    assert warned(only_comparison(run)) == ["2 verdicts for one of two identical answers"]


def test_a_run_keeps_the_difficulties_that_a_report_was_given(instruct, run, card, write_answers, judge_showings):
    card("j", **ONE)
    for name in ("emo", "mle"):
        rows = [
            {"instruction": f"secret prompt {number}", "output": name * (number % 5 * (name == "emo") + 1)}
            for number in range(8)
        ]
        write_atomically(run.outputs / f"{name}.json", json.dumps(rows))
    judge_showings(*[{"verdict": "first", "preference": 1 + number / 20} for number in range(8)])
    table = "".join(f"{number},{number / 9}\n" for number in range(8))
    Path("difficulty.csv").write_text("index,instruction_difficulty\n" + table)
    Path("prompts.json").write_text(json.dumps([{"instruction": f"secret prompt {number}"} for number in range(8)]))
    flags = ("--instruction-difficulty", "difficulty.csv", "--difficulty-prompts", "prompts.json")
    assert instruct("report", run.folder, *flags)[0] == 0
    written = {path: path.read_bytes() for path in run.report.rglob("*") if path.is_file()}
    assert json.loads(written[run.report / "report.json"])["judges"][0]["comparisons"][0]["length_control"]["win_rate"]
    for name in ("difficulty.csv", "prompts.json"):
        Path(name).unlink()
    assert instruct("report", run.folder)[0] == 0
    assert {path: path.read_bytes() for path in written} == written
    # Files that do not fit a judge's pairs are noted.
    judge_showings(*[{"verdict": "first", "preference": 1.2, "instruction": f"q{n}"} for n in range(9)], judge="k")
    assert (
        "has no difficulty for 9 of 9 prompts" in build_report(run.folder).judges[1].comparisons[0].length_control.note
    )


def test_ratings_of_turns_have_the_means_of_the_official_script(run, card, judge_showings):
    """FastChat's show_result.py (single): the mean score of a model by turn, and over both turns."""
    card("j", protocol="single", verdict={"parser": "autoj_rating"}, **ONE)
    scores = {"81, turn 1": (8.0, 6.0), "81, turn 2": (5.0, 7.0), "82, turn 1": (9.0, 6.5), "82, turn 2": (4.0, 4.0)}
    judge_showings(*(FIRST | {"instruction": question, "ratings": ratings} for question, ratings in scores.items()))
    comparison = only_comparison(run)
    assert (comparison.orders, comparison.consistency, comparison.first_position_rate) == ("alone", None, None)
    found = comparison.ratings
    assert (found.candidate, found.baseline, found.n) == (6.5, 5.875, 4)
    assert [(turn.candidate, turn.baseline, turn.n) for turn in found.turns] == [(8.5, 6.25, 2), (4.5, 5.5, 2)]


def test_prompts_that_a_server_seems_to_cut_are_a_warning(run, card, write_answers, judge_pairs, add_step):
    card("j")
    write_answers("emo", 4)
    judge_pairs([WIN] * 4)
    cut = f"asked {PROMPT_CUT} (3 of 8 replies)"
    add_step("judge/j/emo_vs_mle", status="done", results={"notes": [cut, "greedy"]})
    comparison = only_comparison(run)
    assert [warning.text for warning in comparison.warnings if warning.severity == "claim"].count(cut) == 1
    assert comparison.notes == ["greedy"]
