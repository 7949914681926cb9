"""`report --judge-errors`: the win rates if a judge errs as `instruct validate` measured on other pairs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from instruct.data.prompts import EvalPrompt
from instruct.judging.cards import load_judge_card
from instruct.reporting.report import build_report
from instruct.reporting.sides import mirrored
from instruct.validation.agreement import measure_agreement
from instruct.validation.human_sets import HumanPair, HumanSet

SET = "elsewhere <b>|"


@pytest.fixture
def judged(tmp_path, run, card, write_answers, judge_pairs, add_step):
    """A strict judge that says emo in 130 of 200 pairs, mle in 60, and contradicts itself on 10."""
    card("j")
    (tmp_path / "judges" / "j" / "prompt.txt").write_text("{instruction} {first} {second}")
    write_answers("emo", 200)
    add_step("judge/j/emo_vs_mle", inputs={"card": load_judge_card("j").sha256()})
    judge_pairs([("first", "second")] * 130 + [("second", "first")] * 60 + [("first", "first")] * 10)
    return run


def agreement(path: Path, right: tuple[int, int], group: str = "a against b", **changes: object) -> Path:
    """An agreement.json about 200 labels, half for each side, on which the judge is right this often."""
    labels = ["first"] * 100 + ["second"] * 100
    said = ["first"] * right[0] + ["second"] * (100 - right[0] + right[1]) + ["first"] * (100 - right[1])
    pairs = [HumanPair(n, EvalPrompt(f"other {n}", "d"), "x", "y", (label,), group) for n, label in enumerate(labels)]
    human = HumanSet(SET, pairs, ("label",), Path("elsewhere.json"), "0" * 64)
    swapped = [{"first": "second", "second": "first"}[verdict] for verdict in said]
    content = measure_agreement(human, said, swapped).content()
    about = {"judge": "j", "card_sha256": load_judge_card("j").sha256(), "set": SET, "warnings": []}
    path.write_text(json.dumps(about | content | changes))
    return path


def test_every_output_says_what_the_judges_errors_would_make_of_the_win_rate(judged, instruct, tmp_path):
    file = agreement(tmp_path / "agreement.json", (85, 75))
    code, out, error = instruct("report", judged.folder, "--judge-errors", file)
    assert code == 0, error
    ((comparison,),) = (judge.comparisons for judge in build_report(judged.folder).judges)  # the run keeps it
    (rate,) = comparison.judge_errors
    assert (rate.errors, rate.labels, rate.sensitivity, rate.specificity) == ("shared", 200, 80.0, 80.0)
    assert rate.win_rate == pytest.approx(100 * (0.675 + 0.8 - 1) / 0.6, abs=1e-4)
    said = f"if the judge errs as on 200 labels of {SET} (right on 80.0 %), the win rate of emo is 79.2 % (95 % CI "
    assert said in " ".join(out.split())
    assert "the same if it is right 35.0 points more often where emo wins than where mle wins" in " ".join(out.split())
    assert comparison.leading_figures.claim.value == 67.5  # the claim stays the judge's
    folder = judged.folder / "report"
    assert "elsewhere &lt;b&gt;" in (folder / "report.html").read_text()
    assert "| emo | mle | shared | elsewhere &lt;b&gt;\\| | 200 | 80.0 | 7" in (folder / "report.md").read_text()
    assert "If the judge errs" not in "".join(build_report(judged.folder).headlines())


@pytest.mark.parametrize(("group", "order"), [("emo against mle", 1), ("mle against emo", -1)])
def test_labels_of_the_same_systems_tell_their_errors_apart(judged, instruct, tmp_path, group, order):
    """A judge that is right on 95 % of what emo wins and on 65 % of the rest says the same of equal systems."""
    file = agreement(tmp_path / "agreement.json", (95, 65)[::order], group)
    code, out, error = instruct("report", judged.folder, "--judge-errors", file)
    assert code == 0, error
    ((comparison,),) = (judge.comparisons for judge in build_report(judged.folder).judges)
    shared, apart = comparison.judge_errors
    assert (shared.errors, apart.errors, apart.sensitivity, apart.specificity) == ("shared", "apart", 95.0, 65.0)
    seen = mirrored(comparison).judge_errors[1]
    assert (seen.sensitivity_interval, seen.specificity_interval) == (
        apart.specificity_interval,
        apart.sensitivity_interval,
    )
    assert seen.interval == pytest.approx([100 - end for end in reversed(apart.interval)])
    assert shared.interval[0] > 50 > apart.interval[0]
    assert comparison.leading_figures.claim.finding == "candidate"
    assert "right on 95.0 % where emo wins, on 65.0 % where mle wins" in " ".join(out.split())
    assert any("errors differ between the systems, which could reverse" in str(each) for each in comparison.warnings)


def test_a_judge_that_is_not_shown_to_beat_chance_gives_no_win_rate(judged, instruct, tmp_path):
    file = agreement(tmp_path / "agreement.json", (70, 40), "emo against mle")
    code, out, _ = instruct("report", judged.folder, "--judge-errors", file)
    assert code == 0
    said = "no win rate follows: the labels do not show that the judge is better than chance"
    assert " ".join(out.split()).count(said) == 2
    assert f"{said}, so that it may be 0–100 %" in " ".join(out.split())


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"judge": "other"}, "is of the judge other, which did not judge in "),
        ({"card_sha256": "0" * 64}, "is of another card than judged in this run"),
        ({"card_sha256": None}, "is of another card than judged in this run"),
        ({"set": "small-labels"}, "is of this run's own labels"),
        ({"measurements": 3}, "measurements: "),
    ],
)
def test_what_is_not_about_the_judge_of_the_run_is_refused(judged, instruct, tmp_path, changes, said):
    file = agreement(tmp_path / "agreement.json", (85, 75), **changes)
    code, _, error = instruct("report", judged.folder, "--judge-errors", file)
    assert (code, error.count("\n")) == (2, 1)
    assert said in error
    assert not judged.judge_errors.exists()


def test_what_does_not_fit_the_verdicts_is_said(judged, instruct, tmp_path, add_step):
    file = agreement(tmp_path / "agreement.json", (85, 75))
    rows = [row for row in json.loads(file.read_text())["measurements"] if row["system"] != "strict"]
    agreement(file, (85, 75), warnings=["Only the first 200 pairs"], measurements=rows)
    code, out, _ = instruct("report", judged.folder, "--judge-errors", file)
    assert code == 0
    assert (
        "o win rate from the judge's errors on elsewhere <b>|: too few labels, or none under the policy strict" in out
    )
    assert f"the judge's errors on {SET}: Only the first 200 pairs" in out
    add_step("judge/j/emo_vs_mle", inputs={"card": "changed"})
    assert "is of another card than judged in this run" in str(build_report(judged.folder))
