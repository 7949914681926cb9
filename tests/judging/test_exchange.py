"""Importing and exporting verdicts, tested against AlpacaEval's own metrics and published figures."""

from __future__ import annotations

import json
import math
import random
import statistics
from pathlib import Path
from typing import NamedTuple

import pytest
from alpaca_eval.metrics import get_winrate
from counted import claimed, outcomes, pairs_of
from imported import import_into_run

from instruct.analysis.outcomes import UNKNOWN_ORDER, candidate_is_second, position_statistics
from instruct.base.errors import InputError
from instruct.data.evaluation import load_answers
from instruct.judging.comparison import ComparisonKey
from instruct.judging.interchange.annotation_files import annotation_rows
from instruct.judging.interchange.exchange import answers_of, export_from_run, read_verdicts
from instruct.judging.presentations import Answers
from instruct.judging.store import Judgment, JudgmentStore
from instruct.reporting.report import written_report


@pytest.fixture
def store(tmp_path):
    with JudgmentStore(tmp_path / "judgments.sqlite") as store:
        yield store


def annotation(number: int, preference: object, **more: object) -> dict[str, object]:
    return {
        "instruction": f"Question {number}?",
        "dataset": "test",
        "generator_1": "theirs",
        "generator_2": "ours",
        "output_1": f"their answer {number}",
        "output_2": f"our answer {number}",
        "annotator": "alpaca_eval_gpt4",
        "preference": preference,
    } | more


def write(path, rows):
    path.write_text(json.dumps(rows))
    return path


class Imported(NamedTuple):
    judgments: list[Judgment]
    answers: dict[str, list[dict]]


def import_file(path: Path, store: JudgmentStore, **given: object) -> Imported:
    """Read a file of verdicts into a store."""
    verdicts = read_verdicts(path, **given)
    for verdict in verdicts:
        store.add_replies(verdict.judgment.judge, [(key, reply, 0.0) for key, reply in verdict.replies.items()])
    judgments = [verdict.judgment for verdict in verdicts]
    store.add_judgments(judgments)
    return Imported(judgments, answers_of(verdicts))


def favoured(judgment: Judgment) -> float:
    """A weighted judge's preference for the candidate, 0 to 1."""
    assert judgment.preference is not None
    return judgment.preference - 1 if judgment.position == "second" else 2 - judgment.preference


def test_the_published_verdicts_give_the_published_figures(shared_data, store):
    path = shared_data / "alpaca_eval" / "alpaca-7b.alpaca_eval_gpt4.annotations.json"
    found = import_file(path, store)
    assert found.judgments[0].comparison == ("alpaca_eval_gpt4", "alpaca-7b", "text_davinci_003")
    judgments = store.judgments(ComparisonKey("alpaca_eval_gpt4", "alpaca-7b", "text_davinci_003"))
    claim = claimed(pairs_of(outcomes(judgments, "single").values()))
    assert (claim.counts.win, claim.counts.loss, claim.counts.tie) == (205, 584, 16)
    assert (claim.value, claim.standard_error) == (26.459627, 1.535711)
    assert {judgment.preference for judgment in judgments} == {None}
    # The file does not say which answer was shown first: no rate is made of a rule.
    assert position_statistics(judgments).first_position_rate is None
    assert load_answers_equal(found.answers["alpaca-7b"], shared_data / "alpaca_eval" / "alpaca-7b.model_outputs.json")


def load_answers_equal(rows, path):
    return {row["instruction"]: row["output"] for row in rows} == {
        row["instruction"]: row["output"] for row in load_answers(path)
    }


def test_the_published_weighted_verdicts_give_the_published_figures(shared_data, store, tmp_path):
    folder = shared_data / "alpaca_eval"
    path = folder / "alpaca-7b.weighted_alpaca_eval_gpt4_turbo.annotations.json"
    found = import_file(path, store, reference=folder / "reference_gpt4_1106_preview.json")
    judgments = store.judgments(found.judgments[0].comparison)
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
    sides = (
        Answers("alpaca-7b", found.answers["alpaca-7b"]),
        Answers("gpt4_1106_preview", found.answers[found.judgments[0].comparison.baseline]),
    )
    exported = json.loads(json.dumps(annotation_rows(store, found.judgments[0].judge, *sides)))
    assert len(exported) == 805
    metrics = get_winrate(exported)
    assert round(metrics["win_rate"], 6) == 2.591451
    assert round(metrics["standard_error"], 6) == 0.487086
    assert round(metrics["discrete_win_rate"], 6) == 2.298137
    published = json.loads(path.read_text())
    assert [row["preference_raw_completion"] for row in exported] == [row["raw_completion"] for row in published]
    assert [row["preference"] for row in exported] == [row["preference"] for row in published]


def test_only_a_reply_says_which_answer_was_shown_first(tmp_path, store):
    ranking = "[{{'model': 'model_1', 'rank': {}}}, {{'model': 'model_2', 'rank': {}}}]"
    shown_first, shown_second = ranking.format(1, 2), ranking.format(2, 1)
    rows = [annotation(number, 2, raw_completion=(shown_first, shown_second)[number % 2]) for number in range(4)]
    rows += [annotation(4, 2), annotation(5, 1, raw_completion="no ranking"), annotation(6, 1.5)]
    found = import_file(write(tmp_path / "annotations.json", rows), store)
    assert [judgment.position for judgment in found.judgments[:4]] == ["first", "second", "first", "second"]
    assert [judgment.reason for judgment in found.judgments] == [None] * 4 + [UNKNOWN_ORDER] * 2 + [None]
    figures = position_statistics(found.judgments)
    assert (figures.decided, figures.first) == (4, 2)
    assert list(outcomes(found.judgments, "single").values()) == ["win"] * 5 + ["loss", "tie"]


def test_a_missing_preference_is_counted_and_never_a_tie(tmp_path, store):
    rows = [
        annotation(0, 2), annotation(1, 1), annotation(2, 0), annotation(3, 1.5, output_2="their answer 3"),
        annotation(4, None, preference_raw_completion="Model 1"), annotation(5, None), annotation(6, -1),
    ]  # fmt: skip
    found = import_file(write(tmp_path / "annotations.json", rows), store)
    judgments = store.judgments(ComparisonKey("alpaca_eval_gpt4", "ours", "theirs"))
    assert list(outcomes(judgments, "single").values()) == [
        "win", "loss", "tie", "tie", "unparsed", "failed", "failed",
    ]  # fmt: skip
    assert [judgment.reason for judgment in judgments[2:4]] == [None, "identical outputs"]
    assert len(found.judgments) == 7
    for judgment in judgments:
        assert judgment.position == ("second" if candidate_is_second(judgment.instruction) else "first")

    sides = Answers("ours", found.answers["ours"]), Answers("theirs", found.answers["theirs"])
    exported = annotation_rows(store, "alpaca_eval_gpt4", *sides)
    assert [row["preference"] for row in exported] == [2, 1, 1.5, 1.5, None, None, None]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"preference": 3}, "row 2: preference: 3 is not a preference"),
        ({"annotator": "gpt4"}, "row 2: annotator: is not 'alpaca_eval_gpt4' as in row 1"),
        ({"generator_2": "others\x1b[31m"}, "row 2: generator_2: is not 'ours' as in row 1"),
    ],
)
def test_an_invalid_row_is_named(tmp_path, store, bad, message):
    path = write(tmp_path / "annotations.json", [annotation(0, 1), annotation(1, 2) | bad])
    with pytest.raises(InputError, match=message) as error:
        import_file(path, store)
    assert str(path) in str(error.value)
    assert "\x1b" not in str(error.value)
    assert store.comparisons() == []


def test_reference_answers_must_match_the_file(tmp_path, store):
    rows = [annotation(number, 1) for number in range(2)]
    for row in rows:
        del row["output_1"]
    path = write(tmp_path / "annotations.json", rows)
    answers = [{"instruction": f"Question {number}?", "output": "so"} for number in range(3)]
    with pytest.raises(InputError, match=r"reference\.json: 1 prompt .* 'Question 1"):
        import_file(path, store, reference=write(tmp_path / "reference.json", answers[:1]))
    found = import_file(path, store, reference=write(tmp_path / "reference.json", answers[:2]))
    assert [row["output"] for row in found.answers["theirs"]] == ["so", "so"]
    with pytest.raises(InputError, match=r"output_1: the answer to '.*' differs from the one in "):
        import_file(write(path, [annotation(0, 1), annotation(1, 1)]), store, reference=tmp_path / "reference.json")


def test_different_verdicts_are_not_overwritten(tmp_path):
    path = write(tmp_path / "annotations.json", [annotation(0, 1), annotation(1, 2)])
    for _ in range(2):
        run = import_into_run(path, tmp_path / "run")
    with JudgmentStore(run.store) as store:
        assert len(store.judgments(ComparisonKey("alpaca_eval_gpt4", "ours", "theirs"))) == 2
    with pytest.raises(InputError, match="has different verdicts of alpaca_eval_gpt4 on ours vs\\. theirs"):
        import_into_run(write(path, [annotation(0, 2), annotation(1, 2)]), tmp_path / "run")


def test_of_two_orders_the_drawn_one_is_exported(store, tmp_path):
    for number in range(6):
        text = f"Question {number}?"
        store.add_judgments(
            Judgment("j", "ours", "theirs", number, text, "d", position, "", verdict)
            for position, verdict in (("first", "first"), ("second", "first"))  # it always prefers the first position
        )
    exported = annotation_rows(store, "j", Answers("ours", []), Answers("theirs", []))
    assert {row["instruction"]: row["preference"] for row in exported} == {
        f"Question {number}?": 1 if candidate_is_second(f"Question {number}?") else 2 for number in range(6)
    }


def test_exported_annotations_keep_clusters(tmp_path):
    draw = random.Random(5)
    rows = [annotation(n, won + 1, cluster=f"text {n // 4}") for n in range(48) for won in [draw.choice((0, 1, 1))]]
    figures = []
    for path in (write(tmp_path / "annotations.json", rows), tmp_path / "exported.json"):
        run = import_into_run(path, tmp_path / path.stem)
        [judge] = written_report(run.folder).judges
        figures.append(judge.comparisons[0].claim)
        export_from_run(run, "alpaca_eval_gpt4", tmp_path / "exported.json")
    assert figures[0] == figures[1]
    assert figures[0].params["clusters"] == 12
