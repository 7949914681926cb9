"""Yardsticks: what verdicts that cost nothing agree with, and the paired test of a judge against the best of them."""

from __future__ import annotations

import numpy as np
import pytest
from statsmodels.stats.contingency_tables import mcnemar

from instruct.data.prompts import EvalPrompt
from instruct.validation.agreement import COIN, compare_with_yardsticks, yardstick_verdicts
from instruct.validation.human_sets import HumanPair, load_human_set
from instruct.validation.published import read_published

LONGER = "the longer answer"


def pairs(labels, lengths=None):
    lengths = lengths or [(1, 1)] * len(labels)
    return [
        HumanPair(index, EvalPrompt("i", ""), "x" * first, "y" * second, (label,))
        for index, (label, (first, second)) in enumerate(zip(labels, lengths, strict=True))
    ]


@pytest.fixture
def known_data(shared_data, monkeypatch):
    monkeypatch.setenv("INSTRUCT_SHARED_DATA", str(shared_data))
    return shared_data


def test_pandalm_7b_beats_the_longer_answer_on_its_own_test_set(known_data):
    human = load_human_set("pandalm")
    verdicts = read_published(known_data / "pandalm" / "pandalm-7b-testset-v1.json", human.pairs).by_order["first"]
    found = compare_with_yardsticks(human.pairs, {"listed": verdicts})
    longer, judge = found["yardsticks"][LONGER], found["judge"]["listed"]
    assert found["best"] == LONGER
    assert (longer["accuracy"]["count"], round(longer["accuracy"]["percent"], 2)) == (610, 61.06)
    assert (judge["accuracy"]["count"], found["decided_pairs"]) == (667, 894)
    assert found["paired"]["listed"]["beats"]


def test_autoj_beats_the_longer_answer_on_its_own_test_set(known_data):
    human = load_human_set("autoj")
    verdicts = read_published(known_data / "autoj" / "pairwise_example_output.jsonl", human.pairs).by_order["first"]
    found = compare_with_yardsticks(human.pairs, {"listed": verdicts})
    longer = found["yardsticks"][LONGER]
    assert (found["best"], longer["accuracy"]["count"], found["decided_pairs"]) == (LONGER, 737, 1019)
    assert longer["decided"] == pytest.approx(100 * (727 + 6 / 2) / 1019)
    assert found["judge"]["listed"]["accuracy"]["count"] == 835
    assert found["paired"]["listed"]["beats"]


def test_every_yardstick_gives_the_verdict_that_its_name_says():
    some = pairs(["first", "second", "second", "tie"], lengths=[(5, 2), (2, 5), (3, 3), (4, 1)])
    assert yardstick_verdicts(some) == {
        "the longer answer": ["first", "second", "tie", "first"],
        "the shorter answer": ["second", "first", "tie", "second"],
        "always first": ["first"] * 4,
        "always second": ["second"] * 4,
        "the majority label, second": ["second"] * 4,
    }


def test_the_best_yardstick_is_the_one_that_is_right_most_often():
    some = pairs(["tie"] * 3 + ["first"], lengths=[(5, 2), (2, 5), (3, 2), (4, 1)])
    found = compare_with_yardsticks(some, {"listed": ["tie"] * 4})
    assert found["best"] == "the majority label, tie"
    assert found["paired"]["listed"] == {
        "difference": 0.0,
        "interval": [0.0, 0.0],
        "judge_alone": 0,
        "yardstick_alone": 0,
        "p": None,
        "beats": False,
    }


def test_a_coin_is_right_on_half_of_the_pairs_that_people_decided():
    coin = compare_with_yardsticks(pairs(["first", "second", "tie"]), {})["yardsticks"][COIN]
    assert coin["accuracy"]["percent"] == pytest.approx(100 / 3)
    assert coin["decided"] == 50.0


def test_on_decided_pairs_a_tie_is_half_right_and_a_missing_verdict_is_wrong():
    some = pairs(["first", "first", "second", "second", "tie"])
    found = compare_with_yardsticks(some, {"listed": ["first", "tie", "unparsed", "first", "tie"]})
    assert found["judge"]["listed"]["decided"] == pytest.approx(100 * 1.5 / 4)
    assert found["judge"]["listed"]["accuracy"]["count"] == 2
    only_ties = compare_with_yardsticks(pairs(["tie"]), {"listed": ["tie"]})
    assert only_ties["judge"]["listed"]["decided"] is only_ties["yardsticks"][COIN]["decided"] is None


def test_the_paired_test_is_mcnemars():
    draw = np.random.default_rng(5)
    labels = draw.choice(["first", "second"], 120)
    lengths = [(2, 1) if draw.random() < 0.6 else (1, 2) for _ in labels]
    some = pairs(list(labels), lengths)
    said = [label if draw.random() < 0.7 else "tie" for label in labels]
    found = compare_with_yardsticks(some, {"listed": said})
    best = np.array([one == other for one, other in zip(yardstick_verdicts(some)[found["best"]], labels, strict=True)])
    judge = np.array([one == other for one, other in zip(said, labels, strict=True)])
    table = [[(judge & best).sum(), (judge & ~best).sum()], [(~judge & best).sum(), (~judge & ~best).sum()]]
    paired = found["paired"]["listed"]
    assert paired["p"] == pytest.approx(mcnemar(table, exact=True).pvalue)
    assert paired["difference"] == pytest.approx(100 * (judge.mean() - best.mean()))
    low, high = paired["interval"]
    assert low < paired["difference"] < high


def test_one_verdict_per_pair_is_required():
    with pytest.raises(ValueError, match="one verdict for each"):
        compare_with_yardsticks(pairs(["tie"]), {"listed": []})
