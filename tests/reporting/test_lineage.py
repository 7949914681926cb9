"""The hashes of a report's inputs, and the warnings if they are inconsistent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pages import warned

from instruct.base.files import sha256_of, write_atomically
from instruct.judging.cards import load_judge_card
from instruct.reporting.report import Difficulty, build_report
from instruct.run.directory import RunDirectory

WIN = ("first", "second")


@pytest.fixture
def whole(run, card, write_answers, judge_pairs, add_step) -> RunDirectory:
    """A run whose training, weights, answers and verdicts fit together."""
    card("j")
    write_atomically(Path("judges/j/prompt.txt"), "{prompt}")
    answers = {name: sha256_of(write_answers(name, 4)) for name in ("emo", "mle")}
    weights = {}
    for name in answers:
        file = run.adapters / name / "adapter_model.safetensors"
        write_atomically(file, f"weights of {name}")
        weights[name] = sha256_of(file)
        add_step(
            f"train/{name}",
            inputs={"data": "d" * 64, "template": "alpaca"},
            results={"rows": {"kept": 9}, "sha256": {file.name: weights[name]}},
        )
    add_step(
        "answers",
        inputs={"weights": weights, "prompts": "e" * 64, "template": "alpaca"},
        results={name: {"sha256": digest} for name, digest in answers.items()},
    )
    add_step("judge/j/emo_vs_mle", inputs={"answers": answers, "card": load_judge_card("j").sha256(), "judge": {}})
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


def test_the_report_lists_the_hashes_of_its_inputs(whole):
    report = build_report(whole.folder)
    weights = {name: sha256_of(whole.adapters / name / "adapter_model.safetensors") for name in ("emo", "mle")}
    expected = {"evaluation prompts": "e" * 64, "judge card of j/emo_vs_mle": load_judge_card("j").sha256()}
    for name, digest in weights.items():
        expected |= {f"training data of {name}": "d" * 64, f"adapter_model.safetensors of {name}": digest}
        expected |= {f"weights that answered as {name}": digest}
    assert report.sha256 == expected
    assert {system.name: system.sha256 for system in report.systems} == {
        name: sha256_of(whole.outputs / f"{name}.json") for name in ("emo", "mle")
    }
    assert report.versions == {"instruct": "0.1.0", "torch": "2.13.0"}


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


def test_the_difficulty_file_is_identified_by_its_hash(whole, tmp_path):
    file, prompts = tmp_path / "difficulty.csv", tmp_path / "prompts.json"
    file.write_text("a")
    prompts.write_text("b")
    hashes = build_report(whole.folder, Difficulty(file, prompts, kept=True)).sha256
    assert hashes["instruction difficulties"] == sha256_of(file)
    assert hashes["instruction difficulties, prompts of"] == sha256_of(prompts)
    unread = build_report(whole.folder, Difficulty(tmp_path / "absent.csv", kept=True))  # no judge here is weighted
    assert "instruction difficulties" not in unread.sha256
