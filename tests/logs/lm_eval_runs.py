"""Evaluations by lm-evaluation-harness, for the tests of what reads them."""

from __future__ import annotations

import csv
import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from json_files import write_json

SUBJECTS = {"anatomy": 9, "astronomy": 14, "virology": 5}


def write_tasks(folder: Path, data: Path) -> None:
    """Six tasks over rows of published files: three subjects of MMLU in two groups, GSM8K, and two of other types."""
    archive = zipfile.ZipFile(data / "tasks" / "mmlu" / "mmlu.zip")
    for subject, number in SUBJECTS.items():
        text = archive.read(f"data/test/{subject}_test.csv").decode()
        rows = [
            {"question": row[0], "choices": row[1:5], "answer": "ABCD".index(row[5]), "subject": subject}
            for row in list(csv.reader(io.StringIO(text)))[:number]
        ]
        _write_task(
            folder, f"mmlu_{subject}", rows, output_type="multiple_choice", doc_to_choice="{{choices}}",
            doc_to_text="Question: {{question}}\nAnswer:", doc_to_target="answer",
            metric_list=_metrics("acc", "acc_norm"), num_fewshot=1, fewshot_split="test",
        )  # fmt: skip
    # A group of two subjects, each of which counts once, in a group of all, in which each row counts once.
    *two, third = (f"mmlu_{subject}" for subject in SUBJECTS)
    for name, members, by_size in (("mmlu_two", two, False), ("mmlu_all", ["mmlu_two", third], True)):
        group = {"group": name, "task": members,
                 "aggregate_metric_list": [{"metric": "acc", "weight_by_size": by_size}]}  # fmt: skip
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(group))
    lines = (data / "gsm8k" / "test.jsonl").read_text(encoding="utf-8").splitlines()[:8]
    sums = [json.loads(line) for line in lines]
    filters = {"strict-match": "#### ([0-9.]+)", "flexible-extract": "([0-9])"}
    _write_task(
        folder, "gsm8k_some", sums, output_type="generate_until", doc_to_text="Question: {{question}}\nAnswer:",
        doc_to_target="{{answer.split('####')[-1].strip()}}", metric_list=_metrics("exact_match"), repeats=2,
        generation_kwargs={"until": ["\n"], "do_sample": True, "temperature": 1.0, "max_gen_toks": 12},
        filter_list=[
            {"name": name, "filter": [{"function": "regex", "regex_pattern": pattern}, {"function": "take_first"}]}
            for name, pattern in filters.items()
        ],
    )  # fmt: skip
    _write_task(
        folder, "last_word", sums, output_type="loglikelihood", doc_to_text="{{question.rpartition(' ')[0]}}",
        doc_to_target=" {{question.rpartition(' ')[2]}}",
        metric_list=[*_metrics("acc"), *_metrics("perplexity", aggregation="perplexity")],
    )  # fmt: skip
    _write_task(
        folder, "text_of_sums", sums, output_type="loglikelihood_rolling", doc_to_text="", doc_to_target="{{question}}",
        metric_list=_metrics("word_perplexity", aggregation="weighted_perplexity"),
    )  # fmt: skip


def _metrics(*names: str, aggregation: str = "mean") -> list[dict[str, Any]]:
    """Metrics that are better higher, if they are means."""
    return [{"metric": name, "aggregation": aggregation, "higher_is_better": aggregation == "mean"} for name in names]


def _write_task(folder: Path, name: str, rows: list[dict[str, Any]], **config: Any) -> None:
    files = {"data_files": {"test": str(write_json(folder / f"{name}.jsonl", rows))}}
    content = {"task": name, "dataset_path": "json", "dataset_kwargs": files, "test_split": "test"} | config
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(content))


def evaluate(tasks: list[str], folder: Path, model: str, out: Path) -> Mapping[str, Any]:
    """Evaluate a model as `lm_eval run --log_samples` does; returns what the tool found."""
    from lm_eval import simple_evaluate
    from lm_eval.loggers import EvaluationTracker
    from lm_eval.tasks import TaskManager

    tracker = EvaluationTracker(output_path=str(out))
    manager = TaskManager(include_path=str(folder), include_defaults=False)
    results = simple_evaluate(
        "hf", f"pretrained={model},dtype=float32,device=cpu", tasks=tasks, task_manager=manager, bootstrap_iters=0,
        evaluation_tracker=tracker, log_samples=True, batch_size=8,
    )  # fmt: skip
    assert results is not None
    samples = results.pop("samples")
    tracker.save_results_aggregated(results=results, samples=samples)
    for task in results["configs"]:
        tracker.save_results_samples(task_name=task, samples=samples[task])
    return results
