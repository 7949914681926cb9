"""`instruct evaluate --texts`: files of texts that no run made."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from instruct.base.errors import InputError
from instruct.measuring.texts.options import TextMetricOptions
from instruct.phases.texts import evaluate_texts
from instruct.reporting.document import document
from instruct.reporting.report import written_report
from instruct.reporting.texts import HUMAN as HUMAN_TEXTS
from instruct.reporting.texts import text_systems

HUMAN = [f"On day {n} the {('cat', 'dog', 'owl')[n % 3]} walked {n} miles to see the old town." for n in range(12)]


@pytest.fixture
def texts(tmp_path, monkeypatch):
    """Write a file of texts, with ids or rows of one's own."""
    monkeypatch.chdir(tmp_path)

    def write(name: str, rows: list) -> str:
        lines = [row if isinstance(row, dict) else {"id": f"t{n}", "text": row} for n, row in enumerate(rows)]
        Path(f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in lines), encoding="utf-8")
        return f"{name}.jsonl"

    return write


@pytest.fixture
def options(tiny_model) -> TextMetricOptions:
    return TextMetricOptions(reference_model=str(tiny_model))


def test_files_are_measured_without_a_run_and_reported_with_intervals(texts, options, monkeypatch, printed) -> None:
    human = texts("human", HUMAN)
    shuffled = [{"id": f"t{n}", "text": HUMAN[n].upper()} for n in reversed(range(12))]
    candidates = [texts("a", [f"{text} Then it slept." for text in HUMAN]), texts("b", shuffled)]
    run = evaluate_texts(human, candidates, "runs/texts", options)
    assert "no mauve: it needs at least 200" in printed.readouterr().out
    data = written_report(run.folder)
    systems = text_systems(data.measurements)
    assert systems["b"]["rougeL"].value == 1  # paired by id, and ROUGE ignores case
    assert systems["a"]["rougeL"].value < 1
    assert text_systems(data.measurements, HUMAN_TEXTS)["human"].keys() >= {"entropy", "oracle_perplexity"}
    for name in ("a", "b"):
        low, high = systems[name]["entropy"].interval
        assert low < systems[name]["entropy"].value < high
        low, high = systems[name]["oracle_perplexity"].interval
        assert low < systems[name]["oracle_perplexity"].value < high
        assert {"distinct_1", "distinct_2", "self_bleu", "repetition"} <= systems[name].keys()
    before = run.manifest()["steps"]
    evaluate_texts(human, candidates, "runs/texts", options)
    after = run.manifest()["steps"]
    assert {name: step for name, step in after.items() if name != "texts"} == {
        name: step for name, step in before.items() if name != "texts"
    }


def test_a_folder_with_other_texts_and_too_few_texts_for_a_named_metric_are_refused(texts, options) -> None:
    human, candidate = texts("human", HUMAN), texts("a", HUMAN[::-1])
    few = options.model_copy(update={"metrics": ["diversity"]})
    evaluate_texts(human, [candidate], "runs/texts", few)
    with pytest.raises(InputError, match="has texts of a, too, which this call doesn't name"):
        evaluate_texts(human, [texts("b", HUMAN)], "runs/texts", few)
    with pytest.raises(InputError, match="mauve needs at least 200 prefixes, not 12"):
        evaluate_texts(human, [candidate], "runs/texts", options.model_copy(update={"metrics": ["mauve"]}))


def test_figures_that_mean_nothing_are_warned_about_wherever_the_report_is_read(texts, options) -> None:
    human = texts("human", ["The sun sets in the west."] * 3)
    run = evaluate_texts(human, [texts("same", ["The sun sets in the west."] * 3)], "runs/same", options)
    found = document(written_report(run.folder)).claims_changed()
    assert any("21 words and punctuation marks in all: its figures say nothing" in text for text in found), found
    assert any("all texts of same are the same" in text for text in found)
    assert any("without a beginning token" in text for text in found)
    run = evaluate_texts(texts("one", HUMAN[:1]), [texts("other", HUMAN[1:2])], "runs/one", options)
    assert any(
        "1 text: too few texts for intervals" in text
        for text in run.manifest()["steps"]["texts"]["results"]["warnings"]
    )
    run = evaluate_texts(texts("h", HUMAN), [texts("copy", HUMAN)], "runs/copy", options)
    warnings = run.manifest()["steps"]["texts"]["results"]["warnings"]
    assert "the texts of copy are the human ones: MAUVE and ROUGE are 1 by construction" in warnings


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (HUMAN[:11], r"a.jsonl: 1 text of the other file missing, first id 't11'"),
        (
            [*HUMAN[:11], {"id": "t11", "text": "x", "reference": "another"}],
            "row 12: reference: is not that of id 't11'",
        ),
        ([*HUMAN[:11], {"text": "x"}], "row 12: id: is missing; give every row one, or none"),
        ([*HUMAN[:11], {"id": "t0", "text": "x"}], "row 12: id: 't0' is already in row 1"),
        ([*HUMAN[:11], {"id": "t11", "story": "x"}], "row 12: no column text, output, continuation"),
    ],
)
def test_texts_that_are_not_paired_are_refused(rows, message, texts, options) -> None:
    with pytest.raises(InputError, match=message):
        evaluate_texts(texts("human", HUMAN), [texts("a", rows)], "runs/texts", options)
    assert not Path("runs").exists()
