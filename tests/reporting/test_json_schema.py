"""report.schema.json: it matches the model, accepts real reports and is strict."""

from __future__ import annotations

import importlib.resources
import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pages import LOSS, TIE, UNREAD, WIN

from instruct.base.errors import InputError
from instruct.reporting.model import report_schema
from instruct.reporting.report import Report, build_report


@pytest.fixture(scope="module")
def validator() -> Draft202012Validator:
    """A validator for the packaged schema."""
    text = (importlib.resources.files("instruct.reporting") / "report.schema.json").read_text(encoding="utf-8")
    schema = json.loads(text)
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


@pytest.fixture
def written(run, card, write_answers, judge_pairs, judge_showings) -> dict[str, Any]:
    """The report.json of a run with a panel, a weighted judge, a rating judge and a missing verdict."""
    for name in ("j", "k"):
        card(name)
    for name, protocol in (("shades", "pairwise"), ("ratings", "single")):
        card(name, protocol=protocol, order_policy="one", leading_policy="single")
    for name in ("emo", "mle"):
        write_answers(name, 4)
    for name in ("j", "k"):
        judge_pairs([WIN, LOSS, TIE, UNREAD], judge=name)
    judge_pairs([WIN], judge="k", candidate="third")
    judge_showings(*[{"verdict": "first", "preference": 1.2}] * 4, judge="shades")
    judge_showings(*[{"verdict": "first", "ratings": (7.0, 5.0)}] * 4, judge="ratings")
    return json.loads(build_report(run.folder).to_json())


def test_the_schema_file_matches_the_model(validator):
    assert validator.schema == report_schema(), "write it again: python -m instruct.reporting.model"


def test_a_complete_report_is_valid(validator, written):
    validator.validate(written)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("human_agreement", {"set": {"kappa": None, "pairs": 1}}, "judges.0.human_agreement.set.kappa: must be"),
        ("usd", float("inf"), "has a number that is not finite"),
    ],
)
def test_a_report_that_cannot_be_rendered_is_refused_with_its_place(written, tmp_path, key, value, message):
    file = tmp_path / "report.json"
    file.write_text(json.dumps(written))
    assert json.loads(Report.read(file).to_json()) == written
    written["judges"][0][key] = value
    file.write_text(json.dumps(written))
    with pytest.raises(InputError, match=f"report.json: .*{message}.*; write it again: instruct report RUN"):
        Report.read(file)
