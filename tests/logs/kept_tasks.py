"""What `instruct evaluate` keeps of a task: lm-eval's files in a run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from instruct.base.files import write_atomically
from instruct.run.directory import RunDirectory
from instruct.run.measurements import PartResult, files_folder, measure, numbers

DATE = "2026-01-01T10-00-00.000000"


def task_files(
    task: str, system: str, values: Sequence[float | None], metric: str = "acc", better: str = "higher"
) -> dict[str, str]:
    """The files that lm-eval writes of a task, by name: a system's values of a metric in its rows."""
    rows = [
        {"doc_id": unit, "doc": {"question": f"Q{unit}?"}, "target": "A", "arguments": {}, "resps": [["B"]]}
        | {"filtered_resps": ["B"], "filter": "none", "metrics": [metric], metric: value}
        for unit, value in enumerate(values)
    ]
    config = {"task": task, "metric_list": [{"metric": metric, "aggregation": "mean"}]}
    results = {
        "results": {task: {"alias": task, f"{metric},none": mean(values)}},
        "configs": {task: config}, "n-shot": {task: 0}, "versions": {task: 1}, "config": {"model": "hf"},
        "n-samples": {task: {"original": len(values), "effective": len(values)}}, "model_name": system,
        "higher_is_better": {task: {metric: better == "higher"}},
    }  # fmt: skip
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    return {f"samples_{task}_{DATE}.jsonl": lines, f"results_{DATE}.json": json.dumps(results)}


def mean(values: Sequence[float | None]) -> float:
    return fmean(value for value in values if value is not None)


def keep_task(
    run: RunDirectory,
    task: str,
    system: str,
    values: Sequence[float | None],
    metric: str = "acc",
    better: str = "higher",
    **details: Any,
) -> None:
    """A system's values of a metric in the rows of a task."""
    folder = files_folder(run, f"lm_eval/{task}", system)
    contents = task_files(task, system, values, metric, better)
    for name, content in contents.items():
        write_atomically(folder / name, content)
    about = {"task": task, "shots": 0, **({"better": "lower"} if better == "lower" else {}), **details}
    found = numbers({metric: mean(values)}, len(values), **about)
    result = PartResult(found, files=[folder / name for name in contents])
    measure(run, f"lm_eval/{task}", system, {"limit": None}, lambda: result)
