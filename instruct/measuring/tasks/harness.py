"""lm-evaluation-harness: its tasks, and those of the same format in files, on the systems of a run.

Needs the extra `lm-eval`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from instruct.base.cards import list_cards, nearest
from instruct.base.errors import InputError, InstructError, one_line
from instruct.base.extras import vllm_is_installed
from instruct.data.templates import DEFAULT, Rendering
from instruct.engines.forward import ForwardModel
from instruct.engines.start import engine_version
from instruct.measuring.tasks.cards import TaskFile, read_task
from instruct.measuring.tasks.labels import label_result
from instruct.measuring.tasks.options import TaskOptions
from instruct.run.measurements import Details, Number, PartResult

if TYPE_CHECKING:
    from instruct.engines.forward import ForwardEngine
    from instruct.measuring.tasks.few_shot import FewShot
    from instruct.measuring.tasks.lm import Kept, Replies
    from instruct.measuring.tasks.vllm_lm import VLLMModel

# A resample of metrics that have no formula for their standard error.
_RESAMPLES = 1000


class Harness:
    """Tasks by the name of their card, by lm-eval's name, or by the path of their YAML file.

    `parts`: the tasks by what a run measures: `tasks/KEY` with labels, in percent, `lm_eval/NAME` in lm-eval's metrics.
    `forgetting`: those parts that tell what training cost. `adapters`: those that vLLM will be asked for.

    Raises:
        InputError: lm-eval is not installed, or has no such task; a file is not a task, or names code to run.
    """

    def __init__(self, options: TaskOptions, rendering: Rendering = DEFAULT, adapters: Sequence[Path] = ()) -> None:
        os.environ.setdefault("HF_DATASETS_TRUST_REMOTE_CODE", "0")
        names = [*dict.fromkeys([*options.cards, *options.forgetting]), *options.lm_eval]
        try:
            import lm_eval
            from lm_eval.tasks import TaskManager
        except ImportError as error:
            raise InputError(
                f"task {one_line(', '.join(names), 100)}: tasks need the package lm_eval ({one_line(error, 80)}); run "
                "`pip install 'emo-instruct[lm-eval]'`"
            ) from None
        self.version: str = lm_eval.__version__
        if options.engine == "vllm" and not vllm_is_installed():
            raise InputError("evaluation.tasks.engine: vLLM is not installed; run `pip install 'emo-instruct[vllm]'`")
        self._options, self._adapters = options, adapters
        self._rendering = dataclasses.replace(rendering, remedy="set --no-chat")
        cards = {card.name for card in list_cards("data/tasks")}
        self.parts: dict[str, TaskFile | str] = {}
        self.forgetting: set[str] = set()
        for name in names:
            if name.endswith((".yaml", ".yml")) or (name in cards and name not in options.lm_eval):
                task = read_task(name, options.trust_task_code)
                part = f"tasks/{_key(task, options)}" if task.few_shot else f"lm_eval/{task.name}"
                self.parts[part] = task
            else:
                part = f"lm_eval/{name}"
                self.parts[part] = name
            if name in options.forgetting:
                self.forgetting.add(part)
        theirs = [task for task in self.parts.values() if isinstance(task, str)]
        about = {"folder": options.folder, "variant": options.variant}
        about |= {"rule": "sum"} if options.rule == "sum" else {}
        about |= {"retriever": options.retriever} if options.retriever != "tfidf" else {}
        self._manager = TaskManager(
            include_defaults=bool(theirs), metadata={key: value for key, value in about.items() if value}
        )
        for name in theirs:
            if name not in (known := set(self._manager.all_tasks)):
                near = nearest(name, known | cards)
                shown = "see `instruct list tasks` and `lm-eval ls tasks`"
                raise InputError(f"lm_eval: has no task {one_line(name, 60)!r}{near}; {shown}")
        self._loaded: dict[str, Any] = {}
        self._in_vllm: tuple[ForwardEngine, VLLMModel] | None = None

    def inputs(self, part: str) -> dict[str, Any]:
        """What results depend on besides the model."""
        options, task = self._options, self.parts[part]
        inputs: dict[str, Any] = {"lm_eval": self.version, "shots": options.shots, "limit": options.limit}
        if options.engine == "vllm":
            inputs["engine"] = engine_version("vllm")
        inputs |= {"chat": self._rendering.identity() or True} if options.chat else {}
        if isinstance(task, TaskFile):
            inputs["files"] = task.sha256(options.folder)
            if task.few_shot:
                inputs |= {"rule": options.rule, "variant": options.variant, "retriever": options.retriever}
        return inputs

    def load(self, part: str) -> FewShot | None:
        """The task of a part with its rows, if it is one with labels.

        Raises:
            InputError: its rows cannot be read.
        """
        task = self.parts[part]
        if part not in self._loaded and isinstance(task, TaskFile) and task.few_shot:
            with refusing(task.name):
                (self._loaded[part],) = self._manager.load([str(task.path)])["tasks"].values()
        return self._loaded.get(part)

    def evaluate(self, model: ForwardModel, part: str, replies: Path) -> PartResult:
        """A task's results, or those of a group and its tasks, and by row what each metric makes of it.

        Args:
            replies: the file of the model's replies so far; what is there is not asked again.

        Raises:
            InputError: the task's data cannot be loaded; with `chat`, a model without a chat template.
        """
        from lm_eval import simple_evaluate

        from instruct.measuring.tasks.lm import Replies

        options, task = self._options, self.parts[part]
        if options.chat:
            self._rendering.prepare(model.tokenizer)
            if not model.tokenizer.chat_template:
                raise InputError(f"{model.engine.subject}: its tokenizer has no chat template; set --no-chat")
        few_shot = self.load(part)
        spec = few_shot or (str(task.path) if isinstance(task, TaskFile) else task)
        with contextlib.closing(Replies(replies)) as kept, self._opened(model, kept) as lm:
            if few_shot:
                lm.rule, few_shot.shots = few_shot.about.rule, {}
                few_shot.fits = lambda text: len(lm.tok_encode(text)) <= lm.context
            with refusing(part.partition("/")[2]):
                found = simple_evaluate(
                    lm,
                    tasks=[spec],
                    num_fewshot=options.shots,
                    limit=options.limit,
                    task_manager=self._manager,
                    apply_chat_template=options.chat,
                    bootstrap_iters=_RESAMPLES,
                    confirm_run_unsafe_code=False,
                )
        assert found
        if few_shot:
            return label_result(few_shot, found["samples"][few_shot.config.task])
        about = {"shortened": lm.shortened, "chat": options.chat}
        numbers = [
            result
            for name, values in found["results"].items()
            for result in _results(name, values, found["n-shot"].get(name), found["n-samples"].get(name, {}), about)
        ]
        return PartResult(numbers, _row_values(found["samples"]))

    @contextlib.contextmanager
    def _opened(self, model: ForwardModel, replies: Replies) -> Iterator[Kept]:
        """A system as a model of lm-eval."""
        if self._options.engine == "vllm":
            if self._in_vllm is None or self._in_vllm[0] is not model.engine:
                from instruct.measuring.tasks.vllm_lm import VLLMModel

                self.close()
                self._in_vllm = (model.engine, VLLMModel(model.engine, self._adapters))
            lm = self._in_vllm[1]
            lm.use(model)
            lm.keep(replies, self._rendering)
            yield lm
        else:
            from instruct.measuring.tasks.lm import PrefixLM

            with model.engine.adapted(model.adapter) as network:
                yield PrefixLM(model, network, replies, self._rendering)

    def close(self) -> None:
        """Release what vLLM holds."""
        if self._in_vllm is not None:
            self._in_vllm[1].close()
            self._in_vllm = None


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
