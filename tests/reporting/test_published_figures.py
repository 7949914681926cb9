"""Published verdicts give the published figures, to the digit."""

from __future__ import annotations

import json

import pytest

from instruct.judging.store import Judgment
from instruct.reporting.report import tally_figures
from instruct.reporting.statistics import position_statistics, tally


def outcomes_of(path):
    """AlpacaEval's preference: 1 the baseline, 2 the model; 0 and 1.5 a draw."""
    preferences = [row["preference"] for row in json.loads(path.read_text(encoding="utf-8"))]
    return ["tie" if value in (0, 1.5) else "win" if value > 1.5 else "loss" for value in preferences]


@pytest.mark.parametrize(
    ("file", "counts", "win_rate", "standard_error"),
    [
        ("alpaca-7b.alpaca_eval_gpt4.annotations.json", (205, 16, 584), 26.459627, 1.535711),
        ("alpaca-7b.weighted_alpaca_eval_gpt4_turbo.annotations.json", (17, 3, 785), 2.298137, None),
    ],
)
def test_alpaca_eval(shared_data, file, counts, win_rate, standard_error):
    figures = tally_figures(tally(outcomes_of(shared_data / "alpaca_eval" / file)))
    assert (figures["win"], figures["tie"], figures["loss"]) == counts
    assert figures["win_rate"] == win_rate
    if standard_error is not None:  # the weighted file's is published for its weighted rate only
        assert figures["standard_error"] == standard_error


def test_auto_j_is_as_consistent_as_published(shared_data):
    judgments = [
        Judgment("autoj", "a", "b", str(number), "d", position, "k", ("first", "second", "tie")[verdict])
        for position, file in (("first", "pairwise_example_output"), ("second", "pairwise_exchange_example_output"))
        for number, line in enumerate((shared_data / "autoj" / f"{file}.jsonl").read_text().splitlines())
        if (verdict := json.loads(line)["output"]) in (0, 1, 2)
    ]
    found = position_statistics(judgments)
    assert (found.consistent, found.in_both) == (1161, 1392)
    assert round(found.consistency, 2) == 83.41
