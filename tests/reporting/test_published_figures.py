"""Published verdicts give exactly the published figures."""

from __future__ import annotations

import json

import pandas as pd
import pytest
from imported import import_into_run
from pages import only_comparison

from instruct.analysis.outcomes import position_statistics
from instruct.judging.store import Judgment


@pytest.mark.parametrize(
    ("file", "kind", "counts", "win_rate", "standard_error", "discrete"),
    [
        ("alpaca-7b.alpaca_eval_gpt4", "counted", (205, 16, 584), 26.459627, 1.535711, 26.459627),
        ("alpaca-7b.weighted_alpaca_eval_gpt4_turbo", "weighted", (17, 3, 785), 2.591451, 0.487086, 2.298137),
    ],
)
def test_alpaca_eval_verdicts_give_the_published_figures(
    shared_data, tmp_path, file, kind, counts, win_rate, standard_error, discrete
):
    run = import_into_run(shared_data / "alpaca_eval" / f"{file}.annotations.json", tmp_path / "published")
    comparison = only_comparison(run)
    claim, figures = comparison.claim, comparison.counts
    assert (claim.policy, figures.weighted, figures.n) == ("single", kind == "weighted", 805)
    assert (figures.win, figures.tie, figures.loss) == counts
    assert (claim.value, claim.standard_error) == (win_rate, standard_error)
    assert figures.discrete_win_rate == discrete
    # Only the weighted judge's raw replies say which answer was shown first.
    assert comparison.first_position_n == (0 if kind == "counted" else 802)


def test_parts_and_lengths_equal_those_of_the_published_verdicts(shared_data, tmp_path):
    file = shared_data / "alpaca_eval" / "alpaca-7b.alpaca_eval_gpt4.annotations.json"
    comparison = only_comparison(import_into_run(file, tmp_path / "published"))
    rows = pd.read_json(file)
    scores = rows["preference"].replace(0, 1.5) - 1
    by_dataset = scores.groupby(rows.dataset).agg(["size", "mean"])
    assert {part.dataset: (part.n, part.win_rate) for part in comparison.parts} == {
        str(dataset): (int(row["size"]), pytest.approx(100 * row["mean"], abs=1e-6))
        for dataset, row in by_dataset.iterrows()
    }
    assert sorted(part.n for part in comparison.parts) == [80, 129, 156, 188, 252]
    length = comparison.length
    assert int(length.candidate_mean) == 396  # the leaderboard's avg_length of alpaca-7b
    assert length.term.interval[0] > 0  # GPT-4 liked the longer answer better
    style = comparison.style
    assert [term.name for term in style.terms] == ["length", "lists"]  # plain text: neither has headers, nor bold
    assert style.score_interval[0] < style.score < style.score_interval[1]
    claim = comparison.claim
    assert claim.p < 1e-40
    assert claim.interval == pytest.approx([23.48, 29.61], abs=0.01)
    assert claim.test == "sign"


def test_auto_j_is_as_consistent_as_published(shared_data):
    judgments = [
        Judgment("autoj", "a", "b", number, str(number), "d", position, "k", ("first", "second", "tie")[verdict])
        for position, file in (("first", "pairwise_example_output"), ("second", "pairwise_exchange_example_output"))
        for number, line in enumerate((shared_data / "autoj" / f"{file}.jsonl").read_text().splitlines())
        if (verdict := json.loads(line)["output"]) in (0, 1, 2)
    ]
    found = position_statistics(judgments)
    assert (found.consistent, found.in_both) == (1161, 1392)
    assert round(found.consistency, 2) == 83.41
