"""Agreement with human labels: the published figures to the count, and the rules on small sets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from instruct.data.prompts import EvalPrompt
from instruct.judging.interchange.record import FileVerdict
from instruct.judging.store import Judgment
from instruct.validation.agreement import measure_agreement, yardstick_verdicts
from instruct.validation.human_sets import HumanPair, HumanSet, load_human_set
from instruct.validation.published import Verdicts, read_published


def human_set(labels, lengths=None, instructions=None):
    pairs = []
    for index, label in enumerate(labels):
        first, second = lengths[index] if lengths else (1, 1)
        prompt = EvalPrompt(f"i {instructions[index] if instructions else index}", "")
        pairs.append(HumanPair(prompt, "x" * first, "y" * second, (label,)))
    return HumanSet("small", pairs, ("annotator1",), Path("small.json"), "0" * 64)


def measured(labels, listed, swapped=None, **about):
    """The agreement of verdicts in both orders, in the order shown."""
    orders = {"first": listed} | ({"second": swapped} if swapped else {})
    verdicts = [
        FileVerdict(Judgment("j", "first", "second", pair, str(pair), "", position, "", verdict), "")
        for position, of_order in orders.items()
        for pair, verdict in enumerate(of_order)
    ]
    return measure_agreement(human_set(labels, **about), Verdicts(verdicts, "j", "").raters())


def test_pandalm_7b_has_its_published_figures(known_data):
    human = load_human_set("pandalm")
    verdicts = read_published([known_data / "pandalm" / "pandalm-7b-testset-v1.json"], human.pairs)
    found = measure_agreement(human, verdicts.raters())
    assert (found.count("listed", "accuracy"), found.count("longer", "accuracy")) == ("667 of 999", "610 of 999")
    figures = [found.value("listed", name) for name in ("accuracy", "macro_precision", "macro_recall", "macro_f1")]
    assert [round(figure, 2) for figure in figures] == [66.77, 57.38, 57.50, 57.43]
    table = {"tie": [32, 35, 38, 0], "first": [40, 298, 84, 0], "second": [35, 100, 337, 0]}
    for label, row in table.items():
        cells = [f"{label}, {said}" for said in ("tie", "first", "second", "no verdict")]
        assert [found.value("listed", "confusion", cell) for cell in cells] == row
    pairs = ((1, 2), (1, 3), (2, 3))
    kappas = [found.value("people", "kappa", f"annotator{one} and annotator{other}") for one, other in pairs]
    assert [round(kappa, 4) for kappa in kappas] == [0.8520, 0.8789, 0.8617]
    claim = found.claims[0]
    assert (claim.baseline, claim.finding) == ("the longer answer", "no difference")
    assert (claim.params["candidate_above"], claim.params["baseline_above"]) == (219, 162)
    # The pairs are of 170 instructions, and the lead is of some of them: by pairs, p is .004.
    assert found.content()["instructions"] == 170
    assert 0.04 < claim.p < 0.07
    assert claim.interval[0] <= 0


def test_autoj_has_its_published_figures_also_by_group(known_data):
    human = load_human_set("autoj")
    folder = known_data / "autoj"
    listed = read_published([folder / "pairwise_example_output.jsonl"], human.pairs)
    swapped = read_published([folder / "pairwise_exchange_example_output.jsonl"], human.pairs, "swapped")
    found = measure_agreement(human, listed.raters() | swapped.raters())
    counts = {
        ("listed", "accuracy"): "835 of 1392",
        ("swapped", "accuracy"): "844 of 1392",
        ("judge", "both_orders"): "765 of 1392",
        ("judge", "consistency"): "1161 of 1392",
        ("longer", "accuracy"): "737 of 1392",
        ("longer", "decided"): f"{727 + 6 / 2:g} of 1019",
    }
    assert {figure: found.count(*figure) for figure in counts} == counts
    # GAIR-NLP/auto-j, codes/leaderboard/README.md: agreement (both orders), consistency, agreement (first order)
    published = {
        "": (54.96, 83.41, 59.99),
        "Summarization": (45.83, 73.61, 56.94),
        "Exam Questions": (38.89, 69.44, 41.67),
        "Code": (47.5, 75.83, 54.17),
        "Rewriting": (49.17, 74.17, 57.5),
        "Creative Writing": (59.72, 87.04, 63.43),
        "Functional Writing": (61.67, 81.67, 68.33),
        "General Communication": (55.21, 92.36, 57.29),
        "NLP Tasks": (57.58, 86.36, 62.12),
    }
    figures = (("judge", "both_orders"), ("judge", "consistency"), ("listed", "accuracy"))
    by_group = {group: tuple(round(found.value(*figure, group), 2) for figure in figures) for group in published}
    assert by_group == published
    assert (found.claims[0].baseline, found.claims[0].finding) == ("the longer answer", "candidate")


def test_a_missing_verdict_counts_as_wrong_and_a_tie_as_half_right_on_decided_pairs():
    listed, swapped = ["first", "unparsed", "failed", "tie"], ["second", "first", "tie", "unparsed"]
    found = measured(["first", "second", "tie", "first"], listed, swapped)
    counts = {
        ("listed", "accuracy"): "1 of 4",
        ("listed", "decided"): "1.5 of 3",
        ("judge", "both_orders"): "1 of 4",
        ("judge", "consistency"): "1 of 1",  # of the pairs read in both orders
        ("strict", "accuracy"): "1 of 4",
        ("judge", "first_position"): "2 of 3",
    }
    assert {figure: found.count(*figure) for figure in counts} == counts
    assert [found.value("listed", metric) for metric in ("unparsed", "failed", "best_case")] == [1, 1, 75]
    assert [found.value("strict", metric) for metric in ("unparsed", "failed")] == [2, 1]


def test_pairs_of_one_instruction_are_no_independent_evidence():
    """Six copies of every pair leave the intervals of rate, kappa and lead, and the p-value, about as they were."""
    draw = np.random.default_rng(2)
    labels = draw.choice(["first", "second", "tie"], 60, p=[0.45, 0.45, 0.1]).tolist()
    said = [label if draw.random() < 0.8 else "first" for label in labels]
    once = measured(labels, said)
    places = np.repeat(np.arange(60), 6).tolist()
    copied = measured([labels[n] for n in places], [said[n] for n in places], instructions=places)
    for metric in ("accuracy", "kappa"):
        widths = [np.diff(found.get("listed", metric).interval)[0] for found in (once, copied)]
        assert widths[1] == pytest.approx(widths[0], rel=0.1)
        assert copied.value("listed", metric) == pytest.approx(once.value("listed", metric))
    assert copied.claims[0].p == pytest.approx(once.claims[0].p, abs=0.01)
    assert np.diff(copied.claims[0].interval) == pytest.approx(np.diff(once.claims[0].interval), rel=0.1)


def test_undefined_figures_are_none():
    found = measured(["first", "first"], ["first", "first"])
    kappa, longer = found.get("listed", "kappa"), found.get("judge", "longer")
    assert (kappa.value, kappa.interval) == (None, None)
    assert (longer.value, longer.interval, longer.n) == (None, None, 0)
    one = measured(["tie"], ["tie"])
    assert (one.value("listed", "accuracy"), one.get("listed", "accuracy").interval) == (100, [2.5, 100])
    assert one.value("listed", "decided") is None


def test_every_yardstick_gives_the_verdict_that_its_name_says():
    some = human_set(["first", "second", "second", "tie"], lengths=[(5, 2), (2, 5), (3, 3), (4, 1)])
    assert yardstick_verdicts(some.pairs) == {
        "longer": ["first", "second", "tie", "first"],
        "shorter": ["second", "first", "tie", "second"],
        "always_first": ["first"] * 4,
        "always_second": ["second"] * 4,
        "majority_label": ["second"] * 4,
    }
