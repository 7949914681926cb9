"""The JSON Schemas of verdicts and labels as JSON lines: published, in sync, and as strict as the readers."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import instruct.judging.interchange
from instruct.base.errors import InputError
from instruct.judging.interchange.json_lines import Label, Line, export_jsonl, read_labels, read_lines
from instruct.judging.store import VALUES, Judgment, JudgmentStore

JUDGMENT: dict[str, Any] = {
    "judge": "j", "candidate": "ours", "baseline": "theirs", "pair": 0, "instruction": "Why?", "dataset": "d",
    "position": "first", "key": "", "verdict": "first",
}  # fmt: skip
SCHEMAS = Path(instruct.judging.interchange.__file__).parent


def verdict_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of a line of verdicts; what it cannot say is in docs/judges.md."""
    schema = Line.model_json_schema()
    judgment, reply = schema["$defs"]["Judgment"], schema["$defs"]["Completion"]
    judgment["additionalProperties"] = reply["additionalProperties"] = False
    fields = judgment["properties"]
    for name, known in VALUES.items():
        fields[name]["enum"] = list(known)
    for name in ("judge", "candidate", "baseline", "instruction"):
        fields[name]["pattern"] = r"\S"
    fields["pair"]["minimum"] = 0
    fields["preference"]["anyOf"][0] |= {"minimum": 1, "maximum": 2}
    return schema


def label_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of a line of people's labels."""
    return Label.model_json_schema()


LABEL = {"candidate": "ours", "baseline": "theirs", "instruction": "Why?", "label": "tie"}


@pytest.mark.parametrize(("name", "schema"), [("verdicts", verdict_schema()), ("labels", label_schema())])
def test_a_published_schema_matches_its_reader(name, schema):
    """With UPDATE_GOLDENS=1 it is written again."""
    path = SCHEMAS / f"{name}.schema.json"
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
    Draft202012Validator.check_schema(schema)
    if os.environ.get("UPDATE_GOLDENS"):
        path.write_text(json.dumps(schema, indent=1) + "\n", encoding="utf-8")
    assert json.loads(path.read_text()) == schema


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
        assert len(read_lines(tmp_path / "lines.jsonl").judgments) == 1
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
