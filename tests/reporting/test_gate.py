"""`instruct report --fail-under`: exit code 4 below, and wrong calls."""

from __future__ import annotations

import re

import pytest
import yaml
from pages import LOSS, UNREAD, WIN

from instruct.base.files import write_atomically
from instruct.reporting.report import build_report

pytestmark = pytest.mark.usefixtures("without_figures")


@pytest.fixture
def judged(run, card, write_answers, judge_pairs):
    """By j, 30 wins of 40 (75 %); by k, 20 wins of 40 (50 %)."""
    card("j")
    card("k")
    for name in ("emo", "mle"):
        write_answers(name, 40)
    judge_pairs([WIN] * 30 + [LOSS] * 10, judge="j")
    judge_pairs([WIN] * 20 + [LOSS] * 20, judge="k")
    return run


@pytest.mark.parametrize(
    ("flags", "code"),
    [
        (["50"], 0),  # both pass, one of them exactly
        (["50.01"], 4),
        (["75", "--judge", "j", "--candidate", "emo"], 0),
        (["74", "--metric", "win_rate_low", "--judge", "j"], 4),
    ],
)
def test_the_exit_code_tells_whether_every_leading_figure_passes(instruct, judged, flags, code):
    found, out, stderr = instruct("report", judged.folder, "--fail-under", *flags)
    assert found == code
    assert f"report: {judged.report / 'report.md'}" in out  # the report is written whether or not the gate passes
    if code == 4:
        assert re.fullmatch(r"instruct: below --fail-under [\d.]+: \w on emo against mle: win_rate\w* is .*\n", stderr)


def test_a_missing_rate_fails(instruct, judge_run):
    code, _, stderr = instruct("report", judge_run([UNREAD, UNREAD]).folder, "--fail-under", "0")
    assert (code, stderr) == (4, "instruct: below --fail-under 0: j on emo against mle: win_rate is undefined\n")


def test_an_unfinished_comparison_fails_whatever_its_rate(instruct, run, card, write_answers, judge_pairs):
    card("j")
    write_answers("emo", 10)
    judge_pairs([WIN] * 5)
    code, _, stderr = instruct("report", run.folder, "--fail-under", "50")
    assert (code, "judging has not finished" in stderr) == (4, True)


def test_a_configured_comparison_without_verdicts_fails(instruct, judged):
    config = judged.config() | {"comparisons": [["emo", "mle"]], "judges": [{"card": "j"}, {"card": "absent"}]}
    write_atomically(judged.folder / "config.yaml", yaml.safe_dump(config, sort_keys=False))
    code, _, stderr = instruct("report", judged.folder, "--fail-under", "10")
    assert (code, "absent on emo against mle: not judged" in stderr) == (4, True)
    assert instruct("report", judged.folder, "--fail-under", "10", "--judge", "j")[0] == 0


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--fail-under", "0.5"], "--fail-under 0.5: is below 1 %; for 50 % give 50"),
    ],
)
def test_a_wrong_call_is_refused_in_one_line(instruct, judged, flags, message):
    code, _, stderr = instruct("report", judged.folder, *flags)
    assert (code, stderr.count("\n")) == (2, 1)
    assert message in stderr


def test_a_lower_end_of_50_takes_a_claim(instruct, run, card, write_answers, judge_pairs):
    """Of two comparisons with p .04 neither is a claim, though their own intervals exclude 50."""
    card("j")
    for name in ("emo", "other", "mle"):
        write_answers(name, 50)
    for name in ("emo", "other"):
        judge_pairs([WIN] * 33 + [LOSS] * 17, candidate=name)
    report = build_report(run.folder)
    for comparison in report.judges[0].comparisons:
        claim = comparison.claim
        assert claim.p < 0.05 < claim.adjusted_p
        assert (claim.claims, claim.finding, claim.interval[0] > 50) == (2, "no difference", True)
    code, _, stderr = instruct("report", run.folder, "--fail-under", "50", "--metric", "win_rate_low")
    assert (code, stderr.count("but no difference is shown")) == (4, 2)


def test_pairs_without_a_verdict_count_against_the_worst_case(instruct, judge_run):
    run = judge_run([WIN] * 24 + [UNREAD] * 12)
    code, _, stderr = instruct("report", run.folder, "--fail-under", "60", "--metric", "win_rate_low")
    assert (code, "win_rate_low is 49.0" in stderr) == (4, True)  # of 24 in 36, at most
    code, _, stderr = instruct("report", run.folder, "--fail-under", "50", "--metric", "win_rate")
    assert (code, "but no difference is shown with 12 verdicts missing" in stderr) == (4, True)


def test_a_judge_that_warns_against_its_figures_passes_only_if_it_may(instruct, judge_run):
    run = judge_run([WIN] * 10, warning="do not quote")
    code, _, stderr = instruct("report", run.folder, "--fail-under", "50")
    assert (code, "the judge's card warns: do not quote" in stderr) == (4, True)
    assert instruct("report", run.folder, "--fail-under", "50", "--allow-weak-judge")[0] == 0
