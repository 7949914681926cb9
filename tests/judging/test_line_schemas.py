"""The JSON Schemas of verdicts and labels as JSON lines: published, in sync, and as strict as the readers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from instruct.base.errors import InputError
from instruct.judging.interchange.json_lines import export_jsonl, read_lines
from instruct.judging.interchange.labels import read_labels
from instruct.judging.interchange.schemas import LABELS, VERDICTS, label_schema, verdict_schema
from instruct.judging.store import Judgment, JudgmentStore

JUDGMENT: dict[str, Any] = {
    "judge": "j", "candidate": "ours", "baseline": "theirs", "pair": 0, "instruction": "Why?", "dataset": "d",
    "position": "first", "key": "", "verdict": "first",
}  # fmt: skip
LABEL = {"candidate": "ours", "baseline": "theirs", "instruction": "Why?", "label": "tie"}


@pytest.mark.parametrize(("path", "schema"), [(VERDICTS, verdict_schema()), (LABELS, label_schema())])
def test_a_published_schema_matches_its_reader(path, schema):
    Draft202012Validator.check_schema(schema)
    assert json.loads(path.read_text()) == schema, "write it again: python -m instruct.judging.interchange.schemas"


def test_exported_verdicts_are_valid(tmp_path):
    with JudgmentStore(tmp_path / "store.sqlite") as store:
        shown = [("first", "first", None), ("second", "unparsed", "no verdict")]
        store.add_judgments(
            Judgment("j", "ours", "theirs", 0, "Why?", "d", position, "", verdict, reason)  # type: ignore[arg-type]
            for position, verdict, reason in shown
        )
        store.add_judgments(
            [Judgment("r", "ours", "theirs", 0, "Why?", "d", "first", "k l", "first", None, None, (5, 3))]
        )
        assert export_jsonl(store, tmp_path / "lines.jsonl") == 3
    for line in (tmp_path / "lines.jsonl").read_text().splitlines():
        Draft202012Validator(verdict_schema()).validate(json.loads(line))


@pytest.mark.parametrize(
    ("change", "valid"),
    [
        ({}, True),
        ({"preference": 1.25}, True),
        ({"preference": 0.5}, False),
        ({"position": "left"}, False),
        ({"verdict": "win"}, False),
        ({"pair": -1}, False),
        ({"instruction": " "}, False),
        ({"judge": None}, False),
        ({"prefrence": 1.25}, False),
        ({"ratings": [1, 2]}, True),
        ({"ratings": [1]}, False),
    ],
)
def test_the_schema_of_verdicts_is_as_strict_as_the_reader(tmp_path, change, valid):
    line = {"judgment": JUDGMENT | change, "completions": {}}
    (tmp_path / "lines.jsonl").write_text(json.dumps(line))
    assert Draft202012Validator(verdict_schema()).is_valid(line) == valid
    if valid:
        assert len(read_lines(tmp_path / "lines.jsonl")) == 1
    else:
        with pytest.raises(InputError):
            read_lines(tmp_path / "lines.jsonl")


@pytest.mark.parametrize(
    ("change", "valid"),
    [
        ({}, True),
        ({"annotator": "me"}, True),
        ({"label": "both"}, False),
        ({"score": 1}, False),
        ({"baseline": 3}, False),
    ],
)
def test_the_schema_of_labels_is_as_strict_as_the_reader(tmp_path, change, valid):
    (tmp_path / "labels.jsonl").write_text(json.dumps(LABEL | change))
    assert Draft202012Validator(label_schema()).is_valid(LABEL | change) == valid
    if valid:
        assert read_labels(tmp_path / "labels.jsonl").scores == {("ours", "theirs"): {"Why?": 0.5}}
    else:
        with pytest.raises(InputError):
            read_labels(tmp_path / "labels.jsonl")
