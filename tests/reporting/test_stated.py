"""A primary outcome: stated before results exist, and said to be late where it was not."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import report_claims as simulation
from instruct.base.errors import InputError
from instruct.config import ExperimentConfig
from instruct.phases.experiment import outcomes
from instruct.reporting.build import build
from instruct.reporting.model import ReportData
from instruct.reporting.render.page import render_page
from instruct.reporting.report import Report, build_report
from instruct.reporting.stated import check_primary, state

EQUAL = [("first", "second"), ("second", "first")] * 150


@pytest.fixture
def judge(card, write_answers, judge_pairs):
    def ask(*names: str) -> None:
        for system in ("emo", "mle"):
            write_answers(system, len(EQUAL))
        for name in names:
            card(name)
            judge_pairs(EQUAL, judge=name)

    return ask


def everywhere(report: Report, sentence: str) -> bool:
    page = " ".join(render_page(report, {}, None).split())
    return all(sentence in text for text in (report.to_markdown(), str(report), page, report.to_comment()))


def test_the_primary_outcome_is_tested_alone_and_leads(run, judge):
    state(run, primary="second/win_rate")
    judge("first", "second", "third")
    report = build_report(run.folder)
    claims = {each.name: each.comparisons[0].leading_figures.claim for each in report.judges}
    assert {name: (claim.primary, claim.claims) for name, claim in claims.items()} == {
        "first": (False, 2),
        "second": (True, 1),
        "third": (False, 2),
    }
    assert everywhere(report, "Primary outcome: second: no difference shown")
    assert everywhere(report, "Secondary")
    assert str(report).startswith("Primary outcome: second: ")
    assert report.headlines()[0].startswith("Primary outcome: second: ")
    assert report.config["primary outcome"] == "second/win_rate"


def test_a_primary_outcome_that_leads_anyway_is_said_once(run, judge):
    state(run, primary="first/win_rate")
    judge("first", "second")
    report = build_report(run.folder)
    assert str(report).count("Primary outcome") == 1
    assert str(report).startswith("Primary outcome: first: ")


def test_a_primary_outcome_that_is_set_after_results_is_none(run, judge):
    judge("first", "second")
    state(run, primary="second/win_rate")
    report = build_report(run.folder)
    assert [each.comparisons[0].leading_figures.claim.claims for each in report.judges] == [2, 2]
    late = "second/win_rate was made the primary outcome after results existed: it is corrected like the others"
    assert everywhere(report, late)


def report_of(world: simulation.World, primary: str) -> ReportData:
    world.contents.manifest["steps"] |= simulation.in_advance(primary=primary)
    return build(world.contents)


def test_a_metric_of_texts_and_one_of_a_bench_may_be_primary():
    rng = np.random.default_rng(0)
    for world, primary in (
        (simulation.texts_world(rng, 100, 3, 0.0, 0.05), "rougeL"),
        (simulation.bench_world(rng, 100, 3, 0.0, 0.1), "cross-entropy"),
    ):
        report = Report.of(report_of(world, primary))
        (claim,) = (claim for claim in report.claims if claim.primary)
        assert (claim.outcome, claim.claims, claim.adjusted_p) == (primary, 1, claim.p)
        assert all(claim.primary is False for claim in report.claims if claim.outcome != primary)
        assert claim.finding is not None
        assert str(report).startswith("Primary outcome: ")
    labeled = simulation.labels_world(rng, 200, 100, 0.8, 0.9)
    corrected = Report.of(report_of(labeled, f"{labeled.contents.judged[0].key.judge}/win_rate_with_labels"))
    claim = corrected.judges[0].comparisons[0].with_labels.claim
    assert (claim.primary, claim.finding, claim.adjusted_p) == (True, "candidate", claim.p)
    assert everywhere(corrected, " labels on 100 of 200 pairs: new beats base: win rate of new ")
    nothing = report_of(simulation.texts_world(rng, 100, 1, 0.0, 0.0), "mauve")
    assert "there is no claim about the primary outcome mauve yet" in map(str, nothing.cautions)


def test_an_unknown_primary_outcome_is_refused_with_those_that_exist():
    config = ExperimentConfig.model_validate(
        {
            "name": "run",
            "model": {"name": "m"},
            "systems": {"mle": {"objective": "mle"}},
            "judges": ["autoj", "pandalm"],
            "evaluation": {"tasks": {"cards": ["sst2"], "lm_eval": ["gsm8k"]}},
        }
    )
    names = [f"{judge}/win_rate" for judge in ("autoj", "pandalm")]
    names += ["autoj/win_rate_with_labels", "pandalm/win_rate_with_labels"]
    assert list(outcomes(config)) == names
    check_primary("autoj/win_rate", names)
    with pytest.raises(
        InputError, match=r"^primary: autoj is not an outcome of this run \(its outcomes: autoj/win_rate, "
    ):
        check_primary("autoj", names)
