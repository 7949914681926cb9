"""report.json and report.md of a run, from the real store and the real cards."""

from __future__ import annotations

import itertools
import json

import pytest
from pages import LOSS, WIN, only_comparison, warned

from instruct.base.errors import InputError
from instruct.reporting.provenance import config_summary
from instruct.reporting.report import build_report, write_report

VERDICTS = ["first", "second", "tie", "unparsed", "failed"]
ALL_PAIRS = list(itertools.product(VERDICTS, VERDICTS))


@pytest.fixture
def judged(judge_run):
    """A run with every possible pair of verdicts."""
    return judge_run(ALL_PAIRS)


def test_the_counts_of_every_policy_add_up(judged):
    comparison = only_comparison(judged)
    claim, counts = comparison.claim, comparison.counts
    assert (claim.policy, comparison.strict) == ("strict", None)
    # 5 x 5 pairs: 9 with a failed one, 7 more with an unparsed one, 9 readable of which 3 agree.
    assert [getattr(counts, key) for key in ("win", "tie", "loss", "unparsed", "failed")] == [1, 7, 1, 7, 9]
    assert (claim.value, claim.n, claim.missing, counts.n) == (50.0, 9, 16, 25)
    assert counts.bounds[0] <= claim.value <= counts.bounds[1]
    assert (comparison.consistency, comparison.consistency_n) == (pytest.approx(100 / 3), 9)
    assert (comparison.pairs_judged, comparison.pairs_expected, comparison.partial) == (25, 25, False)
    assert warned(comparison) == []


@pytest.mark.parametrize(
    ("parser", "leading", "counts"), [("pandalm", "upstream", [1, 1, 0]), ("autoj", "strict", [0, 2, 0])]
)
def test_a_card_can_count_verdicts_as_its_authors_do(judge_run, parser, leading, counts):
    run = judge_run([("first", "tie"), ("tie", "second")], verdict={"parser": parser}, leading_policy="upstream")
    comparison = only_comparison(run)
    assert comparison.claim.policy == leading
    assert [getattr(comparison.counts, key) for key in ("win", "tie", "loss")] == counts


def test_an_interrupted_judge_makes_a_partial_report(run, card, write_answers, judge_pairs, add_step):
    card("j")
    write_answers("emo", 10)
    add_step("judge/j/emo_vs_mle", status="started", minutes=None)
    judge_pairs([WIN, WIN, LOSS, "first"])  # stopped between the two orders of the fourth
    comparison = only_comparison(run)
    assert (comparison.pairs_judged, comparison.pairs_expected, comparison.partial) == (3, 10, True)
    assert comparison.counts.n == 3
    assert "WARNING: PARTIAL: judging has not finished: 3 of 10" in str(build_report(run.folder))


def test_verdicts_on_removed_prompts_are_counted(run, card, write_answers, judge_pairs):
    card("j")
    write_answers("emo", 2)
    judge_pairs([WIN] * 5)
    comparison = only_comparison(run)
    assert warned(comparison) == ["3 verdicts on prompts that are not among the candidate's answers"]
    assert (comparison.pairs_judged, comparison.pairs_expected, comparison.partial) == (2, 2, False)


def test_the_files_are_complete_reproducible_and_without_a_prompt_or_an_answer(judged):
    write_report(judged.folder)
    before = {file: file.read_bytes() for file in judged.report.rglob("*") if file.is_file()}
    names = {str(file.relative_to(judged.report)) for file in before}
    drawn = {f"figures/{name}.{kind}" for name in ("j", "win_rates") for kind in ("pdf", "svg")}
    assert names == {*drawn, "report.html", "report.json", "report.md", "exports/claims.csv"}
    assert [file for file, content in before.items() if b"secret" in content] == []
    assert json.loads(before[judged.report / "report.json"]) == build_report(judged.folder).model_dump()
    write_report(judged.folder)
    assert {file: file.read_bytes() for file in judged.report.rglob("*") if file.is_file()} == before


def test_a_run_without_verdicts_is_refused_in_one_line(run):
    with pytest.raises(InputError, match=r"judgments.sqlite: holds no verdicts; .*instruct judge"):
        write_report(run.folder)
    assert not run.store.exists()
    assert not run.report.exists()


def test_a_hub_token_is_not_reported():
    config = {"model": {"name": "m"}, "train": {"max_steps": 5, "hub_token": "hf_secret"}}
    assert config_summary(config, {"steps": {}})["training"] == "max_steps 5"


def test_the_report_shows_the_recorded_settings_of_the_steps(run, card, write_answers, judge_pairs):
    card("j")
    judge_pairs([WIN] * 6)
    answers = {"eval_set": "alpaca_eval", "generation": {"max_new_tokens": 9, "temperature": 0.7}}
    with run.step("answers", {"answers": answers}, config=answers):  # instruct generate --answers.eval_set alpaca_eval
        write_answers("emo", 6)
    system = {"objective": "emo", "objective_args": {"variant": "paper"}}
    given = {"model": {"name": "other/model"}, "lora": None, "train": {"max_steps": 3}, "system": system}
    ran_with = given | {
        "data": {"card": "own", "files": ["own.jsonl"]},
        "train": {"learning_rate": 0.5, "max_steps": 3},
    }
    with run.step("train/emo", {"options": {"train": {"max_steps": 3}}}, config=ran_with):
        pass
    report, _ = write_report(run.folder)
    assert report.config == {
        "base model": "other/model, full fine-tuning",
        "data": "own.jsonl",
        "training": "max_steps 3",
        "answered": "alpaca_eval, at most 9 tokens, temperature 0.7",
    }
    trained = {training.system: (training.objective, training.learning_rate) for training in report.trainings}
    assert trained["emo"] == ("emo, variant paper", 0.5)


def test_other_references_than_fastchats_are_said(run, card, judge_pairs, write_answers):
    card("mt_bench")
    path = write_answers("emo", 4)
    write_answers("mle", 4)
    judge_pairs([WIN] * 4, judge="mt_bench")
    asked = [("math", ["4"]), ("coding", None), ("writing", ["Dear"]), ("stem", None)]
    rows = json.loads(path.read_text())
    for row, (dataset, reference) in zip(rows, asked, strict=True):
        row |= {"dataset": dataset, "reference": reference}
    path.write_text(json.dumps(rows))
    assert any("references: 2 of 4 prompts" in text for text in warned(only_comparison(run)))
    for row in rows:
        row["reference"] = ["4"] if row["dataset"] in ("math", "coding") else None
    path.write_text(json.dumps(rows))
    assert not any("references" in text for text in warned(only_comparison(run)))
