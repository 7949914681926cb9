"""report.schema.json: it matches the model, accepts real reports and is strict."""

from __future__ import annotations

import json

import pytest
from pages import WIN

from instruct.base.errors import InputError
from instruct.reporting.report import Report, build_report


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("human_agreement", {"set": {"kappa": None, "pairs": 1}}, "judges.0.human_agreement.set.kappa: must be"),
        ("usd", float("inf"), "has a number that is not finite"),
    ],
)
def test_a_report_that_cannot_be_rendered_is_refused_with_its_place(judge_run, tmp_path, key, value, message):
    written = json.loads(build_report(judge_run([WIN]).folder).to_json())
    file = tmp_path / "report.json"
    file.write_text(json.dumps(written))
    assert json.loads(Report.read(file).to_json()) == written
    written["judges"][0][key] = value
    file.write_text(json.dumps(written))
    with pytest.raises(InputError, match=f"report.json: .*{message}.*; write it again: instruct report RUN"):
        Report.read(file)
