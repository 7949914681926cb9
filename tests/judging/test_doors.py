"""What a user brings in: either all of it is accounted for, or one line says what is wrong and nothing is written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from imported import annotation
from json_files import write_json

from instruct.judging.comparison import ComparisonKey
from instruct.judging.store import Judgment, JudgmentStore
from instruct.run.directory import RunDirectory


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


JUDGE = """
name: folder
description: DESCRIPTION
model: some/model
protocol: pairwise
prompt: prompt.txt
prompt_form: text
decoding: {}
verdict: {words: {first: A, second: B}}
order_policy: one
leading_policy: single
context_length: 100
licence: none
"""


@pytest.fixture
def refused(instruct, tmp_path):
    """`refused(call)`: its one line on stderr; it must end with exit code 2 and leave no file behind."""

    def files() -> dict[Path, bytes | bool]:
        return {path: path.is_file() and path.read_bytes() for path in tmp_path.rglob("*")}

    def call(*arguments: object) -> str:
        before = files()
        code, _, error = instruct(*arguments)
        assert (code, error.count("\n")) == (2, 1), error
        assert files() == before
        assert error[:-1].isprintable()
        return error

    return call


def annotations(rows: list[dict[str, object]]) -> Path:
    return write_json("annotations.json", rows)


def stored(run: str) -> list[Judgment]:
    with JudgmentStore(RunDirectory(run).store) as store:
        return store.judgments(ComparisonKey("alpaca_eval_gpt4", "ours", "theirs"))


def test_pairs_with_one_instruction_are_told_apart_by_their_id(instruct, refused):
    same = "Write a poem."
    rows = [annotation(0, 2), annotation(1, 1, instruction=same), annotation(2, 2, instruction=same)]
    assert "row 3: instruction: 'Write a poem.' is already in row 2; give each" in refused(
        "report", "--annotations", annotations(rows), "--output", "run"
    )
    rows[1]["id"], rows[2]["id"] = "6", 7
    assert instruct("report", "--annotations", annotations(rows), "--output", "run")[::2] == (0, "")
    assert [judgment.instruction for judgment in stored("run")] == ["Question 0?", "6", "7"]
    report = json.loads((RunDirectory("run").report / "report.json").read_text())
    (comparison,) = report["judges"][0]["comparisons"]
    assert (comparison["pairs_judged"], comparison["pairs_expected"]) == (3, 3)
    assert comparison["length"]["candidate_mean"] == len("our answer 0")
    assert instruct("report", "run", "--judge", "alpaca_eval_gpt4", "--export", "out.json")[0] == 0
    with open("out.json") as file:
        exported = json.load(file)
    assert [(row["instruction"], row.get("id"), row["preference"], row["output_2"]) for row in exported] == [
        ("Question 0?", None, 2, "our answer 0"), (same, "6", 1, "our answer 1"), (same, "7", 2, "our answer 2"),
    ]  # fmt: skip


def test_one_name_for_two_systems_is_refused(instruct, refused):
    rows = [annotation(0, 1.5, generator_1="ours", output_1="our answer 0"), annotation(1, 2, generator_1="ours")]
    assert (
        "row 2: generator_1 and generator_2 are both 'ours', and the answers differ or are missing; give one of them "
        "another name with `instruct report` (--candidate)"
    ) in refused("report", "--annotations", annotations(rows), "--output", "run")
    assert instruct("report", "--annotations", annotations(rows), "--output", "run", "--baseline", "theirs")[0] == 0
    assert len(stored("run")) == 2


@pytest.mark.parametrize("name", ["x" * 300, "a\nb"])
def test_a_generator_that_cannot_name_a_file_is_refused_by_the_way_to_rename_it(instruct, refused, name):
    given = annotations([annotation(0, generator_2=name)])
    error = refused("report", "--annotations", given, "--output", "run")
    assert "cannot be the name of a file of answers; rename the system with `instruct report` (--candidate or " in error
    assert instruct("report", "--annotations", given, "--output", "run", "--candidate", "llama")[0] == 0


@pytest.mark.slow
def test_an_annotator_name_never_loads_a_local_file(instruct, tmp_path):
    """The file of verdicts may come from anywhere; the folder of that name may hold any card."""
    (tmp_path / "folder").mkdir()
    card = JUDGE.replace("DESCRIPTION", "of the folder that happens to be here")
    for path in ("folder/judge.yaml", "card.yaml"):
        (tmp_path / path).write_text(card)
    (tmp_path / "folder" / "prompt.txt").write_text("{instruction} {first} {second}")
    for number, name in enumerate(("folder", "card.yaml")):
        given = annotations([annotation(0, annotator=name)])
        assert instruct("report", "--annotations", given, "--output", f"run{number}")[::2] == (0, "")
        report = json.loads((RunDirectory(f"run{number}").report / "report.json").read_text())
        assert report["judges"][0]["description"] == "known only by its name in the imported file"


def test_an_output_that_cannot_be_created_is_one_line(refused, tmp_path):
    (tmp_path / "file").write_text("mine")
    message = "file/run: cannot be created (File exists); give another folder"
    assert message in refused("report", "--annotations", annotations([annotation(0)]), "--output", "file/run")
