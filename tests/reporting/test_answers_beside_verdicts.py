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


def rewrite(path, **changes):
    rows = [row | changes for row in json.loads(path.read_text())]
    write_atomically(path, json.dumps(rows))


def report_of(instruct, folder, *flags):
    code, _, stderr = instruct(
        "report", "--annotations", folder / "annotations.json", "--output", folder / "run", *flags
    )
    assert (code, stderr) == (0, "")
    return json.loads((folder / "run" / "report" / "report.json").read_text())


@pytest.mark.parametrize(
    ("sides", "lengths"),
    [
        ((("--outputs", "ours"), ("--reference", "theirs")), {"ours": 5, "theirs": 3}),
        ((("--outputs", "ours"),), {"ours": 5}),
    ],
)
def test_answers_of_both_sides_or_of_one_give_length_figures(instruct, files, sides, lengths):
    report = report_of(instruct, files, *(part for flag, name in sides for part in (flag, files / f"{name}.json")))
    assert {system["name"]: system["mean_characters"] for system in report["systems"]} == lengths


def refused(instruct, files, *flags):
    """What is said of a wrong call, in one line."""
    code, _, stderr = instruct("report", "--annotations", files / "annotations.json", "--output", files / "run", *flags)
    assert (code, stderr.count("\n")) == (2, 1)
    return stderr


def test_answers_that_differ_from_the_judged_ones_are_refused(instruct, files):
    rewrite(files / "annotations.json", output_2="judged")
    said = refused(instruct, files, "--outputs", files / "ours.json")
    assert "output_2: the answer to 'p 0' differs from the one in" in said
    assert "give the candidate's answers that were judged, or none" in said


@pytest.mark.parametrize(("count", "first"), [(2, "p 2"), (4, "p 3")])
def test_answers_to_different_prompts_are_refused(instruct, files, count, first):
    answers = [{"instruction": f"p {number}", "output": "o"} for number in range(count)]
    write_atomically(files / "ours.json", json.dumps(answers))
    said = refused(instruct, files, "--outputs", files / "ours.json")
    assert f"1 prompt of the other side missing, first '{first}'" in said


@pytest.mark.parametrize("holder", ["annotations", "ours"])
def test_a_column_of_clusters_counts_in_verdicts_and_in_answers(instruct, files, holder):
    rewrite(files / f"{holder}.json", doc="one")
    flags = ["--cluster-column", "doc", "--outputs", files / "ours.json"]
    (judge,) = report_of(instruct, files, *flags)["judges"]
    assert judge["comparisons"][0]["claim"]["params"]["clusters"] == 1


def test_clusters_without_answers_are_refused(instruct, files):
    rewrite(files / "annotations.json", cluster="one")
    said = refused(instruct, files)
    assert "annotations.json: has clusters but no answers, which hold them in a run; give those of a side" in said


def test_columns_that_no_file_has_are_refused(instruct, files):
    assert "annotations.json, row 1: no column 'doc'" in refused(instruct, files, "--cluster-column", "doc")
    said = refused(instruct, files, "--prompt-column", "q")
    assert said.startswith("instruct: --prompt-column requires --outputs or --reference, files of answers;")
