"""lm-evaluation-harness: its own tasks on the systems of a run, and our tasks in its format.

Needs the extra `lm-eval`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import glob
import hashlib
import json
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from instruct.base.cards import list_cards, nearest
from instruct.base.errors import InputError, InstructError, one_line
from instruct.base.files import sha256_of, write_atomically
from instruct.data.templates import DEFAULT, Rendering
from instruct.engines.forward import ForwardModel
from instruct.measuring.tasks.answering import Task
from instruct.measuring.tasks.cards import is_task_file
from instruct.measuring.tasks.options import TaskOptions
from instruct.run.measurements import Details, Number, PartResult

# A resample of metrics that have no formula for their standard error.
_RESAMPLES = 1000


class Harness:
    """lm-eval's tasks by name, or by the path of a task's YAML file.

    Raises:
        InputError: lm-eval is not installed, or has no such task; a file is not a task, or names code to run.
    """

    def __init__(self, options: TaskOptions, rendering: Rendering = DEFAULT) -> None:
        os.environ.setdefault("HF_DATASETS_TRUST_REMOTE_CODE", "0")
        try:
            import lm_eval
            from lm_eval.tasks import TaskManager
        except ImportError as error:
            near = nearest(options.lm_eval[0], (card.name for card in list_cards("data/tasks")))
            raise InputError(
                f"task {one_line(', '.join(options.lm_eval), 100)}: has no card{near}, and tasks of lm-eval need the "
                f"package ({one_line(error, 80)}); run `pip install 'emo-instruct[lm-eval]'`"
            ) from None
        self.version: str = lm_eval.__version__
        self._options = options
        self._rendering = dataclasses.replace(rendering, remedy="set --no-chat")
        self._files = {
            task_of_file(Path(name), options.trust_task_code): name for name in options.lm_eval if is_task_file(name)
        }
        self.names = [*self._files, *(name for name in options.lm_eval if not is_task_file(name))]
        self._manager = TaskManager(include_defaults=len(self._files) < len(options.lm_eval))
        known = set(self._manager.all_tasks)
        for name in self.names:
            if name not in known and name not in self._files:
                near = nearest(name, known | {card.name for card in list_cards("data/tasks")})
                shown = "see `instruct list tasks` and `lm-eval ls tasks`"
                raise InputError(f"lm_eval: has no task {one_line(name, 60)!r}{near}; {shown}")

    def files_sha256(self, name: str) -> str | None:
        """The content of a task's YAML file and of the files that it names; None: the task is lm-eval's own."""
        if name not in self._files:
            return None
        path = Path(self._files[name])
        content = _task_content(path, trusted=True)
        digest = hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode())
        for text in _texts(content):
            module = path.parent / f"{text.rpartition('.')[0].replace('.', '/')}.py"
            for file in sorted({*glob.glob(text), *glob.glob(glob.escape(str(module)))}):
                digest.update(sha256_of(Path(file)).encode() if Path(file).is_file() else b"")
        return digest.hexdigest()

    def inputs(self) -> dict[str, Any]:
        """What results depend on besides the model and the task."""
        options = self._options
        inputs = {"lm_eval": self.version, "shots": options.lm_eval_shots, "limit": options.limit}
        return inputs | ({"chat": self._rendering.identity() or True} if options.chat else {})

    def evaluate(self, model: ForwardModel, name: str, replies: Path) -> PartResult:
        """A task's results, or those of a group and its tasks, as lm-eval gives them, not in percent; and by row what
        each metric makes of it, if that is a number.

        Args:
            replies: the file of the model's replies so far; what is there is not asked again.

        Raises:
            InputError: the task's data cannot be loaded; with `chat`, a model without a chat template.
        """
        from lm_eval import simple_evaluate

        from instruct.measuring.tasks.lm import PrefixLM, Replies

        if self._options.chat:
            self._rendering.prepare(model.tokenizer)
            if not model.tokenizer.chat_template:
                raise InputError(f"{model.engine.subject}: its tokenizer has no chat template; set --no-chat")
        with contextlib.closing(Replies(replies)) as kept, model.engine.adapted(model.adapter) as network:
            lm = PrefixLM(model, network, kept, self._rendering)
            try:
                found = simple_evaluate(
                    lm,
                    tasks=[self._files.get(name, name)],
                    num_fewshot=self._options.lm_eval_shots,
                    limit=self._options.limit,
                    task_manager=self._manager,
                    apply_chat_template=self._options.chat,
                    bootstrap_iters=_RESAMPLES,
                    confirm_run_unsafe_code=False,
                )
            except InstructError:
                raise
            except Exception as error:  # the hub's client, datasets and lm-eval raise their own
                reason = one_line(f"{type(error).__name__}: {error}", 200)
                raise InputError(f"lm_eval: the task {name} cannot be run ({reason}); try it with `lm-eval`") from error
        assert found
        about = {"shortened": lm.shortened, "chat": self._options.chat}
        numbers = [
            result
            for task, values in found["results"].items()
            for result in _results(task, values, found["n-shot"].get(task), found["n-samples"].get(task, {}), about)
        ]
        return PartResult(numbers, _row_values(found["samples"]))


def _row_values(samples: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, list[Any]]:
    """Columns of what each metric makes of a row, None where a task of a group lacks it; the first one's task has it
    first. Rows are named by task and place in the split.
    """
    rows: dict[str, dict[str, float]] = {}
    for task, own in samples.items():
        for sample in own:
            row = rows.setdefault(f"{task}/{sample['doc_id']}", {})
            for metric in sample["metrics"]:
                if isinstance(sample[metric], int | float) and math.isfinite(sample[metric]):
                    row[_metric_name(metric, sample["filter"])] = float(sample[metric])
    metrics = dict.fromkeys(metric for row in rows.values() for metric in row)
    return {"id": list(rows), **{metric: [row.get(metric) for row in rows.values()] for metric in metrics}}


def _metric_name(metric: str, applied: str) -> str:
    """A metric with the filter that its replies went through."""
    return metric if applied == "none" else f"{metric} ({applied})"


def _results(
    task: str, values: dict[str, Any], shots: int | None, rows: dict[str, int], about: Mapping[str, Any]
) -> list[Number]:
    """Of keys such as `acc,none` and `acc_stderr,none`: a metric and the filter that its replies went through."""
    metrics: dict[str, float] = {}
    errors: dict[str, float] = {}
    for key, value in values.items():
        metric, comma, applied = key.partition(",")
        if not comma or not isinstance(value, int | float) or not math.isfinite(value):
            continue
        name = _metric_name(metric.removesuffix("_stderr"), applied)
        (errors if metric.endswith("_stderr") else metrics)[name] = float(value)
    return [
        Number(
            metric=name,
            value=value,
            n=rows.get("effective"),
            details=Details(task=task, shots=shots, standard_error=errors.get(name), **about),
        )
        for name, value in metrics.items()
    ]


def task_of_file(path: Path, trusted: bool) -> str:
    """The name of lm-eval's task in a YAML file.

    Args:
        trusted: code that the file names, or one that it includes, may run.

    Raises:
        InputError: the file cannot be read, is not a task, or names code that is not trusted.
    """
    content = _task_content(path, trusted)
    if not isinstance(content.get("task"), str):
        raise InputError(f"{path}: is no task of lm-eval; it needs the key task")
    return str(content["task"])


def _task_content(path: Path, trusted: bool, within: tuple[Path, ...] = ()) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise InputError(f"{path}: cannot be read; give a task of lm-eval, or the YAML file of one") from None
    try:
        loader = _Lenient(text)
        content = loader.get_single_data()
        included = content.pop("include", [])
    except (yaml.YAMLError, AttributeError):
        raise InputError(f"{path}: is no task of lm-eval; it needs the key task") from None
    code = [*loader.functions, *(str(content[key]) for key in ("class",) if key in content)]
    if code and not trusted:
        raise InputError(f"{path}: runs code of its own ({one_line(code[0], 60)}); read it, then set --trust-task-code")
    merged: dict[str, Any] = {}
    for name in [included] if isinstance(included, str) else included:
        if (other := (path.parent / name).resolve()) not in within:
            merged |= _task_content(other, trusted, (*within, other))
    return merged | content


def _texts(value: Any) -> Iterator[str]:
    """The texts in a YAML value that can name a file or a function of one: a bare `*` matches whatever is here."""
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _texts(inner)
    elif isinstance(value, str) and re.search(r"\.\w", value):
        yield value


class _Lenient(yaml.SafeLoader):
    """Reads lm-eval's own tag, `!function`, as text; `functions`: all of them, however the tag is written."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self.functions: list[str] = []

    def _function(self, node: Any) -> str:
        self.functions.append(str(self.construct_scalar(node)))
        return self.functions[-1]


_Lenient.add_constructor("!function", _Lenient._function)


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
