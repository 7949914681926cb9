"""What every output shows of a report: which figures are exploratory, how many digits, and nothing that is empty.

The population: reports of the worlds that benchmarks.worlds draws, through every renderer.
"""

from __future__ import annotations

import html
import json
import re

import numpy as np
import pytest
from jsonschema import Draft202012Validator
from pages import rows_of

from benchmarks.worlds import RUNS
from instruct.reporting.build import build
from instruct.reporting.digits import number
from instruct.reporting.document import Verdict, document
from instruct.reporting.model import SCHEMA_PATH, report_schema
from instruct.reporting.report import Report
from instruct.reporting.text import EXPLORATORY


@pytest.fixture(scope="module", params=sorted(RUNS))
def report(request) -> Report:
    world = RUNS[request.param][-1]
    return Report.of(build(world(np.random.default_rng(1)).contents))


@pytest.fixture
def verdicts(report) -> list[Verdict]:
    return [block for block in document(report).opening if isinstance(block, Verdict)]


@pytest.mark.parametrize(
    ("value", "error", "shown"),
    [
        (12.345, [10.0, 14.0], "12.3"),
        (12.345, 0.0314, "12.345"),
        (0.5, [0.5, 0.5], "0.500"),
        (2048.6, None, "2,049"),
        (0.0, None, "0"),
        (None, [1.0, 2.0], "-"),
    ],
)
def test_digits_follow_the_error_or_are_three(value, error, shown):
    assert number(value, error) == shown


def test_a_complete_report_is_valid(report):
    schema = json.loads(SCHEMA_PATH.read_text(encoding="utf-8"))
    assert schema == report_schema(), "write it again: python -m instruct.reporting.model"
    Draft202012Validator.check_schema(schema)
    Draft202012Validator(schema).validate(json.loads(report.to_json()))


RATES = re.compile(r"style control|length-controlled|\(discrete\)")


def test_every_exploratory_rate_is_below_its_mark_in_every_renderer(report, verdicts):
    many = {verdict.candidate for verdict in verdicts if verdict.one_of_many}
    for verdict in verdicts:
        about, rates = verdict.exploratory
        assert EXPLORATORY in about
        assert not any(RATES.search(text) for text in (verdict.headline, *verdict.details))
        assert all(RATES.search(rate) for rate in rates)
        for text in (report.to_markdown(), *([] if many else [str(report)]), html.unescape(report.to_html())):
            flat = re.sub(r"[\\*]", "", re.sub(r"<[^>\s][^>]*>|&lt;|\s+", " ", html.unescape(text)))
            for rate in rates:
                place = flat.lower().index(" ".join(rate.split()[:4]).lower())
                assert EXPLORATORY in flat[:place]


def test_tables_say_which_of_their_figures_are_exploratory_and_have_no_empty_rows(report):
    page = report.to_html()
    titles = re.findall(r"<caption>(.*?)</caption>", page)
    assert titles
    for title in titles:
        exploratory = re.match(r"By data set|Length|Style", title)
        assert not exploratory or title.endswith(f"({EXPLORATORY})")
    headers = {*re.findall(r'<th scope="col"[^>]*>(.*?)</th>', page)}
    assert not headers & {"p", "discrete %", "labels alone %", "judge alone %"}  # corrected, or exploratory?
    assert not re.findall(r"^[^|]*(?: \| -)+$", rows_of(page), re.MULTILINE)


def test_a_headline_without_a_difference_has_no_bare_p_below_five_percent(verdicts):
    for verdict in verdicts:
        made = verdict.made
        if made.finding == "no difference" and made.p is not None and made.p < 0.05:
            assert f"before the correction for {made.claims} claims" in " ".join(verdict.details)
