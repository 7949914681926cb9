"""Importing and exporting verdicts, tested against AlpacaEval's own metrics and published figures."""

from __future__ import annotations

import json
import math
import statistics
from pathlib import Path
from typing import Any

import pytest
from alpaca_eval.metrics import get_winrate
from counted import claimed, outcomes, pairs_of
from imported import annotation, import_into_run
from json_files import write_json

from instruct.analysis.outcomes import UNKNOWN_ORDER, candidate_is_second, position_statistics
from instruct.base.errors import InputError
from instruct.data.evaluation import load_answers
from instruct.judging.interchange.exchange import export_from_run
from instruct.judging.store import Judgment, JudgmentStore
from instruct.reporting.report import written_report
from instruct.run.directory import RunDirectory


def imported(path: Path, folder: Path, **given: Any) -> tuple[RunDirectory, list[Judgment]]:
    """A run with a file of verdicts, and these."""
    run = import_into_run(path, folder, **given)
    with JudgmentStore(run.store) as store:
        (comparison,) = store.comparisons()
        return run, store.judgments(comparison)


def exported(run: RunDirectory) -> list[dict[str, Any]]:
    """The rows of the file that a run with one comparison is exported to."""
    with JudgmentStore(run.store) as store:
        (comparison,) = store.comparisons()
    export_from_run(run, comparison.judge, run.folder / "exported.json")
    return json.loads((run.folder / "exported.json").read_text())


def favoured(judgment: Judgment) -> float:
    """A weighted judge's preference for the candidate, 0 to 1."""
    assert judgment.preference is not None
    return judgment.preference - 1 if judgment.position == "second" else 2 - judgment.preference


def test_the_published_verdicts_give_the_published_figures(shared_data, tmp_path):
    folder = shared_data / "alpaca_eval"
    run, judgments = imported(folder / "alpaca-7b.alpaca_eval_gpt4.annotations.json", tmp_path / "run")
    assert judgments[0].comparison == ("alpaca_eval_gpt4", "alpaca-7b", "text_davinci_003")
    claim = claimed(pairs_of(outcomes(judgments, "single").values()))
    assert (claim.counts.win, claim.counts.loss, claim.counts.tie) == (205, 584, 16)
    assert (claim.value, claim.standard_error) == (26.459627, 1.535711)
    assert {judgment.preference for judgment in judgments} == {None}
    # The file does not say which answer was shown first: no rate is made of a rule.
    assert position_statistics(judgments).first_position_rate is None
    published, kept = (
        {row["instruction"]: row["output"] for row in load_answers(path)}
        for path in (folder / "alpaca-7b.model_outputs.json", run.outputs / "alpaca-7b.json")
    )
    assert kept == published


def test_the_published_weighted_verdicts_give_the_published_figures(shared_data, tmp_path):
    folder = shared_data / "alpaca_eval"
    path = folder / "alpaca-7b.weighted_alpaca_eval_gpt4_turbo.annotations.json"
    run, judgments = imported(path, tmp_path / "run", reference=folder / "reference_gpt4_1106_preview.json")
    scores = [favoured(judgment) for judgment in judgments]
    assert round(100 * statistics.fmean(scores), 6) == 2.591451
    assert round(100 * statistics.stdev(scores) / math.sqrt(len(scores)), 6) == 0.487086
    assert claimed(pairs_of(outcomes(judgments, "single").values())).value == 2.298137
    assert sum(judgment.reason == "identical outputs" for judgment in judgments) == 3
    # The raw replies confirm the package's seed rule in every pair that was asked about.
    assert position_statistics(judgments).decided == sum(bool(judgment.key) for judgment in judgments) == 802
    for judgment in judgments:
        assert judgment.position == ("second" if candidate_is_second(judgment.instruction) else "first")

    # Exported again, the package's own metrics give the same figures, and the replies are unchanged.
    rows = exported(run)
    metrics = get_winrate(rows)
    assert round(metrics["win_rate"], 6) == 2.591451
    assert round(metrics["standard_error"], 6) == 0.487086
    assert round(metrics["discrete_win_rate"], 6) == 2.298137
    published = json.loads(path.read_text())
    assert [row["preference_raw_completion"] for row in rows] == [row["raw_completion"] for row in published]
    assert [row["preference"] for row in rows] == [row["preference"] for row in published]


def test_only_a_reply_says_which_answer_was_shown_first(tmp_path):
    ranking = "[{{'model': 'model_1', 'rank': {}}}, {{'model': 'model_2', 'rank': {}}}]"
    shown_first, shown_second = ranking.format(1, 2), ranking.format(2, 1)
    rows = [annotation(number, 2, raw_completion=(shown_first, shown_second)[number % 2]) for number in range(4)]
    rows += [annotation(4, 2), annotation(5, 1, raw_completion="no ranking"), annotation(6, 1.5)]
    _, judgments = imported(write_json(tmp_path / "annotations.json", rows), tmp_path / "run")
    assert [judgment.position for judgment in judgments[:4]] == ["first", "second", "first", "second"]
    assert [judgment.reason for judgment in judgments] == [None] * 4 + [UNKNOWN_ORDER] * 2 + [None]
    figures = position_statistics(judgments)
    assert (figures.decided, figures.first) == (4, 2)
    assert list(outcomes(judgments, "single").values()) == ["win"] * 5 + ["loss", "tie"]


def test_a_missing_preference_is_counted_and_never_a_tie(tmp_path):
    rows = [
        annotation(0, 2), annotation(1, 1), annotation(2, 0), annotation(3, 1.5, output_2="their answer 3"),
        annotation(4, None, preference_raw_completion="Model 1"), annotation(5, None), annotation(6, -1),
    ]  # fmt: skip
    run, judgments = imported(write_json(tmp_path / "annotations.json", rows), tmp_path / "run")
    assert list(outcomes(judgments, "single").values()) == [
        "win", "loss", "tie", "tie", "unparsed", "failed", "failed",
    ]  # fmt: skip
    assert [judgment.reason for judgment in judgments[2:4]] == [None, "identical outputs"]
    assert [row["preference"] for row in exported(run)] == [2, 1, 1.5, 1.5, None, None, None]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"preference": 3}, "row 2: preference: 3 is not a preference"),
        ({"generator_2": "others\x1b[31m"}, "row 2: generator_2: is not 'ours' as in row 1"),
    ],
)
def test_an_invalid_row_is_named(tmp_path, bad, message):
    path = write_json(tmp_path / "annotations.json", [annotation(0, 1), annotation(1, 2) | bad])
    with pytest.raises(InputError, match=message) as error:
        import_into_run(path, tmp_path / "run")
    assert str(path) in str(error.value)
    assert "\x1b" not in str(error.value)
    assert not (tmp_path / "run").exists()


def test_reference_answers_must_match_the_file(tmp_path):
    rows = [annotation(number, 1) for number in range(2)]
    for row in rows:
        del row["output_1"]
    path, reference = write_json(tmp_path / "annotations.json", rows), tmp_path / "reference.json"
    answers = [{"instruction": f"Question {number}?", "output": "so"} for number in range(2)]
    write_json(reference, answers[:1])
    with pytest.raises(InputError, match=r"reference\.json: 1 prompt .* 'Question 1"):
        import_into_run(path, tmp_path / "run", reference=reference)
    write_json(reference, answers)
    run = import_into_run(path, tmp_path / "run", reference=reference)
    assert [row["output"] for row in load_answers(run.outputs / "theirs.json")] == ["so", "so"]
    with pytest.raises(InputError, match=r"output_1: the answer to '.*' differs from the one in "):
        import_into_run(
            write_json(path, [annotation(0, 1), annotation(1, 1)]), tmp_path / "another", reference=reference
        )


def test_different_verdicts_are_not_overwritten(tmp_path):
    path = write_json(tmp_path / "annotations.json", [annotation(0, 1), annotation(1, 2)])
    for _ in range(2):
        assert len(imported(path, tmp_path / "run")[1]) == 2
    with pytest.raises(InputError, match="has different verdicts of alpaca_eval_gpt4 on ours vs\\. theirs"):
        import_into_run(write_json(path, [annotation(0, 2), annotation(1, 2)]), tmp_path / "run")


def test_of_two_orders_the_drawn_one_is_exported(tmp_path):
    run = RunDirectory(tmp_path / "run")
    run.start({"name": "run"})
    with JudgmentStore(run.store) as store:
        store.add_judgments(
            Judgment("j", "ours", "theirs", number, f"Question {number}?", "d", position, "", "first")
            for number in range(6)
            for position in ("first", "second")  # it always prefers the first position
        )
    assert {row["instruction"]: row["preference"] for row in exported(run)} == {
        text: 1 if candidate_is_second(text) else 2 for text in (f"Question {number}?" for number in range(6))
    }


def test_exported_annotations_keep_clusters(tmp_path):
    rows = [annotation(n, 1 + n % 3 % 2, cluster=f"text {n // 4}") for n in range(48)]
    run, _ = imported(write_json(tmp_path / "annotations.json", rows), tmp_path / "run")
    again, _ = imported(write_json(tmp_path / "again.json", exported(run)), tmp_path / "again")
    claims = [written_report(each.folder).judges[0].comparisons[0].claim for each in (run, again)]
    assert claims[0] == claims[1]
    assert claims[0].params["clusters"] == 12
