"""More than two systems: whichever side a system was judged on, every place that is asked for it shows the same."""

from __future__ import annotations

import itertools
import json
import re
import shutil
from argparse import Namespace

import pytest
from pages import LOSS, TIE, UNREAD, WIN

from instruct.analysis.results import Claim
from instruct.base.errors import GateError
from instruct.command.call import named_comparisons
from instruct.judging.store import JudgmentStore
from instruct.reporting.compare_logs import compare_logs
from instruct.reporting.comparison_tables import matrix_tables
from instruct.reporting.gate import check_gate
from instruct.reporting.report import build_report, write_report
from instruct.run.directory import RunDirectory
from instruct.scores.claims import mirrored

pytestmark = pytest.mark.usefixtures("without_figures")

SYSTEMS = "abcd"  # a beats the others most often, though each file of answers before it would make it a baseline
PROMPTS = 24


def judged_pairs(strengths: str = SYSTEMS) -> list[tuple[str, str, int]]:
    """Of every pair of systems, the candidate, the baseline, and how many prompts the candidate wins."""
    pairs = itertools.combinations(reversed(strengths), 2)
    return [(one, other, 12 - 2 * (ord(one) - ord(other))) for one, other in pairs]


@pytest.fixture
def four(run, card, write_answers, judge_pairs):
    """Four systems, each against each; two prompts of each pair are a tie and a pair without a verdict."""
    card("j")
    for name in SYSTEMS:
        write_answers(name, PROMPTS, output=f"the answer of {name}" + "!" * (ord(name) - 96))
    for candidate, baseline, wins in judged_pairs():
        verdicts = [WIN] * wins + [LOSS] * (PROMPTS - 2 - wins) + [TIE, UNREAD]
        judge_pairs(verdicts, candidate=candidate, baseline=baseline)
    return run


def swapped(run: RunDirectory) -> RunDirectory:
    """The same verdicts, each comparison made from its other side."""
    other = RunDirectory(shutil.copytree(run.folder, run.folder.parent / "swapped"))
    with JudgmentStore(other.store) as store:
        for key in store.comparisons():
            made = store.seen_judgments(key.mirrored)
            store.remove_judgments(key)
            store.add_judgments(made)
    return other


def content(claim: Claim) -> str:
    """All that it says, with two decimals."""
    return re.sub(r"\d+\.\d+(e-\d+)?", lambda number: f"{float(number[0]):.2f}", claim.model_dump_json())


def test_a_mirrored_claim_is_the_one_that_is_judged_from_the_other_side(four):
    ours, theirs = (build_report(each.folder).judges[0].comparisons for each in (four, swapped(four)))
    found = {(seen.candidate, seen.baseline): content(seen) for each in ours if (seen := mirrored(each.claim))}
    assert found.keys() == {(one.candidate, one.baseline) for one in theirs}
    for one in theirs:
        assert found[one.candidate, one.baseline] == content(one.claim)


@pytest.mark.slow
def test_every_place_that_is_asked_for_a_system_shows_all_its_comparisons(instruct, run, four):
    report = write_report(run.folder).report
    for system in SYSTEMS:
        with pytest.raises(GateError) as failed:
            check_gate(report, 99.9, candidate=system)
        others = re.findall(rf"j on {system} against (\w)", str(failed.value))
        assert sorted(others) == [other for other in SYSTEMS if other != system]
    expected = {(one, other): 100 * (wins + 0.5) / (PROMPTS - 1) for one, other, wins in judged_pairs()}
    expected |= {(other, one): 100 - rate for (one, other), rate in expected.items()}
    ((_, matrix),) = matrix_tables(report)
    rates = {(row[0], other): rate for row in matrix.rows for other, rate in zip(SYSTEMS, row[1:], strict=False)}
    shown = {pair: rate for pair, rate in rates.items() if rate is not None}
    assert shown == pytest.approx(expected)
    compared = compare_logs([run.folder], all_pairs=True)
    against: dict[str, set[str]] = {}
    for claim in compared.claims:
        against.setdefault(claim.task, set()).update((claim.candidate, claim.baseline))
    baselines = {baseline for _, baseline, _ in judged_pairs()}
    assert against == {f"j against {name}": {other for other in SYSTEMS if other != name} for name in baselines}
    for system in SYSTEMS[1:]:
        file = run.folder / "annotations.json"
        call = ["--judge", "j", "--candidate", system, "--baseline", "a", "--export", file]
        assert instruct("report", run.folder, *call)[0] == 0
        preferred = sum(row["preference"] == 2 for row in json.loads(file.read_text()))
        assert preferred == next(wins for one, other, wins in judged_pairs() if (one, other) == (system, "a"))


def test_a_comparison_that_was_judged_from_the_other_side_is_not_judged_twice(run, add_step):
    add_step("judge/j/emo_vs_mle")
    for names in (("emo", "mle"), ("mle", "emo")):
        assert named_comparisons(run, Namespace(candidate=names[0], baseline=names[1])) == [("emo", "mle")]
    assert named_comparisons(run, Namespace(candidate="mle", baseline="base")) == [("mle", "base")]
