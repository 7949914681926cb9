"""Warnings about answers, templates, training data and prompts that do not fit what was judged."""

from __future__ import annotations

import json

import pytest
from pages import TIE, only_comparison, warned

from instruct.base.files import sha256_of, write_atomically
from instruct.data.overlap import overlap_text
from instruct.reporting.report import build_report
from instruct.run.directory import RunDirectory

FOUND = {"prompts": 800, "rows": 12, "exact": 2, "shared": 8, "short": 300, "found": {1: "r:1"}}


@pytest.fixture
def whole(judge_run, add_step) -> RunDirectory:
    """A run whose training, answers and verdicts fit together."""
    run = judge_run([TIE] * 4)
    answers = {name: sha256_of(run.outputs / f"{name}.json") for name in ("emo", "mle")}
    for name in answers:
        add_step(f"train/{name}", inputs={"template": "alpaca", "data": "d" * 64}, results={"rows": {"kept": 9}})
    add_step("answers", inputs={"template": "alpaca", "prompts": "p"})
    add_step("judge/j/emo_vs_mle", inputs={"answers": answers, "judge": {}})
    return run


def change(run: RunDirectory, step: str, part: str, **values: object) -> None:
    manifest = run.manifest()
    manifest["steps"][step][part] |= values
    write_atomically(run.manifest_path, json.dumps(manifest))


def warnings_of(run: RunDirectory) -> list[str]:
    return warned(only_comparison(run))


def test_answers_and_templates_that_changed_give_a_warning(whole, write_answers):
    assert warnings_of(whole) == []
    write_answers("emo", 4, output="public answer")
    assert warnings_of(whole) == ["the answers of emo have changed since they were judged; judge again"]
    (whole.outputs / "emo.json").unlink()
    assert warnings_of(whole)[0].startswith("the answers of emo are gone: lengths and texts are left out; restore ")
    write_answers("emo", 4)
    change(whole, "answers", "inputs", template="chat")
    assert warnings_of(whole) == [
        "the training of emo and mle: it used the template alpaca, the answers were asked for with chat"
    ]


def test_external_answers_are_not_compared_with_the_training(whole, tmp_path):
    path = tmp_path / "theirs.json"
    path.write_bytes((whole.outputs / "mle.json").read_bytes())
    answers = {"emo": sha256_of(whole.outputs / "emo.json"), str(path): sha256_of(path)}
    change(whole, "judge/j/emo_vs_mle", "inputs", answers=answers)
    assert warnings_of(whole) == []
    rows = json.loads(path.read_text())
    rows[0]["output"] = "another"
    write_atomically(path, json.dumps(rows))
    assert warnings_of(whole) == ["the answers of theirs have changed since they were judged; judge again"]


def test_lost_end_tokens_empty_thoughts_and_rows_left_out_give_warnings(whole):
    rows = {"read": 200, "kept": 196, "rejected": 4}
    change(whole, "train/emo", "results", rows=rows, answers={"ends": 200, "cut": 30, "empty": 2})
    change(whole, "train/mle", "results", rows={"read": 200, "kept": 200}, answers={"ends": 200, "cut": 2})
    assert warnings_of(whole) == [
        "the training of emo: 30 of 200 answers (15.0 %) lost the end token to max_length",
        "the training of emo: 2 empty thoughts, which teach not to think",
        "the training of emo: 4 of 200 rows left out as unusable",
    ]


@pytest.mark.parametrize(
    ("changes", "reported"),
    [({}, True), ({"exact": 0, "shared": 0}, False), ({"data": "e" * 64}, False)],
)
def test_evaluation_prompts_in_the_training_data_give_a_warning(whole, add_step, judge_pairs, changes, reported):
    """Not so if there are none, if other rows were looked through, or of systems from elsewhere."""
    judge_pairs([TIE] * 4, candidate="theirs", baseline="others")
    inputs = {"data": "d" * 64, "prompts": "p"}
    of = {key: value for key, value in changes.items() if key not in inputs}
    add_step("overlap", inputs={key: changes.get(key, value) for key, value in inputs.items()}, results=FOUND | of)
    report = build_report(whole.folder)
    ours, theirs = map(warned, report.judges[0].comparisons)
    assert ours == [f"{overlap_text(FOUND)}, on which emo and mle trained"] * reported
    assert not any("evaluation prompts" in text for text in theirs)
    assert (report.overlap is None) == bool(changes.keys() & inputs.keys())
