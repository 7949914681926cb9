"""Reading verdicts, and the published ones."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instruct.judging.cards import Labels, VerdictRule
from instruct.judging.policies import candidate_is_second, outcome_of, outcomes
from instruct.judging.store import Judgment
from instruct.judging.verdicts import alpaca_eval, autoj, autoj_rating, pandalm, read_verdict


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("1. …\nSo, the final decision is Response 1.", "first"),
        ("So, the final decision is Response 2", "second"),
        ("So, the final decision is Tie.", "tie"),
        ("the final decision is Response 1. No: the final decision is Response 2", "second"),
        ("So, the final decision is  RESPONSE 1", "first"),
        ("So, the final decision is both", "unparsed"),
        ("Response 1 is better", "unparsed"),
        ("", "unparsed"),
    ],
)
def test_autoj(text, verdict):
    assert autoj(text) == verdict


@pytest.mark.parametrize(
    ("text", "rating"),
    [("Rating: [[5]]", 5.0), ("Rating: [[3]] … Rating: [[7.5]]", 7.5), ("Rating: 5", None), ("", None)],
)
def test_autoj_rating(text, rating):
    assert autoj_rating(text) == rating


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("1\n\n### Reason: …", "first"), ("2", "second"), ("Tie\n### Reason", "tie"), ("tie", "tie"),
        ("\n2\n", "second"),
        ("Response 1", "unparsed"), ("12", "unparsed"), ("", "unparsed"),
    ],
)  # fmt: skip
def test_pandalm(text, verdict):
    assert pandalm(text) == verdict


def ranking(first: object, second: object) -> str:
    return str([{"model": "model_1", "rank": first}, {"model": "model_2", "rank": second}])


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        (ranking(1, 2), "first"), (ranking(2, 1), "second"), (ranking(1, 1), "tie"), (ranking(2, 2), "tie"),
        (ranking(3, 1), "unparsed"), ("Model 1 is better.", "unparsed"), ("", "unparsed"),
        ("[{'model': 'model_1', 'rank': 1}]", "unparsed"),
    ],
)  # fmt: skip
def test_alpaca_eval(text, verdict):
    assert alpaca_eval(text) == verdict


@pytest.mark.parametrize(
    ("logprobs", "verdict"),
    [
        ({"1": -0.1, "2": -3.0}, "first"), ({"1": -3.0, "2": -0.1}, "second"), ({"1": -1.0, "2": -1.05}, "tie"),
        ({"1": -0.1}, "unparsed"), (None, "unparsed"),
    ],
)  # fmt: skip
def test_labels(logprobs, verdict):
    rule = VerdictRule(labels=Labels(first="1", second="2"), tie_margin=0.1)
    assert read_verdict(rule, "whatever was said", logprobs) == verdict


@given(st.text())
def test_no_reply_raises(text):
    for parser in (autoj, pandalm, alpaca_eval):
        assert parser(text) in ("first", "second", "tie", "unparsed")


def judged(position: str, verdict: str, instruction: str = "i") -> Judgment:
    return Judgment("j", "c", "b", instruction, "d", position, "k", verdict)


VERDICTS = ["first", "second", "tie", "unparsed", "failed"]


@given(st.sampled_from(VERDICTS), st.sampled_from(VERDICTS), st.sampled_from(["strict", "upstream"]))
def test_swapping_the_roles_swaps_the_outcome(first, second, policy):
    """The baseline's view of the same two replies: it stood where the candidate did not."""
    ours = outcomes([judged("first", first), judged("second", second)], policy)["i"]
    theirs = outcomes([judged("second", first), judged("first", second)], policy)["i"]
    assert theirs == {"win": "loss", "loss": "win"}.get(ours, ours)


@pytest.mark.parametrize(
    ("first", "second", "strict", "pandalm_upstream"),
    [
        ("first", "second", "win", "win"),  # the candidate, wherever it stood
        ("second", "first", "loss", "loss"),
        ("first", "first", "tie", "tie"),  # a position, whoever stood there
        ("tie", "tie", "tie", "tie"),
        ("first", "tie", "tie", "win"),  # PandaLM's authors keep the first order's verdict
        ("tie", "second", "tie", "tie"),
        ("first", "unparsed", "unparsed", "unparsed"),
        ("failed", "unparsed", "failed", "failed"),
    ],
)
def test_both_orders(first, second, strict, pandalm_upstream):
    pair = [judged("first", first), judged("second", second)]
    assert outcomes(pair, "strict") == {"i": strict}
    assert outcomes(pair, "upstream", "pandalm") == {"i": pandalm_upstream}


def test_single_takes_the_order_that_the_seed_draws():
    pairs = [judged(p, v, f"q{n}") for n in range(50) for p, v in (("first", "first"), ("second", "first"))]
    for instruction, outcome in outcomes(pairs, "single").items():
        assert outcome == ("loss" if candidate_is_second(instruction) else "win")
    assert set(outcomes(pairs, "single").values()) == {"win", "loss"}


def test_published_autoj_verdicts_give_the_published_figures(shared_data):
    def column(name: str, field: str) -> list[int]:
        lines = (shared_data / "autoj" / name).read_text().splitlines()
        return [json.loads(line)[field] for line in lines]

    gold = column("testdata_pairwise.jsonl", "label")
    names = ["first", "second", "tie"]
    shown = [names[value] for value in column("pairwise_example_output.jsonl", "output")]
    swapped = [names[value] for value in column("pairwise_exchange_example_output.jsonl", "output")]
    wanted = [("win", "loss", "tie")[label] for label in gold]
    first = [outcome_of(judged("first", verdict)) for verdict in shown]
    second = [outcome_of(judged("second", verdict)) for verdict in swapped]
    assert sum(f == w for f, w in zip(first, wanted, strict=True)) == 835
    assert sum(s == w for s, w in zip(second, wanted, strict=True)) == 844
    assert sum(f == s for f, s in zip(first, second, strict=True)) == 1161
    assert sum(f == s == w for f, s, w in zip(first, second, wanted, strict=True)) == 765


def test_the_order_draw_is_alpaca_evals_own(shared_data):
    """The published weighted verdicts keep the judge's replies: log-probabilities of the first place ("m") and
    the second ("M"). Placed by our draw, the likelier one is the side that the published preference names, always."""
    path = shared_data / "alpaca_eval" / "alpaca-7b.weighted_alpaca_eval_gpt4_turbo.annotations.json"
    checked = 0
    for row in json.loads(path.read_text()):
        if row["raw_completion"] is None:  # the two answers are the same: not asked
            assert row["preference"] == 1.5
            continue
        entries = row["raw_completion"]["logprobs"]["content"][0]["top_logprobs"]
        top = {entry["token"]: entry["logprob"] for entry in entries}
        verdict = "first" if top.get("m", -1e9) > top.get("M", -1e9) else "second"
        position = "second" if candidate_is_second(row["instruction"]) else "first"
        assert outcome_of(judged(position, verdict)) == ("win" if row["preference"] > 1.5 else "loss")
        checked += 1
    assert checked == 802
