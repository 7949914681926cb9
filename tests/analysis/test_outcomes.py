"""Policies and positions, against tables and counting by hand."""

from __future__ import annotations

import itertools

from counted import claimed, outcomes
from hypothesis import given
from hypothesis import strategies as st

from instruct.analysis.outcomes import pair_results, position_statistics
from instruct.judging.store import Judgment

VERDICTS = ["first", "second", "tie", "unparsed", "failed"]


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
    counts = claimed(pair_results([*judged, *same], "strict")).counts
    assert (counts.win, counts.tie, counts.contradicted, counts.identical, counts.n) == (1, 3, 1, 1, 4)
    assert position_statistics([*judged, *same]) == position_statistics(judged)


def test_a_judge_that_always_prefers_the_first_position_is_detected():
    found = position_statistics(judgments([("first", "first")] * 4))
    assert (found.consistency, found.first_position_rate) == (0, 100)
