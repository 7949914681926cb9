"""`instruct report --annotations` on a file without texts: --outputs and --reference supply the answers."""

from __future__ import annotations

import json

import pytest

from instruct.base.files import write_atomically


@pytest.fixture
def files(tmp_path):
    """annotations.json without texts, and both sides' answers, of five and of three characters."""
    rows = [
        {"instruction": f"p {n}", "annotator": "a", "preference": 2, "generator_1": "theirs", "generator_2": "ours"}
        for n in range(3)
    ]
    write_atomically(tmp_path / "annotations.json", json.dumps(rows))
    for name, output in (("ours", "fives"), ("theirs", "two")):
        answers = [{"dataset": "d", "instruction": f"p {n}", "output": output, "generator": "x"} for n in range(3)]
        write_atomically(tmp_path / f"{name}.json", json.dumps(answers))
    return tmp_path


def report_of(instruct, folder, *flags):
    code, _, stderr = instruct(
        "report", "--annotations", folder / "annotations.json", "--output", folder / "run", *flags
    )
    assert (code, stderr) == (0, "")
    return json.loads((folder / "run" / "report" / "report.json").read_text())


def test_answers_of_both_sides_give_length_figures(instruct, files):
    report = report_of(instruct, files, "--outputs", files / "ours.json", "--reference", files / "theirs.json")
    assert {system["name"]: system["mean_characters"] for system in report["systems"]} == {"ours": 5, "theirs": 3}


def test_answers_of_one_side_are_accepted(instruct, files):
    report = report_of(instruct, files, "--outputs", files / "ours.json")
    assert [system["name"] for system in report["systems"]] == ["ours"]


def test_answers_that_differ_from_the_judged_ones_are_refused(instruct, files):
    rows = json.loads((files / "annotations.json").read_text())
    rows[1]["output_2"] = "judged"
    write_atomically(files / "annotations.json", json.dumps(rows))
    flags = ["--output", files / "run", "--outputs", files / "ours.json"]
    code, _, stderr = instruct("report", "--annotations", files / "annotations.json", *flags)
    assert (code, stderr.count("\n")) == (2, 1)
    assert "output_2: the answer to 'p 1' differs from the one in" in stderr
    assert "give the candidate's answers that were judged, or none" in stderr


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["p 0", "p 1"], "1 prompt of the other side missing, first 'p 2'"),
        (["p 0", "p 1", "p 2", "p 3"], "1 prompt of the other side missing, first 'p 3'"),
    ],
)
def test_answers_to_different_prompts_are_refused(instruct, files, rows, message):
    answers = [{"instruction": prompt, "output": "o"} for prompt in rows]
    write_atomically(files / "ours.json", json.dumps(answers))
    flags = ["--output", files / "run", "--outputs", files / "ours.json"]
    code, _, stderr = instruct("report", "--annotations", files / "annotations.json", *flags)
    assert (code, stderr.count("\n")) == (2, 1)
    assert message in stderr


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--outputs", "a.json"], "--outputs requires --annotations"),
        (["--annotations", "annotations.json", "--output", "run", "--outputs", "absent.json"], "absent.json: no such"),
        (["ours.json"], "ours.json is not a run directory"),  # answers alone, without a verdict
    ],
)
def test_a_wrong_call_is_refused_in_one_line(instruct, files, flags, message):
    code, _, stderr = instruct("report", *flags)
    assert (code, stderr.count("\n")) == (2, 1)
    assert message in stderr


@pytest.mark.parametrize("holder", ["annotations", "ours"])
def test_a_column_of_clusters_counts_in_verdicts_and_in_answers(instruct, files, holder):
    rows = json.loads((files / f"{holder}.json").read_text())
    rows = [row | {"doc": number // 2} for number, row in enumerate(rows)]
    write_atomically(files / f"{holder}.json", json.dumps(rows))
    flags = ["--cluster-column", "doc", "--outputs", files / "ours.json"]
    (judge,) = report_of(instruct, files, *flags)["judges"]
    assert judge["comparisons"][0]["policies"]["single"]["conversations"] == 2


def test_clusters_without_answers_are_refused(instruct, files):
    rows = json.loads((files / "annotations.json").read_text())
    write_atomically(files / "annotations.json", json.dumps([row | {"cluster": "one"} for row in rows]))
    code, _, stderr = instruct("report", "--annotations", files / "annotations.json", "--output", files / "run")
    assert (code, stderr.count("\n")) == (2, 1)
    assert "annotations.json: has clusters but no answers, which hold them in a run; give those of a side" in stderr


def test_columns_that_no_file_has_are_refused(instruct, files):
    call = ["report", "--annotations", files / "annotations.json", "--output", files / "run"]
    code, _, stderr = instruct(*call, "--cluster-column", "doc")
    assert (code, stderr.count("\n")) == (2, 1)
    assert "annotations.json, row 1: no column 'doc'" in stderr
    for flag in ("--prompt-column", "--response-column", "--questions"):
        code, _, stderr = instruct(*call, flag, "q")
        assert code == 2
        assert stderr.startswith(f"instruct: {flag} requires --outputs or --reference, files of answers;")
