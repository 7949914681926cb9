"""The warnings about answers and templates that do not fit together."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pages import warned

from instruct.base.files import sha256_of, write_atomically
from instruct.reporting.report import build_report
from instruct.run.directory import RunDirectory

WIN = ("first", "second")


@pytest.fixture
def whole(run, card, write_answers, judge_pairs, add_step) -> RunDirectory:
    """A run whose training, answers and verdicts fit together."""
    card("j")
    write_atomically(Path("judges/j/prompt.txt"), "{prompt}")
    answers = {name: sha256_of(write_answers(name, 4)) for name in ("emo", "mle")}
    for name in answers:
        add_step(f"train/{name}", inputs={"template": "alpaca"}, results={"rows": {"kept": 9}})
    add_step("answers", inputs={"template": "alpaca"})
    add_step("judge/j/emo_vs_mle", inputs={"answers": answers, "judge": {}})
    judge_pairs([WIN] * 4)
    return run


def change(run: RunDirectory, step: str, part: str, **values: object) -> None:
    manifest = run.manifest()
    manifest["steps"][step][part] |= values
    write_atomically(run.manifest_path, json.dumps(manifest))


def warnings_of(run: RunDirectory) -> list[str]:
    (judge,) = build_report(run.folder).judges
    (comparison,) = judge.comparisons
    return warned(comparison)


def test_a_consistent_run_gives_no_warning(whole):
    assert warnings_of(whole) == []


def test_answers_changed_after_judging_give_a_warning(whole, write_answers):
    write_answers("emo", 4, output="public answer")
    assert warnings_of(whole) == ["the answers of emo have changed since they were judged; judge again"]


def test_different_templates_in_training_and_generation_give_a_warning(whole):
    change(whole, "answers", "inputs", template="chat")
    assert warnings_of(whole) == [
        "the training of emo and mle: it used the template alpaca, the answers were asked for with chat"
    ]


def test_a_step_records_packages_replaced_since_the_run_began(run):
    from instruct.base.machine import versions

    with run.step("some", {}):
        pass
    recorded = run.manifest()["steps"]["some"]["versions"]
    assert recorded["torch"] == versions()["torch"]
    fresh = RunDirectory(run.folder.parent / "fresh")
    fresh.start({"name": "fresh"})
    with fresh.step("some", {}):
        pass
    assert "versions" not in fresh.manifest()["steps"]["some"]


def test_answers_that_are_gone_after_judging_give_a_warning(whole):
    (whole.outputs / "emo.json").unlink()
    (warning,) = warnings_of(whole)
    assert warning.startswith("the answers of emo are gone: lengths and texts are left out; restore ")


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
