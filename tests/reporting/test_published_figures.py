"""Published verdicts give the published figures, to the digit."""

from __future__ import annotations

import json

import pytest

from instruct.judging.exchange import import_into_run
from instruct.judging.store import Judgment
from instruct.reporting.report import build_report
from instruct.reporting.statistics import position_statistics


@pytest.mark.parametrize(
    ("file", "kind", "counts", "win_rate", "standard_error", "discrete"),
    [
        ("alpaca-7b.alpaca_eval_gpt4", "counted", (205, 16, 584), 26.459627, 1.535711, 26.459627),
        ("alpaca-7b.weighted_alpaca_eval_gpt4_turbo", "weighted", (17, 3, 785), 2.591451, 0.487086, 2.298137),
    ],
)
def test_alpaca_eval(shared_data, tmp_path, file, kind, counts, win_rate, standard_error, discrete):
    run = import_into_run(shared_data / "alpaca_eval" / f"{file}.annotations.json", tmp_path / "published")
    report = build_report(run.folder)
    (judge,) = report["judges"]
    (comparison,) = judge["comparisons"]
    figures = comparison["policies"][comparison["leading"]]
    assert (judge["name"], comparison["candidate"]) == (file.removeprefix("alpaca-7b."), "alpaca-7b")
    assert (comparison["leading"], figures["kind"], figures["n"]) == ("single", kind, 805)
    assert (figures["win"], figures["tie"], figures["loss"]) == counts
    assert (figures["win_rate"], figures["standard_error"]) == (win_rate, standard_error)
    assert figures["discrete_win_rate"] == discrete
    assert judge["warnings"] == []
    assert comparison["warnings"] == (
        [
            "the winner's answers (text_davinci_003) are 22 % longer than those of alpaca-7b (mean 482 against 396 "
            "characters); judges tend to prefer the longer answer"
        ]
        if kind == "counted"
        else []  # that file holds no answers
    )
    same = [{"verdict": "tie", "reason": "identical outputs", "n": 16}]
    assert comparison["reasons"] == (same if kind == "counted" else [])
    assert comparison["notes"] == ["these verdicts were read from a file, not made in this run"]


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
