"""Agreement with human labels: the published figures to the count, and the rules on small sets."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score, f1_score

from instruct.data.prompts import EvalPrompt
from instruct.validation import rates
from instruct.validation.agreement import measure_agreement
from instruct.validation.human_sets import HumanPair, HumanSet, load_human_set
from instruct.validation.published import read_published


def human_set(labels, groups=None, lengths=None):
    pairs = []
    for index, given in enumerate(labels):
        first, second = lengths[index] if lengths else (1, 1)
        given = given if isinstance(given, tuple) else (given,)
        group = groups[index] if groups else None
        pairs.append(HumanPair(index, EvalPrompt("i", ""), "x" * first, "y" * second, given, group))
    names = tuple(f"annotator{n + 1}" for n in range(len(pairs[0].labels)))
    return HumanSet("small", pairs, names, Path("small.json"), "0" * 64)


@pytest.fixture
def known_data(shared_data, monkeypatch):
    monkeypatch.setenv("INSTRUCT_SHARED_DATA", str(shared_data))
    return shared_data


def test_pandalm_7b_has_its_published_figures(known_data):
    human = load_human_set("pandalm")
    verdicts = read_published(known_data / "pandalm" / "pandalm-7b-testset-v1.json", human.pairs).by_order["first"]
    found = measure_agreement(human, verdicts)
    listed = found["listed"]
    assert (listed["accuracy"]["count"], listed["accuracy"]["n"]) == (667, 999)
    figures = (listed["accuracy"]["percent"], listed["macro_precision"], listed["macro_recall"], listed["macro_f1"])
    assert [round(figure, 2) for figure in figures] == [66.77, 57.38, 57.50, 57.43]
    assert [row[:3] for row in listed["confusion"]] == [[32, 35, 38], [40, 298, 84], [35, 100, 337]]
    assert [row[3] for row in listed["confusion"]] == [0, 0, 0]
    kappas = {(one[-1], other[-1]): round(kappa, 4) for one, other, kappa in found["people"]["kappas"]}
    assert kappas == {("1", "2"): 0.8520, ("1", "3"): 0.8789, ("2", "3"): 0.8617}
    assert found["people"]["labels"] == {"tie": 105, "first": 422, "second": 472}
    assert found["both_orders"] is None


def test_autoj_has_its_published_figures_also_by_group(known_data):
    human = load_human_set("autoj")
    folder = known_data / "autoj"
    listed = read_published(folder / "pairwise_example_output.jsonl", human.pairs).by_order["first"]
    swapped = read_published(folder / "pairwise_exchange_example_output.jsonl", human.pairs, "swapped")
    found = measure_agreement(human, listed, swapped.by_order["swapped"])
    both, consistency = found["both_orders"], found["consistency"]
    assert (both["count"], both["n"], round(both["percent"], 2)) == (765, 1392, 54.96)
    assert (consistency["count"], consistency["n"], round(consistency["percent"], 2)) == (1161, 1392, 83.41)
    assert (found["listed"]["accuracy"]["count"], found["swapped"]["accuracy"]["count"]) == (835, 844)
    # GAIR-NLP/auto-j, codes/leaderboard/README.md: agreement (both orders), consistency, agreement (first order)
    assert [
        (
            group["group"],
            round(group["both_orders"]["percent"], 2),
            round(group["consistency"]["percent"], 2),
            round(group["accuracy"]["percent"], 2),
        )
        for group in found["groups"]
    ] == [
        ("Summarization", 45.83, 73.61, 56.94),
        ("Exam Questions", 38.89, 69.44, 41.67),
        ("Code", 47.5, 75.83, 54.17),
        ("Rewriting", 49.17, 74.17, 57.5),
        ("Creative Writing", 59.72, 87.04, 63.43),
        ("Functional Writing", 61.67, 81.67, 68.33),
        ("General Communication", 55.21, 92.36, 57.29),
        ("NLP Tasks", 57.58, 86.36, 62.12),
    ]


def test_both_orders_are_counted_as_autojs_authors_count_them():
    # correct twice; correct once; consistent but wrong; always the answer shown first; a tie in both
    human = human_set(["first", "first", "first", "second", "tie"])
    found = measure_agreement(
        human, ["first", "first", "second", "first", "tie"], ["second", "tie", "first", "first", "tie"]
    )
    assert found["listed"]["accuracy"]["count"] == 3
    assert found["swapped"]["accuracy"]["count"] == 3
    assert (found["both_orders"]["count"], found["both_orders"]["n"]) == (2, 5)
    assert (found["consistency"]["count"], found["consistency"]["n"]) == (3, 5)
    assert found["strict"]["accuracy"]["count"] == 2  # first and tie; a disagreement is a tie
    assert (found["first_position_rate"]["count"], found["first_position_rate"]["n"]) == (5, 7)


def test_a_missing_verdict_counts_as_wrong_and_widens_the_bounds():
    human = human_set(["first", "second", "tie", "first"])
    found = measure_agreement(human, ["first", "unparsed", "failed", "first"], ["second", "first", "tie", "unparsed"])
    listed = found["listed"]
    assert (listed["accuracy"]["count"], listed["unparsed"], listed["failed"]) == (2, 1, 1)
    assert listed["bounds"] == [50.0, 100.0]
    assert listed["confusion"] == [[0, 0, 0, 1], [0, 2, 0, 0], [0, 0, 0, 1]]
    assert listed["macro_recall"] == pytest.approx(100 / 3)
    assert (found["consistency"]["count"], found["consistency"]["n"]) == (1, 1)  # of the pairs read in both orders
    assert (found["both_orders"]["count"], found["both_orders"]["n"]) == (1, 4)
    assert (found["strict"]["unparsed"], found["strict"]["failed"]) == (2, 1)


def test_rate_of_verdicts_for_the_longer_answer():
    human = human_set(["first", "second", "first", "tie"], lengths=[(5, 2), (5, 2), (3, 3), (2, 9)])
    found = measure_agreement(human, ["first", "first", "first", "second"], ["second", "tie", "second", "second"])
    assert (found["longer_rate"]["count"], found["longer_rate"]["n"]) == (4, 5)
    assert (found["people"]["longer_rate"]["count"], found["people"]["longer_rate"]["n"]) == (1, 2)


def test_vectorized_statistics_equal_scikit_learns():
    draw = np.random.default_rng(3)
    gold, said = draw.integers(0, 3, 200).astype(np.int8), draw.integers(0, 4, 200).astype(np.int8)
    assert rates.kappas(gold, said, axis=-1) == pytest.approx(cohen_kappa_score(gold, said))
    expected = 100 * f1_score(gold, said, labels=[0, 1, 2], average="macro", zero_division=0)
    assert rates.macro_f1(gold, said, axis=-1) == pytest.approx(expected)


def test_macro_figures_are_means_over_the_classes_that_have_a_label():
    human = human_set(["first"] * 6 + ["second"] * 4)
    listed = measure_agreement(human, ["first"] * 5 + ["second"] * 5)["listed"]
    assert listed["macro_precision"] == pytest.approx(100 * (1 + 4 / 5) / 2)
    assert listed["macro_recall"] == pytest.approx(100 * (5 / 6 + 1) / 2)
    expected = f1_score([1] * 6 + [2] * 4, [1] * 5 + [2] * 5, average="macro")
    assert listed["macro_f1"] == pytest.approx(100 * expected)
    low, high = listed["macro_f1_interval"]
    assert low < listed["macro_f1"] <= high
    # a judge that also says tie is wrong on those pairs, but there is no third class to average over
    tied = measure_agreement(human, ["first"] * 5 + ["tie"] + ["second"] * 4)["listed"]
    assert tied["macro_recall"] == pytest.approx(100 * (5 / 6 + 1) / 2)
    assert tied["macro_precision"] == pytest.approx(100.0)
    gold, said = np.array([1, 1, 2, 2]), np.array([1, 2, 2, 0])
    assert rates.macro_f1(gold, said, axis=-1) == pytest.approx(
        100 * f1_score(gold, said, labels=[1, 2], average="macro")
    )


def test_intervals_match_the_binomial_and_are_reproducible():
    labels = ["first"] * 300 + ["second"] * 100
    human = human_set(labels)
    found = measure_agreement(human, ["first"] * 400)
    low, high = found["listed"]["accuracy"]["interval"]
    error = 1.96 * 100 * math.sqrt(0.75 * 0.25 / 400)
    assert low == pytest.approx(75 - error, abs=0.6)
    assert high == pytest.approx(75 + error, abs=0.6)
    assert found == measure_agreement(human, ["first"] * 400)


def test_undefined_figures_are_none():
    found = measure_agreement(human_set(["first", "first"]), ["first", "first"])
    assert found["listed"]["kappa"] is None
    assert found["listed"]["kappa_interval"] is None
    assert found["longer_rate"] == {"count": 0, "n": 0, "percent": None, "interval": None}
    one = measure_agreement(human_set(["tie"]), ["tie"])
    assert one["listed"]["accuracy"] == {"count": 1, "n": 1, "percent": 100.0, "interval": None}
    assert one["people"]["kappas"] == []
    with pytest.raises(ValueError, match="one verdict for each"):
        measure_agreement(human_set(["tie"]), [])
