"""lm-evaluation-harness: its tasks, and those of the same format in files, on the systems of a run.

Needs the extra `lm-eval`.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np
from jinja2.sandbox import ImmutableSandboxedEnvironment

from instruct.analysis.clusters import numbered, row_clusters
from instruct.analysis.inference import clustered_error
from instruct.base.cards import list_cards, nearest
from instruct.base.errors import InputError, InstructError, one_line
from instruct.base.machine import pip_install
from instruct.data.templates import DEFAULT, Rendering
from instruct.logs.lm_eval import metric_name
from instruct.measuring.tasks.cards import Rule, TaskFile, read_task
from instruct.measuring.tasks.options import TaskOptions
from instruct.run.measurements import Details, Number, PartResult

if TYPE_CHECKING:
    import pandas as pd

    from instruct.measuring.tasks.few_shot import FewShot

# A resample of metrics that have no formula for their standard error.
_RESAMPLES = 1000


class Harness:
    """Tasks by the name of their card, by lm-eval's name, or by the path of their YAML file.

    `parts`: the tasks by what a run measures: `tasks/KEY` with labels, in percent, `lm_eval/NAME` in lm-eval's metrics.

    Args:
        rendering: how chats become text.
        engine: what replies come from; None: the network in this process.

    Raises:
        InputError: lm-eval is not installed, or has no such task; a file is not a task, or names code to run.
    """

    def __init__(self, options: TaskOptions, rendering: Rendering = DEFAULT, engine: str | None = None) -> None:
        os.environ.setdefault("HF_DATASETS_TRUST_REMOTE_CODE", "0")
        names = [*options.cards, *options.lm_eval]
        try:
            import lm_eval.utils
            from lm_eval.tasks import TaskManager
        except ImportError as error:
            raise InputError(
                f"task {one_line(', '.join(names), 100)}: tasks need the package lm_eval ({one_line(error, 80)}); run "
                f"`{pip_install('lm-eval')}`"
            ) from None
        # A template in a task's YAML file could reach all of Python.
        lm_eval.utils.env.__class__ = ImmutableSandboxedEnvironment
        self.version: str = lm_eval.__version__
        self._options, self._rendering, self._engine = options, rendering, engine
        cards = {card.name for card in list_cards("data/tasks")}
        self.parts: dict[str, TaskFile | str] = {}
        for name in names:
            if name.endswith((".yaml", ".yml")) or (name in cards and name not in options.lm_eval):
                task = read_task(name, options.trust_task_code)
                part = f"tasks/{_key(task, options)}" if task.few_shot else f"lm_eval/{task.name}"
                self.parts[part] = task
            else:
                part = f"lm_eval/{name}"
                self.parts[part] = name
        theirs = [task for task in self.parts.values() if isinstance(task, str)]
        about = {"folder": options.folder, "variant": options.variant}
        about |= options.model_dump(include={"rule", "retriever", "cluster_column"}, exclude_defaults=True)
        self._manager = TaskManager(
            include_defaults=bool(theirs), metadata={key: value for key, value in about.items() if value}
        )
        for name in theirs:
            if name not in (known := set(self._manager.all_tasks)):
                near = nearest(name, known | cards)
                shown = "see `instruct list tasks` and `lm-eval ls tasks`"
                raise InputError(f"lm_eval: has no task {one_line(name, 60)!r}{near}; {shown}")
        self._loaded: dict[str, Any] = {}

    def inputs(self, part: str) -> dict[str, Any]:
        """What results depend on besides the model."""
        options, task = self._options, self.parts[part]
        inputs: dict[str, Any] = {"lm_eval": self.version, "shots": options.shots, "limit": options.limit}
        inputs |= {"engine": self._engine} if self._engine else {}
        inputs |= {"cluster_column": options.cluster_column} if options.cluster_column else {}
        if options.seeds_of_demonstrations > 1 and not (isinstance(task, TaskFile) and task.few_shot):
            inputs["draws"] = options.seeds_of_demonstrations
        inputs |= {"chat": self._rendering.identity() or True} if options.chat else {}
        if isinstance(task, TaskFile):
            inputs["files"] = task.sha256(options.folder)
            if task.few_shot:
                inputs |= {"rule": options.rule, "variant": options.variant, "retriever": options.retriever}
        return inputs

    def load(self, part: str) -> FewShot | None:
        """The task of a part with its rows, if it is one with labels.

        Raises:
            InputError: its rows cannot be read, or the engine cannot follow its rule.
        """
        task = self.parts[part]
        if part not in self._loaded and isinstance(task, TaskFile) and task.few_shot:
            with refusing(task.name):
                (self._loaded[part],) = self._manager.load([str(task.path)])["tasks"].values()
            if self._loaded[part].about.rule == "openicl" and self._options.engine != "transformers":
                raise InputError(
                    f"evaluation.tasks.engine: the task {task.name} follows the rule openicl, which only transformers "
                    "computes; leave the engine out, or set evaluation.tasks.rule to sum"
                )
        return self._loaded.get(part)

    def load_all(self) -> None:
        """Find what is wrong with the tasks' rows before any work; raises as `load`."""
        for part in self.parts:
            self.load(part)

    def evaluate(self, model: Callable[[Rule], Any], part: str) -> PartResult:
        """A task's results, or those of a group and its tasks, and by row what each metric makes of it.

        Args:
            model: lm-eval's model of a system, by the rule that log-likelihoods follow.

        Raises:
            InputError: the task's data cannot be loaded, or the model cannot be asked.
            StoppedError: a server that does not reply.
        """
        task = self.parts[part]
        if few_shot := self.load(part):
            lm = model(few_shot.about.rule)
            few_shot.shots = {}
            longest = min(self._longest(lm), lm.max_length)
            few_shot.fits = lambda text: lm.tokenizer is None or len(lm.tok_encode(text)) <= longest
            return few_shot.result(self._asked(lm, part, few_shot)["samples"][few_shot.config.task])
        lm = model("sum")
        spec = str(task.path) if isinstance(task, TaskFile) else task
        draws = [self._asked(lm, part, spec)]
        while len(draws) < self._options.seeds_of_demonstrations:
            draws.append(self._asked(lm, part, spec, len(draws)))
            if _prompts(draws[1]) == _prompts(draws[0]):
                del draws[1]
                break
        shortened = self._count_shortened(lm, draws[0])
        clusters = _clusters(draws[0]["samples"], draws[0]["tasks"])
        return _mean_of_draws(draws, clusters, shortened=shortened, chat=self._options.chat)

    def _longest(self, lm: Any) -> int:
        """Tokens that are scored together at most: transformers does not read the last, vLLM generates one more."""
        return int(lm.max_length) + {"transformers": 1, "vllm": -1, "server": 0}[self._options.engine]

    def _count_shortened(self, lm: Any, result: Mapping[str, Any]) -> int:
        """The requests that lose their beginning, because they do not fit the model's context."""
        from lm_eval.models.utils import normalize_gen_kwargs

        if lm.tokenizer is None:  # only the server knows
            return 0
        count = 0
        for samples in result["samples"].values():
            asked = {sample["doc_id"]: sample["arguments"] for sample in samples}  # once for each filter
            for arguments in itertools.chain(*asked.values()):
                text, *more = arguments
                if more and isinstance(more[0], dict):
                    room = lm.max_length - normalize_gen_kwargs(more[0])["max_gen_toks"]
                    count += len(lm.tok_encode(text)) > room
                elif more:
                    count += len(lm.tok_encode(text + more[0])) > self._longest(lm)
        return count

    def _asked(self, lm: Any, part: str, spec: Any, draw: int = 0) -> dict[str, Any]:
        """lm-eval's results with a draw of demonstrations, and its tasks; the first draw is lm-eval's own."""
        from lm_eval import simple_evaluate
        from lm_eval.defaults import DEFAULT_OTHER_SEED

        # It would run pip, git and others to describe the environment, for seconds; nothing reads that.
        outside = {"add_env_info": mock.DEFAULT, "get_git_commit_hash": mock.DEFAULT}
        undescribed = mock.patch.multiple("lm_eval.evaluator", **outside)
        tasks: dict[str, Any] = {}
        read = self._manager.load

        def load(names: Any) -> Any:
            loaded = read(names)
            for task in loaded["tasks"].values():
                _check_column(task)
            tasks.update(loaded["tasks"])
            return loaded

        with (
            refusing(part.partition("/")[2]),
            undescribed,
            mock.patch.object(self._manager, "load", load),
        ):
            results = simple_evaluate(
                lm,
                tasks=[spec],
                num_fewshot=self._options.shots,
                limit=self._options.limit,
                task_manager=self._manager,
                apply_chat_template=self._options.chat,
                bootstrap_iters=_RESAMPLES,
                confirm_run_unsafe_code=False,
                fewshot_random_seed=DEFAULT_OTHER_SEED + draw,
            )
        assert results
        return {**results, "tasks": tasks}


@contextlib.contextmanager
def refusing(name: str) -> Iterator[None]:
    """What is wrong with a task as our errors."""
    try:
        yield
    except InstructError:
        raise
    except Exception as error:  # the hub's client, datasets and lm-eval raise their own
        reason = one_line(f"{type(error).__name__}: {error}", 200)
        raise InputError(f"lm_eval: the task {name} cannot be run ({reason}); try it with `lm-eval`") from error


def _key(task: TaskFile, options: TaskOptions) -> str:
    """A task's name in results, with what differs from its file: `trec`, `trec-code-sum-4shots`."""
    parts = [task.name, options.variant if options.variant in task.about.get("variants", {}) else ""]
    parts += [options.rule] if options.rule != "openicl" else []
    parts += [f"{options.shots}shots"] if options.shots not in (None, task.content.get("num_fewshot", 0)) else []
    return "-".join(part for part in parts if part)


def _prompts(result: Mapping[str, Any]) -> list[str]:
    return [sample["prompt_hash"] for samples in result["samples"].values() for sample in samples]


def _column(task: Any) -> str | None:
    """The column that a task's clusters are named in."""
    return (task.config.metadata or {}).get("cluster_column")


def _check_column(task: Any) -> None:
    """Refuse a column that the task's first row does not have."""
    column, row = _column(task), next(iter(task.eval_docs))
    if column not in (None, "doc_id", *row):
        known = ", ".join(one_line(name, 40) for name in row)
        raise InputError(
            f"task {task.config.task}: has no column {one_line(column, 60)!r} (columns: {known}); correct "
            "cluster_column"
        )


def _clusters(samples: Mapping[str, Sequence[Mapping[str, Any]]], tasks: Mapping[str, Any]) -> dict[str, str]:
    """The cluster of each row of a task, or of a group of tasks; see `row_clusters`."""
    docs, questions = {}, {}
    for name, own in samples.items():
        for sample in own:
            row = f"{name}/{sample['doc_id']}"
            docs[row] = {"doc_id": sample["doc_id"], **sample["doc"]}
            questions[row] = tasks[name].doc_to_text(sample["doc"])
    columns = {_column(task) for task in tasks.values()}
    return row_clusters(docs, questions, columns.pop() if len(columns) == 1 else None)


def _mean_of_draws(draws: Sequence[Mapping[str, Any]], clusters: Mapping[str, str], **about: Any) -> PartResult:
    """lm-eval's results as rows whose values are means over draws of demonstrations, also those of each test row.

    The standard error of several draws, and of rows that are clusters, is that of the test rows, of metrics that are
    means over them.
    """
    numbers, *others = (read_results(draw, about) for draw in draws)
    of_rows = sum(_row_values(draw["samples"]) for draw in draws) / len(draws)
    tasks = of_rows.index.str.rpartition("/").get_level_values(0)
    of_cluster = [clusters.get(row, row) for row in of_rows.index]
    for place, number in enumerate(numbers if others or clusters else ()):
        values = [number.value or 0.0, *(other[place].value or 0.0 for other in others)]
        mean, error = float(np.mean(values)), None
        within = (tasks == number.details.task) | (number.details.task not in tasks)  # of a group: all
        if number.metric in of_rows:
            own = of_rows[number.metric][within & of_rows[number.metric].notna()]
            if len(own) > 1 and math.isclose(own.mean(), mean, abs_tol=1e-9):  # the metric is a mean over rows
                error = clustered_error(own.to_numpy(), numbered(own.index, clusters))
        more: dict[str, Any] = {"standard_error": error}
        if others:
            more |= {"draws": len(draws), "lowest": min(values), "highest": max(values)}
        if clusters:
            more["clusters"] = len(set(itertools.compress(of_cluster, within)))
        details = number.details.model_copy(update=more)
        numbers[place] = number.model_copy(update={"value": mean, "details": details})
    columns = of_rows.astype(object).where(of_rows.notna(), None)
    by_name: dict[str, list[Any]] = {"id": list(of_rows.index), **{name: list(columns[name]) for name in columns}}
    return PartResult(numbers, by_name | ({"cluster": of_cluster} if clusters else {}))


def _row_values(samples: Mapping[str, Sequence[Mapping[str, Any]]]) -> pd.DataFrame:
    """What each metric makes of a row, which is named by task and place in the split; NaN where a task lacks it."""
    import pandas as pd

    rows: dict[str, dict[str, float]] = {}
    for task, own in samples.items():
        for sample in own:
            row = rows.setdefault(f"{task}/{sample['doc_id']}", {})
            for metric in sample["metrics"]:
                if isinstance(sample[metric], int | float) and math.isfinite(sample[metric]):
                    row[metric_name(metric, sample["filter"])] = float(sample[metric])
    return pd.DataFrame(list(rows.values()), index=pd.Index(rows, dtype=object))


def read_results(result: Mapping[str, Any], about: Mapping[str, Any]) -> list[Number]:
    """The metrics of a task, or of a group and its tasks.

    Of keys such as `acc,none` and `acc_stderr,none`: a metric and the filter that its replies went through.
    """
    rows = []
    for task, values in result["results"].items():
        finite: dict[str, float] = {}
        for key, value in values.items():
            metric, comma, applied = key.partition(",")
            if comma and isinstance(value, int | float) and math.isfinite(value):
                finite[metric_name(metric, applied)] = float(value)
        for key in values:
            metric, _, applied = key.partition(",")
            name = metric_name(metric, applied)
            if name not in finite or metric.endswith("_stderr"):
                continue
            error = finite.get(metric_name(f"{metric}_stderr", applied))
            details = Details(task=task, shots=result["n-shot"].get(task), standard_error=error, **about)
            if result.get("higher_is_better", {}).get(task, {}).get(metric) is False:
                details.better = "lower"
            n = result["n-samples"].get(task, {}).get("effective")
            rows.append(Number(metric=name, value=finite[name], n=n, details=details))
    return rows
