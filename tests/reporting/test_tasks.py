"""Few-shot tasks: accuracies in the report, the same in every form, and paired tests by `compare`."""

from __future__ import annotations

import re

import pytest

from instruct import compare_logs
from instruct.config import make_config
from instruct.reporting.document import document
from instruct.reporting.report import Report, build_report, written_report
from instruct.reporting.tasks import accuracies, task_tables
from instruct.run.directory import RunDirectory
from instruct.run.measurements import numbers, write_numbers, write_values

LABELS = ["a", "b"] * 10


def answered(run: RunDirectory, system: str, task: str, right: int, **more: object) -> None:
    """A system that answers the first `right` of 20 rows with their label."""
    answers = [label if place < right else "c" for place, label in enumerate(LABELS)]
    (result,) = numbers(
        {"accuracy": 5 * right}, 20, task=task, rule="openicl", shots=8, retriever="tfidf", of=40, right=right,
        most_frequent=50.0, in_training=3, shortened=0, dropped=0, answers={"a": 20}, seconds=1.5,
        **{"floor": 60.0, **more},
    )  # fmt: skip
    result.interval = [10.0, 90.0]
    write_numbers(run, f"tasks/{task}", system, [result])
    columns = {"id": list(range(20)), "label": LABELS, "answer": answers}
    write_values(run, f"tasks/{task}", system, columns)


@pytest.fixture
def evaluated(tmp_path, monkeypatch) -> RunDirectory:
    monkeypatch.chdir(tmp_path)
    run = RunDirectory("runs/mine")
    systems = {"base": {"objective": "none"}, "emo": {"objective": "emo"}}
    content = {"name": "mine", "systems": systems, "answers": None}
    run.start(make_config(content, [], "test").model_dump(mode="json"))
    answered(run, "base", "trec", 10)
    answered(run, "emo", "trec", 18)
    answered(run, "base", "mmlu", 9, floor=None)
    answered(run, "emo", "mmlu", 9, floor=None)
    write_numbers(
        run, "lm_eval/arc_easy", "emo", numbers({"acc": 0.4}, 5, task="arc_easy", shots=0, standard_error=0.1)
    )
    return run


def test_a_run_without_verdicts_has_its_tasks_in_the_report(evaluated, instruct):
    code, out, err = instruct("report", evaluated.folder)
    assert code == 0, err
    report = Report.read(evaluated.folder)
    assert [(row.task, row.system, row.value) for row in accuracies(report.measurements)] == [
        ("trec", "base", 50), ("trec", "emo", 90), ("mmlu", "base", 45), ("mmlu", "emo", 45),
    ]  # fmt: skip
    assert not report.claims
    assert [table.title for table in task_tables(report.measurements)] == ["Tasks", "lm-eval"]
    trec, mmlu = compare_logs([evaluated.folder], baseline="base").main
    assert (trec.candidate, trec.baseline, trec.n, trec.value) == ("emo", "base", 20, 40)
    assert trec.p == pytest.approx(2 / 2**8)  # McNemar's exact test of 8 to 0
    assert trec.adjusted_p == trec.p  # the other has no test: the two agree on every row
    assert (mmlu.p, mmlu.interval) == (None, None)
    for text in (out, (evaluated.report / "report.md").read_text(), (evaluated.report / "report.html").read_text()):
        assert "retrieval alone" in text
        assert "67.5" in text  # emo's mean
    first_screen = (evaluated.report / "report.html").read_text().partition('<section id="numbers"')[0]
    assert "Measured without a judge" in first_screen
    assert re.findall("<caption>(.*?)</caption>", first_screen) == ["Tasks"]
    markdown = (evaluated.report / "report.md").read_text()
    assert "| base model |" in markdown
    assert "| answered |" not in markdown  # it has no prompts
    assert "| emo | 90.0 | 45.0 | 67.5 |" in markdown
    assert "| retrieval alone | 60.0 | - | - |" in markdown
    assert "| arc_easy | emo | acc | 0 | 5 | 0.40 | 0.10 |" in markdown


def test_the_mean_is_over_the_tasks_of_all_systems(evaluated):
    answered(evaluated, "emo", "subj", 20)
    report = build_report(evaluated.folder)
    overview = task_tables(report.measurements)[0]
    rows = {row[0]: row[1:] for row in overview.rows}
    assert rows["emo"] == [90.0, 45.0, 100.0, 67.5]
    assert rows["base"] == [50.0, 45.0, None, 47.5]


def test_test_rows_among_the_demonstrations_are_warned_about(evaluated):
    claims = document(written_report(evaluated.folder)).claims_changed()
    assert "trec: 3 of 20 test rows stand word for word among the demonstrations' rows" in claims[-1]
