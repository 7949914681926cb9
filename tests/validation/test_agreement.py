"""Agreement with human labels: the published figures to the count, and the rules on small sets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import f1_score
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.proportion import proportion_confint

from instruct.data.prompts import EvalPrompt
from instruct.validation.agreement import measure_agreement, yardstick_verdicts
from instruct.validation.human_sets import HumanPair, HumanSet, load_human_set
from instruct.validation.published import read_published


def human_set(labels, groups=None, lengths=None, instructions=None):
    pairs = []
    for index, given in enumerate(labels):
        first, second = lengths[index] if lengths else (1, 1)
        given = given if isinstance(given, tuple) else (given,)
        group = groups[index] if groups else None
        prompt = EvalPrompt(f"i {instructions[index] if instructions else index}", "")
        pairs.append(HumanPair(index, prompt, "x" * first, "y" * second, given, group))
    names = tuple(f"annotator{n + 1}" for n in range(len(pairs[0].labels)))
    return HumanSet("small", pairs, names, Path("small.json"), "0" * 64)


def count(found, rater, metric="accuracy", about=""):
    measured = found.get(rater, metric, about)
    return measured.details.count, measured.n


def confusion(found, rater):
    cells = [
        f"{label}, {said}" for label in ("tie", "first", "second") for said in ("tie", "first", "second", "no verdict")
    ]
    return np.reshape([found.value(rater, "confusion", cell) for cell in cells], (3, 4)).tolist()


@pytest.fixture
def known_data(shared_data, monkeypatch):
    monkeypatch.setenv("INSTRUCT_SHARED_DATA", str(shared_data))
    return shared_data


def test_pandalm_7b_has_its_published_figures(known_data):
    human = load_human_set("pandalm")
    verdicts = read_published(known_data / "pandalm" / "pandalm-7b-testset-v1.json", human.pairs).by_order["first"]
    found = measure_agreement(human, verdicts)
    assert count(found, "listed") == (667, 999)
    figures = [found.value("listed", name) for name in ("accuracy", "macro_precision", "macro_recall", "macro_f1")]
    assert [round(figure, 2) for figure in figures] == [66.77, 57.38, 57.50, 57.43]
    assert confusion(found, "listed") == [[32, 35, 38, 0], [40, 298, 84, 0], [35, 100, 337, 0]]
    pairs = ((1, 2), (1, 3), (2, 3))
    kappas = [found.value("people", "kappa", f"annotator{one} and annotator{other}") for one, other in pairs]
    assert [round(kappa, 4) for kappa in kappas] == [0.8520, 0.8789, 0.8617]
    assert [found.value("people", "labels", label) for label in ("tie", "first", "second")] == [105, 422, 472]
    assert found.get("judge", "both_orders") is None
    assert found.names[found.best] == "the longer answer"
    assert (count(found, "longer"), round(found.value("longer", "accuracy"), 2)) == ((610, 999), 61.06)
    assert found.get("longer", "decided").n == 894
    claim = found.claim()
    assert (claim.params["candidate_alone"], claim.params["baseline_alone"]) == (219, 162)
    # The pairs are of 170 instructions, and the lead is of some of them: by pairs, p is .004.
    assert found.content()["instructions"] == 170
    assert (claim.finding, 0.04 < claim.p < 0.07, claim.interval[0] <= 0) == ("no difference", True, True)


def test_autoj_has_its_published_figures_also_by_group(known_data):
    human = load_human_set("autoj")
    folder = known_data / "autoj"
    listed = read_published(folder / "pairwise_example_output.jsonl", human.pairs).by_order["first"]
    swapped = read_published(folder / "pairwise_exchange_example_output.jsonl", human.pairs, "swapped")
    found = measure_agreement(human, listed, swapped.by_order["swapped"])
    assert (count(found, "judge", "both_orders"), count(found, "judge", "consistency")) == ((765, 1392), (1161, 1392))
    assert round(found.value("judge", "both_orders"), 2) == 54.96
    assert round(found.value("judge", "consistency"), 2) == 83.41
    assert [count(found, order)[0] for order in ("listed", "swapped")] == [835, 844]
    # GAIR-NLP/auto-j, codes/leaderboard/README.md: agreement (both orders), consistency, agreement (first order)
    published = {
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
    assert {
        group: tuple(round(found.value(*figure, group), 2) for figure in figures) for group in published
    } == published
    assert (found.names[found.best], count(found, "longer")[0]) == ("the longer answer", 737)
    assert found.get("longer", "decided").n == 1019
    assert found.value("longer", "decided") == pytest.approx(100 * (727 + 6 / 2) / 1019)
    assert found.claim().finding == "candidate"


def test_both_orders_are_counted_as_autojs_authors_count_them():
    # correct twice; correct once; consistent but wrong; always the answer shown first; a tie in both
    human = human_set(["first", "first", "first", "second", "tie"])
    found = measure_agreement(
        human, ["first", "first", "second", "first", "tie"], ["second", "tie", "first", "first", "tie"]
    )
    assert [count(found, order)[0] for order in ("listed", "swapped")] == [3, 3]
    assert count(found, "judge", "both_orders") == (2, 5)
    assert count(found, "judge", "consistency") == (3, 5)
    assert count(found, "strict")[0] == 2  # first and tie; a disagreement is a tie
    assert count(found, "judge", "first_position") == (5, 7)


def test_a_missing_verdict_counts_as_wrong():
    human = human_set(["first", "second", "tie", "first"])
    found = measure_agreement(human, ["first", "unparsed", "failed", "first"], ["second", "first", "tie", "unparsed"])
    assert count(found, "listed")[0] == 2
    assert [found.value("listed", metric) for metric in ("unparsed", "failed", "best_case")] == [1, 1, 100]
    assert confusion(found, "listed") == [[0, 0, 0, 1], [0, 2, 0, 0], [0, 0, 0, 1]]
    assert found.value("listed", "macro_recall") == pytest.approx(100 / 3)
    assert count(found, "judge", "consistency") == (1, 1)  # of the pairs read in both orders
    assert count(found, "judge", "both_orders") == (1, 4)
    assert [found.value("strict", metric) for metric in ("unparsed", "failed")] == [2, 1]


def test_rate_of_verdicts_for_the_longer_answer():
    human = human_set(["first", "second", "first", "tie"], lengths=[(5, 2), (5, 2), (3, 3), (2, 9)])
    found = measure_agreement(human, ["first", "first", "first", "second"], ["second", "tie", "second", "second"])
    assert (count(found, "judge", "longer"), count(found, "people", "longer")) == ((4, 5), (1, 2))


def test_macro_figures_are_means_over_the_classes_that_have_a_label():
    human = human_set(["first"] * 6 + ["second"] * 4)
    found = measure_agreement(human, ["first"] * 5 + ["second"] * 5)
    assert found.value("listed", "macro_precision") == pytest.approx(100 * (1 + 4 / 5) / 2)
    assert found.value("listed", "macro_recall") == pytest.approx(100 * (5 / 6 + 1) / 2)
    expected = f1_score([1] * 6 + [2] * 4, [1] * 5 + [2] * 5, average="macro")
    assert found.value("listed", "macro_f1") == pytest.approx(100 * expected)
    # a judge that also says tie is wrong on those pairs, but there is no third class to average over
    tied = measure_agreement(human, ["first"] * 5 + ["tie"] + ["second"] * 4)
    assert tied.value("listed", "macro_recall") == pytest.approx(100 * (5 / 6 + 1) / 2)
    assert tied.value("listed", "macro_precision") == pytest.approx(100.0)


@pytest.mark.parametrize(("right", "n"), [(20, 20), (19, 20), (97, 100), (300, 400)])
def test_the_interval_is_wilsons_and_as_wide_as_the_exact_one_near_the_ends(right, n):
    human = human_set(["first"] * n)
    low, high = measure_agreement(human, ["first"] * right + ["tie"] * (n - right)).get("listed", "accuracy").interval
    wilson = [100 * end for end in proportion_confint(right, n, method="wilson")]
    exact = [100 * end for end in proportion_confint(right, n, method="beta")]
    expected = [min(wilson[0], exact[0]), max(wilson[1], exact[1])] if n - right < 5 else wilson
    assert [low, high] == pytest.approx(expected, abs=0.5)
    assert high - low > 100 / n


def test_pairs_of_one_instruction_are_no_independent_evidence():
    """Six copies of every pair leave the intervals of rate, kappa and lead, and the p-value, about as they were."""
    draw = np.random.default_rng(2)
    labels = draw.choice(["first", "second", "tie"], 60, p=[0.45, 0.45, 0.1]).tolist()
    said = [label if draw.random() < 0.8 else "first" for label in labels]
    once = measure_agreement(human_set(labels), said)
    places = np.repeat(np.arange(60), 6)
    copies = human_set([labels[n] for n in places], instructions=places.tolist())
    copied = measure_agreement(copies, [said[n] for n in places])
    for metric in ("accuracy", "kappa"):
        widths = [np.diff(found.get("listed", metric).interval)[0] for found in (once, copied)]
        assert widths[1] == pytest.approx(widths[0], rel=0.1)
        assert copied.value("listed", metric) == pytest.approx(once.value("listed", metric))
    assert copied.claim().p == pytest.approx(once.claim().p, abs=0.01)
    assert np.diff(copied.claim().interval) == pytest.approx(np.diff(once.claim().interval), rel=0.1)


def test_two_instructions_say_next_to_nothing():
    found = measure_agreement(human_set(["first", "second", "tie"], instructions=[0, 0, 1]), ["first", "tie", "tie"])
    low, high = found.get("listed", "accuracy").interval
    assert low < 5
    assert high > 95


def test_undefined_figures_are_none():
    found = measure_agreement(human_set(["first", "first"]), ["first", "first"])
    kappa, longer = found.get("listed", "kappa"), found.get("judge", "longer")
    assert (kappa.value, kappa.interval) == (None, None)
    assert (longer.value, longer.interval, longer.n) == (None, None, 0)
    one = measure_agreement(human_set(["tie"]), ["tie"])
    assert (one.value("listed", "accuracy"), one.get("listed", "accuracy").interval) == (100, None)
    for verdicts in ([], ["tie", "tie"]):
        with pytest.raises(ValueError, match="one verdict for each"):
            measure_agreement(human_set(["tie"]), verdicts)


def test_every_yardstick_gives_the_verdict_that_its_name_says():
    some = human_set(["first", "second", "second", "tie"], lengths=[(5, 2), (2, 5), (3, 3), (4, 1)])
    assert yardstick_verdicts(some.pairs) == {
        "longer": ["first", "second", "tie", "first"],
        "shorter": ["second", "first", "tie", "second"],
        "always_first": ["first"] * 4,
        "always_second": ["second"] * 4,
        "majority_label": ["second"] * 4,
    }


def test_the_best_yardstick_is_the_one_that_is_right_most_often():
    some = human_set(["tie"] * 3 + ["first"], lengths=[(5, 2), (2, 5), (3, 2), (4, 1)])
    found = measure_agreement(some, ["tie"] * 4)
    assert found.names[found.best] == "the majority label, tie"
    claim = found.claim()
    assert (claim.value, claim.p, claim.finding, claim.params["candidate_alone"]) == (0.0, None, "too few", 0)


def test_on_decided_pairs_a_tie_is_half_right_and_a_missing_verdict_is_wrong():
    some = human_set(["first", "first", "second", "second", "tie"])
    found = measure_agreement(some, ["first", "tie", "unparsed", "first", "tie"])
    assert found.value("listed", "decided") == pytest.approx(100 * 1.5 / 4)
    assert count(found, "listed")[0] == 2
    assert measure_agreement(human_set(["tie"]), ["tie"]).value("listed", "decided") is None


def test_the_paired_test_is_mcnemars_where_every_pair_has_its_instruction():
    draw = np.random.default_rng(5)
    labels = draw.choice(["first", "second"], 120)
    some = human_set(labels.tolist(), lengths=[(2, 1) if draw.random() < 0.6 else (1, 2) for _ in labels])
    said = [label if draw.random() < 0.7 else "tie" for label in labels.tolist()]
    found = measure_agreement(some, said)
    best = np.array(yardstick_verdicts(some.pairs)[found.best]) == labels
    judge = np.array(said) == labels
    table = [[(judge & best).sum(), (judge & ~best).sum()], [(~judge & best).sum(), (~judge & ~best).sum()]]
    claim = found.claim()
    assert claim.p == pytest.approx(mcnemar(table, exact=True).pvalue)
    assert claim.value == pytest.approx(100 * (judge.mean() - best.mean()))
    assert claim.interval[0] < claim.value < claim.interval[1]
    assert (claim.finding == "candidate") == (claim.p <= 0.05) == (claim.interval[0] > 0)
