"""Logs of lm-evaluation-harness: of the tool as installed, and as its earlier versions wrote them."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import pytest
from json_files import write_json
from lm_eval_runs import SUBJECTS, evaluate, write_tasks
from log_samples import lm_eval_results as results
from log_samples import lm_eval_row as sample

from instruct import compare_logs
from instruct.base.errors import InputError
from instruct.logs.lm_eval import metric_name
from instruct.logs.read import read_logs
from instruct.scores.scores import Scores

DATA = os.environ.get("INSTRUCT_SHARED_DATA")


def logs_by_task(path: Path) -> dict[str, Scores]:
    found = read_logs(path)
    assert not found.unknown
    return {log.task: log for log in found.logs}


@pytest.mark.slow
@pytest.mark.skipif(DATA is None, reason="INSTRUCT_SHARED_DATA does not name the published data sets")
def test_the_tools_own_figures_are_those_of_its_samples(tiny_model_folder, tmp_path, monkeypatch):
    pytest.importorskip("lm_eval")
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    write_tasks(tmp_path, Path(DATA or ""))
    tasks = ["mmlu_all", "gsm8k_some", "last_word", "text_of_sums"]
    results = evaluate(tasks, tmp_path, str(tiny_model_folder), tmp_path / "out")
    logs = logs_by_task(tmp_path / "out")
    assert {log.system for log in logs.values()} == {str(tiny_model_folder)}
    assert logs.keys() == {*(f"mmlu_{subject}" for subject in SUBJECTS), "gsm8k_some", "last_word", "text_of_sums"}
    figures: dict[str, dict[str, float]] = {}
    for task, values in results["results"].items():
        named = {key.partition(",")[::2]: value for key, value in values.items() if "," in key and "_stderr" not in key}
        figures[task] = {metric_name(*key): value for key, value in named.items()}
    for task, log in logs.items():
        assert log.figures == figures[task]
        for metric in log.values:
            assert log.mean(metric) == pytest.approx(figures[task][metric], rel=1e-12)
    assert logs["last_word"].unpaired == ["perplexity"]
    assert logs["text_of_sums"].unpaired == ["word_perplexity"]
    assert logs["text_of_sums"].better == {"word_perplexity": "lower"}
    assert set(logs["gsm8k_some"].values) == {"exact_match (strict-match)", "exact_match (flexible-extract)"}
    subjects = [logs[f"mmlu_{subject}"] for subject in SUBJECTS]
    assert [len(log.units) for log in subjects] == list(SUBJECTS.values())
    groups = {"mmlu_all": True, "mmlu_two": False}
    assert [log.groups for log in subjects] == [groups, groups, {"mmlu_all": True}]
    settings = {"shots": 0, "template": "none", "max tokens": 12, "temperature": 1.0, "repeats": 2}
    assert settings.items() <= logs["gsm8k_some"].settings.items()
    assert logs["mmlu_anatomy"].texts[0][0].startswith("A lesion causing compression")


def write(folder: Path, rows: list[dict[str, Any]], found: dict[str, Any] | None = None) -> Path:
    if found is not None:
        write_json(folder / "results_2026-11-26T10-00-00.5.json", found)
    return write_json(folder / "samples_sums_2026-11-26T10-00-00.5.jsonl", rows)


ROWS = [sample(number, exact_match=float(number == 1)) for number in range(4)]
RIGHT = results(4, exact_match__none=0.25)


def test_without_results_nobody_is_better_in_a_metric_that_may_be_a_loss(tmp_path):
    for system, loss in (("base", 0.9), ("tuned", 0.5)):
        write(tmp_path / system, [sample(number, brier=loss - number % 7 / 10 * (loss > 0.6)) for number in range(300)])
    compared = compare_logs([tmp_path / "base", tmp_path / "tuned"])
    assert compared.headlines()[0].startswith("sums: base is higher than tuned: brier +")


def test_a_log_has_its_units_settings_and_figures(tmp_path):
    write(tmp_path, ROWS, RIGHT)
    log = logs_by_task(tmp_path)["sums"]
    assert (log.tool, log.system, log.version, log.run) == ("lm-eval", "a/b", "0.4.13", "2026-11-26T10-00-00.5")
    assert log.units == ["0", "1", "2", "3"]
    assert list(log.values["exact_match"]) == [0, 1, 0, 0]
    assert log.figures == {"exact_match": 0.25}
    assert log.clusters == ["0", "0", "2", "2"]
    assert log.texts[1] == ("What is 1 + 1?", "It is 1.")
    assert not any(0 in column for column in log.hashes.values())
    assert "s3cret" not in str(log)
    expected = {
        "shots": 5, "template": "chat (abababababab)", "system prompt": "none", "limit": 4, "generation": "until=[]",
        "model arguments": "api_key=…, pretrained=a/b", "task version": 3.0,
    }  # fmt: skip
    assert expected.items() <= log.settings.items()


@pytest.mark.parametrize("named", [True, False])
def test_each_filter_has_its_metrics_also_where_rows_do_not_name_it(named, tmp_path):
    """The rows of one filter follow those of another; before 0.4.7 they did not say which."""
    rows = [
        sample(number, applied if named else None, exact_match=float(number >= least))
        for applied, least in (("strict", 3), ("flexible", 1))
        for number in range(4)
    ]
    path = write(tmp_path, rows)
    if not named:
        with pytest.raises(InputError, match=r"row 5: is row 2 of the unit '0', and does not name its filter; put"):
            read_logs(path)
    write(tmp_path, rows, results(4, exact_match__strict=0.25, exact_match__flexible=0.75))
    log = logs_by_task(tmp_path)["sums"]
    assert len(log.units) == 4
    assert {name: list(values) for name, values in log.values.items()} == {
        "exact_match (strict)": [0, 0, 0, 1], "exact_match (flexible)": [0, 1, 1, 1],
    }  # fmt: skip
    assert log.better["exact_match (flexible)"] == "higher"
    assert not log.reasons


def test_what_is_no_number_is_missing_and_what_is_no_mean_is_not_paired(tmp_path):
    """NumPy's types were written as text; `nanmean` leaves out what is not a number."""
    more: list[dict[str, Any]] = [
        {"exact_match": "True", "ter": ["a", "b"], "own": 1.5},
        {"exact_match": math.nan, "ter": ["a", "c"], "own": 2},
        {"exact_match": "0.5", "ter": ["d", "e"], "own": None},
    ]
    found = results(3, exact_match__none=0.75, ter__none=math.nan, own__none=1.7)
    write(tmp_path, [sample(number, **each) for number, each in enumerate(more)], found)
    log = logs_by_task(tmp_path)["sums"]
    assert list(log.values) == ["exact_match"]
    assert log.mean("exact_match") == 0.75
    assert log.reasons == {"exact_match: no number": 1}
    assert (log.figures, log.unpaired) == ({"exact_match": 0.75, "own": 1.7}, ["ter", "own"])
    assert log.better["ter"] == "lower"  # also where the tool's figure is not a number


@pytest.mark.parametrize(
    ("rows", "found", "error"),
    [
        (ROWS, results(4, exact_match__none=0.5), r"json: exact_match of the task sums is 0\.5, .* mean 0\.25"),
        (ROWS[:3], RIGHT, r"jsonl: has 3 rows of the task sums, results_\S+ is of 4; is the file compl"),
        ([*ROWS, ROWS[2]], None, r"row 5: the unit '2' of the task sums is there twice; keep one of them"),
    ],
)  # fmt: skip
def test_files_that_do_not_fit_are_refused_in_one_line(rows, found, error, tmp_path):
    path = write(tmp_path, rows, found)
    with pytest.raises(InputError, match=error) as raised:
        read_logs(path)
    assert str(raised.value).startswith(str(tmp_path))
    assert str(raised.value).isprintable()
