"""The figures against AlpacaEval's own code and against numpy, scipy and counting by hand."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from counted import claimed, outcomes, tally
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from instruct.analysis.outcomes import PairResult, pair_results
from instruct.analysis.statistics import Tally, position_statistics
from instruct.judging.store import Judgment
from instruct.reporting.comparison import tally_pairs
from instruct.scores.claims import mirrored

POINTS = {"win": 1.0, "tie": 0.5, "loss": 0.0}
VERDICTS = ["first", "second", "tie", "unparsed", "failed"]

outcome_lists = st.lists(st.sampled_from(["win", "tie", "loss", "unparsed", "failed"]), max_size=60)
tallies = st.builds(Tally, *[st.integers(0, 400)] * 5)


@given(outcome_lists)
def test_counts_and_figures_equal_numpy_and_scipy(found):
    counts = tally(found)
    points = np.array([POINTS[outcome] for outcome in found if outcome in POINTS])
    assert counts.n == len(found) == counts.n_judged + counts.unparsed + counts.failed
    assert counts.n_judged == len(points)
    if len(points) == 0:
        assert counts.win_rate is None
    else:
        assert counts.win_rate == pytest.approx(100 * points.mean())
    if len(points) < 2:
        assert counts.standard_error is None
        assert (counts.interval is None) == (len(points) == 0)
    else:
        assert counts.standard_error == pytest.approx(100 * stats.sem(points), abs=1e-9)


preferences = st.one_of(st.floats(1, 2), st.sampled_from([1.0, 1.5, 2.0]))


@given(st.lists(preferences, min_size=2, max_size=40), st.integers(0, 9))
def test_weighted_figures_equal_alpaca_eval(found, missing):
    from alpaca_eval.metrics import get_winrate

    theirs = get_winrate([{"preference": preference} for preference in found])
    scores = [preference - 1 for preference in found]
    words = ["tie" if score == 0.5 else "win" if score > 0.5 else "loss" for score in scores]
    counts = tally([*words, *["unparsed"] * missing], scores)
    assert counts.win_rate == pytest.approx(theirs["win_rate"], abs=1e-9)
    assert counts.standard_error == pytest.approx(theirs["standard_error"], abs=1e-9)
    assert counts.discrete_win_rate == pytest.approx(theirs["discrete_win_rate"], abs=1e-9)
    assert (counts.win, counts.tie, counts.loss) == (theirs["n_wins"], theirs["n_draws"], theirs["n_wins_base"])
    assert counts.n_judged == theirs["n_total"]
    lost, won = (np.mean([*scores, *[value] * missing]) * 100 for value in (0.0, 1.0))
    assert counts.bounds == pytest.approx((lost, won))


def test_scores_and_verdicts_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match="2 scores for 1 verdicts"):
        Tally(win=1, failed=1, scores=(1.0, 0.5))


@given(outcome_lists)
def test_bounds_are_the_best_and_worst_case_of_the_missing_pairs(found):
    counts = tally(found)
    if not found:
        assert counts.bounds is None
        return
    unread = {"unparsed", "failed"}
    lost = tally("loss" if outcome in unread else outcome for outcome in found)
    won = tally("win" if outcome in unread else outcome for outcome in found)
    assert counts.bounds == pytest.approx((lost.win_rate, won.win_rate))
    if counts.win_rate is not None:
        assert counts.bounds[0] - 1e-9 <= counts.win_rate <= counts.bounds[1] + 1e-9


@given(tallies)
def test_swapping_the_sides_mirrors_every_figure(counts):
    other = Tally(counts.loss, counts.tie, counts.win, counts.unparsed, counts.failed)
    sides = {"candidate": "baseline", "baseline": "candidate"}
    ours, theirs = claimed(counts), claimed(other)
    assert theirs.finding == sides.get(ours.finding, ours.finding)
    assert theirs.p == ours.p
    assert mirrored(theirs).interval == pytest.approx(ours.interval, abs=1e-6)
    if counts.win_rate is not None:
        assert other.win_rate == pytest.approx(100 - counts.win_rate)
    if counts.standard_error is not None:
        assert other.standard_error == pytest.approx(counts.standard_error)


@pytest.mark.parametrize(
    ("counts", "finding"),
    [
        (Tally(), "too few"),
        (Tally(win=6), "candidate"),
        (Tally(loss=6), "baseline"),
        (Tally(win=55, loss=45), "no difference"),
        (Tally(win=3, loss=2, tie=100), "too few"),
        (Tally(win=4, loss=2, tie=100), "no difference"),
        (Tally(win=70, loss=30, failed=13), "candidate"),
        (Tally(win=70, loss=30, failed=39), "no difference"),  # 70 of 139: as likely as not by chance
    ],
)
def test_counts_give_the_finding(counts, finding):
    assert claimed(counts).finding == finding


def test_a_judge_that_fails_on_losses_alone_is_no_reason_for_a_claim():
    """Of 805 pairs half are lost, and up to 80 of the lost ones have no verdict: those with one are mostly won."""
    rng = np.random.default_rng(0)
    made, alone = 0, 0
    for wins in rng.binomial(805, 0.5, size=300):
        missing = min(805 - wins, rng.binomial(805, 0.1))
        lost = int(805 - wins - missing)
        found, complete = (
            claimed(Tally(win=int(wins), loss=lost, failed=int(missing))),
            claimed(Tally(int(wins), 0, lost)),
        )
        assert found.interval[0] <= complete.interval[0]
        assert found.p >= complete.p
        made += found.finding in ("candidate", "baseline")
        alone += complete.finding in ("candidate", "baseline")
    assert made / 300 <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 300)
    assert alone / 300 > 0.7


def test_the_worst_case_is_of_conversations_and_of_what_weighs_most():
    turns = [PairResult(f"{n}, {t}", "d", "win", 1.0, conversation=str(n)) for n in range(12) for t in range(2)]
    lost = [replace(turn, outcome="failed", score=None) if turn.instruction.endswith("1") else turn for turn in turns]
    assert claimed(tally_pairs(turns)).finding == "candidate"
    assert (claimed(tally_pairs(lost)).finding, tally_pairs(lost).bounds) == ("no difference", (50, 100))
    heavy = [PairResult(str(n), "d", "win", 0.9, weight=1 + 2 * (n > 0)) for n in range(3)]
    assert tally_pairs([*heavy, PairResult("x", "d", "failed", None)]).bounds == pytest.approx((63, 93))


def judgments(pairs):
    return [
        Judgment("j", "emo", "mle", number, f"prompt {number}", "d", position, "k", verdict)
        for number, pair in enumerate(pairs)
        for position, verdict in zip(("first", "second"), pair, strict=True)
    ]


def test_policies_on_every_pair_of_verdicts_equal_a_table_made_by_hand():
    # with the candidate first: with it second
    strict = {("first", "second"): "win", ("second", "first"): "loss"}
    pandalm = strict | {("first", "tie"): "win", ("second", "tie"): "loss"}
    pairs = list(itertools.product(VERDICTS, VERDICTS))

    def expected(table, pair):
        for missing in ("failed", "unparsed"):
            if missing in pair:
                return missing
        return table.get(pair, "tie")

    for policy, rule in itertools.product(("strict", "upstream"), ("autoj", "pandalm")):
        table = pandalm if (policy, rule) == ("upstream", "pandalm") else strict
        found = outcomes(judgments(pairs), policy, rule)
        assert list(found.values()) == [expected(table, pair) for pair in pairs], (policy, rule)


@given(st.lists(st.tuples(st.sampled_from(VERDICTS), st.sampled_from(VERDICTS)), max_size=30))
def test_position_statistics_equal_counting_by_hand(pairs):
    found = position_statistics(judgments(pairs))
    shown = [verdict for pair in pairs for verdict in pair]
    readable = [pair for pair in pairs if not {"unparsed", "failed"} & {*pair}]
    same = [pair for pair in readable if pair in {("first", "second"), ("second", "first"), ("tie", "tie")}]
    assert (found.in_both, found.consistent) == (len(readable), len(same))
    assert (found.first, found.decided) == (shown.count("first"), shown.count("first") + shown.count("second"))
    assert (found.consistency is None) == (not readable)
    assert (found.first_position_rate is None) == (found.decided == 0)


def weighted(shown):
    """Judgements of a weighted judge: its preference in the order shown, by the place of the candidate."""
    return [
        Judgment(
            "j", "emo", "mle", number, f"prompt {number}", "d", position, "k",
            "unparsed" if value is None else "tie" if value == 1.5 else "first" if value < 1.5 else "second",
            preference=value,
        )
        for number, orders in enumerate(shown)
        for position, value in orders.items()
    ]  # fmt: skip


def test_a_preference_is_converted_to_the_candidates_side():
    found = pair_results(weighted([{"first": 1.25}, {"second": 1.25}, {"second": 1.5}, {"first": None}]), "single")
    assert [(pair.outcome, pair.score) for pair in found] == [
        ("win", 0.75), ("loss", 0.25), ("tie", 0.5), ("unparsed", None)
    ]  # fmt: skip


def test_a_weighted_judge_averages_both_orders():
    judged = weighted([{"first": 1.25, "second": 1.25}, {"first": 1.0, "second": 1.75}, {"first": 1.1, "second": None}])
    found = pair_results(judged, "strict")
    assert [(pair.outcome, pair.score) for pair in found] == [("tie", 0.5), ("win", 0.875), ("unparsed", None)]
    drawn = pair_results(judged, "single")
    assert [pair.score for pair in drawn[:2]] in [[a, b] for a in (0.75, 0.25) for b in (1.0, 0.75)]


def test_identical_pairs_are_ties_and_say_nothing_about_positions():
    same = [
        Judgment("j", "emo", "mle", 9, "same", "d", position, "", "tie", "identical outputs")
        for position in ("first", "second")
    ]
    judged = judgments([("first", "second"), ("tie", "tie"), ("first", "first")])
    counts = tally_pairs(pair_results([*judged, *same], "strict"))
    assert (counts.win, counts.tie, counts.contradicted, counts.identical, counts.n_judged) == (1, 3, 1, 1, 4)
    assert position_statistics([*judged, *same]) == position_statistics(judged)
    with pytest.raises(ValueError, match="0 contradicted and 2 identical among 1 ties"):
        tally(["tie"], identical=2)


def test_a_judge_that_always_prefers_the_first_position_is_detected():
    found = position_statistics(judgments([("first", "first")] * 4))
    assert (found.consistency, found.first_position_rate) == (0, 100)
