"""lm-evaluation-harness: its own tasks on the systems of a run, and our tasks in its format.

Needs the extra `lm-eval`.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from instruct.base.cards import nearest
from instruct.base.errors import InputError, one_line
from instruct.base.files import write_atomically
from instruct.engines.forward import ForwardModel
from instruct.measuring.tasks.answering import Task
from instruct.measuring.tasks.options import TaskOptions
from instruct.run.measurements import Details, Number

# A resample of metrics that have no formula for their standard error.
_RESAMPLES = 1000


class Harness:
    """lm-eval's tasks by name, or by the path of a task's YAML file.

    Raises:
        InputError: lm-eval is not installed, or has no such task.
    """

    def __init__(self, options: TaskOptions) -> None:
        os.environ.setdefault("HF_DATASETS_TRUST_REMOTE_CODE", "0")
        try:
            import lm_eval
            from lm_eval.tasks import TaskManager
        except ImportError as error:
            raise InputError(
                f"lm_eval: needs the package lm-eval ({one_line(error, 80)}); run `pip install 'emo-instruct[lm-eval]'`"
            ) from None
        self.version: str = lm_eval.__version__
        self._options = options
        files = {name: Path(name) for name in options.lm_eval if name.endswith((".yaml", ".yml"))}
        self._names = {name: _task_name(files[name]) if name in files else name for name in options.lm_eval}
        folders = sorted({str(path.parent.resolve()) for path in files.values()})
        self._manager = TaskManager(include_path=folders or None)
        known = set(self._manager.all_tasks)
        for name in self._names.values():
            if name not in known:
                near = nearest(name, known)
                raise InputError(f"lm_eval: has no task {one_line(name, 60)!r}{near}; see `lm-eval ls tasks`")

    @property
    def names(self) -> list[str]:
        """The tasks' names."""
        return list(self._names.values())

    def inputs(self) -> dict[str, Any]:
        """What results depend on besides the model and the task."""
        return {"lm_eval": self.version, "shots": self._options.lm_eval_shots, "limit": self._options.limit}

    def evaluate(self, model: ForwardModel, name: str) -> list[Number]:
        """A task's results, or those of a group and its tasks; as lm-eval gives them, not in percent.

        Raises:
            InputError: the task's data cannot be loaded.
        """
        from lm_eval import simple_evaluate
        from lm_eval.models.huggingface import HFLM

        with model.engine.adapted(model.adapter) as network:
            try:
                found = simple_evaluate(
                    HFLM(pretrained=network, tokenizer=model.tokenizer, batch_size=8),
                    tasks=[name],
                    num_fewshot=self._options.lm_eval_shots,
                    limit=self._options.limit,
                    task_manager=self._manager,
                    bootstrap_iters=_RESAMPLES,
                    log_samples=False,
                    confirm_run_unsafe_code=False,
                )
            except Exception as error:  # the hub's client, datasets and lm-eval raise their own
                reason = one_line(f"{type(error).__name__}: {error}", 200)
                raise InputError(f"lm_eval: the task {name} cannot be run ({reason}); try it with `lm-eval`") from error
        assert found
        return [
            result
            for task, values in found["results"].items()
            for result in _results(task, values, found["n-shot"].get(task), found["n-samples"].get(task, {}))
        ]


def _results(task: str, values: dict[str, Any], shots: int | None, rows: dict[str, int]) -> list[Number]:
    """Of keys such as `acc,none` and `acc_stderr,none`: a metric and the filter that its replies went through."""
    metrics: dict[str, float] = {}
    errors: dict[str, float] = {}
    for key, value in values.items():
        metric, comma, applied = key.partition(",")
        if not comma or not isinstance(value, int | float) or not math.isfinite(value):
            continue
        name = metric.removesuffix("_stderr") + ("" if applied == "none" else f" ({applied})")
        (errors if metric.endswith("_stderr") else metrics)[name] = float(value)
    n = rows.get("effective")
    return [
        Number(metric=name, value=value, n=n, details=Details(task=task, shots=shots, standard_error=errors.get(name)))
        for name, value in metrics.items()
    ]


def _task_name(path: Path) -> str:
    try:
        found = yaml.load(path.read_text(encoding="utf-8"), _Lenient)
        return str(found["task"])
    except (OSError, UnicodeDecodeError):
        raise InputError(f"{path}: cannot be read; give a task of lm-eval, or the YAML file of one") from None
    except (yaml.YAMLError, KeyError, TypeError):
        raise InputError(f"{path}: is no task of lm-eval; it needs the key task") from None


class _Lenient(yaml.SafeLoader):
    """Reads lm-eval's own tag, `!function`, as text."""


_Lenient.add_constructor("!function", lambda loader, node: loader.construct_scalar(node))  # type: ignore[arg-type]


def export_task(task: Task, folder: Path) -> Path:
    """Write a task for lm-eval: KEY.yaml and KEY.jsonl, a row with its demonstrations, the text and the choices.

    lm-eval cannot retrieve demonstrations for a query, so that they are a column, and the task has 0 shots. Its metric
    `acc` compares sums of log-probabilities of the label: our rule `sum`.

    Returns:
        The path of the YAML file, for `lm-eval --tasks`.
    """
    writer = task.writer
    lines = []
    for row, found in zip(task.rows, task.demonstrations, strict=True):
        query, prompt = writer.prompt(row, []), writer.prompt(row, found)
        asked = query.context[len(writer.hint(row)) :]
        content = {
            "demonstrations": prompt.context[: len(prompt.context) - len(asked)],
            "query": asked,
            "choices": prompt.continuations,
            "label": task.card.labels.index(row.label),
        }
        lines.append(json.dumps(content, ensure_ascii=False))
    rows = folder.resolve() / f"{task.key}.jsonl"
    write_atomically(rows, "\n".join(lines) + "\n")
    config = {
        "task": f"instruct_{task.key}",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(rows)}},
        "test_split": "test",
        "output_type": "multiple_choice",
        "doc_to_text": "{{demonstrations}}{{query}}",
        "doc_to_choice": "choices",
        "doc_to_target": "label",
        "target_delimiter": "",  # a choice begins with its own white space
        "num_fewshot": 0,
        "metric_list": [{"metric": "acc", "aggregation": "mean", "higher_is_better": True}],
        "metadata": {"version": 1.0},
    }
    path = folder / f"{task.key}.yaml"
    write_atomically(path, yaml.safe_dump(config, sort_keys=False, allow_unicode=True))
    return path


def export_tasks(tasks: Sequence[Task], folder: Path) -> list[Path]:
    """Write tasks for lm-eval; see `export_task`."""
    return [export_task(task, folder) for task in tasks]
