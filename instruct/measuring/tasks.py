"""Every system of a run is asked tasks of lm-evaluation-harness, whose own files are kept.

What is done is not done again. Imports lm-eval when tasks are loaded, and a system is opened.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from jinja2.sandbox import ImmutableSandboxedEnvironment

from instruct.base.cards import list_cards, nearest
from instruct.base.errors import InputError, InstructError, one_line
from instruct.base.machine import pip_install
from instruct.base.models import ModelOptions, model_path
from instruct.base.output import say
from instruct.base.replies import ScoredCompletion
from instruct.data.templates import DEFAULT, Rendering, takes_system
from instruct.engines.base import Decoding, EngineOptions, Message
from instruct.engines.canary import WeightsCheck, canaries_of
from instruct.engines.forward import ForwardModel, open_model
from instruct.engines.local import has_tokenizer, load_tokenizer
from instruct.engines.network import TextRow
from instruct.logs.lm_eval import metric_name
from instruct.measuring.options import TaskOptions
from instruct.measuring.task_cards import TaskFile, read_task
from instruct.run.directory import RunDirectory
from instruct.run.measurements import Details, Number, PartResult, files_folder, measure

# A resample of metrics that have no formula for their standard error.
_RESAMPLES = 1000


def evaluate_tasks(
    options: TaskOptions,
    run: RunDirectory,
    base: ModelOptions,
    systems: Mapping[str, Path | None],
    rendering: Rendering = DEFAULT,
    make: Callable[..., Any] | None = None,
) -> None:
    """Every system of the run is asked every task.

    Args:
        systems: the folder of each one's weights; None: the base.
        rendering: how chats become text.
        make: lm-eval's model in transformers, of HFLM's arguments; None: HFLM.

    Raises:
        InputError: a task that cannot be read, or asked of the engine; weights that are not those that were trained.
    """
    if not options.names:
        raise InputError("evaluation.tasks: names no task; set names")
    rendering = replace(rendering, remedy="set evaluation.tasks.chat: false")
    harness = Harness(options, rendering)
    with contextlib.closing(AskedSystems(options, base, systems, rendering, make)) as asked:
        for system in systems:
            inputs = asked.made_from(system)
            with contextlib.ExitStack() as stack:

                @functools.cache
                def model(system: str = system, stack: contextlib.ExitStack = stack) -> Any:
                    return stack.enter_context(asked.asked(system))

                for name in harness.tasks:
                    part = f"lm_eval/{name}"
                    folder = files_folder(run, part, system)
                    compute = functools.partial(harness.evaluate, model, name, folder)
                    measure(run, part, system, inputs | harness.inputs(name), compute)


class Harness:
    """Tasks by lm-eval's name, the name of their card, or the path of their YAML file.

    `tasks`: by name, the file of each, or lm-eval's name.

    Args:
        rendering: how chats become text.

    Raises:
        InputError: lm-eval is not installed, or has no such task; a file is not a task, or names code to run.
    """

    def __init__(self, options: TaskOptions, rendering: Rendering = DEFAULT) -> None:
        os.environ.setdefault("HF_DATASETS_TRUST_REMOTE_CODE", "0")
        try:
            import lm_eval.utils
            from lm_eval.tasks import TaskManager
        except ImportError as error:
            raise InputError(
                f"task {one_line(', '.join(options.names), 100)}: tasks need the package lm_eval "
                f"({one_line(error, 80)}); run `{pip_install('lm-eval')}`"
            ) from None
        # A template in a task's YAML file could reach all of Python.
        lm_eval.utils.env.__class__ = ImmutableSandboxedEnvironment
        self.version: str = lm_eval.__version__
        self._options, self._rendering = options, rendering
        cards = {card.name for card in list_cards("data/tasks")}
        self.tasks: dict[str, TaskFile | str] = {}
        for name in options.names:
            if name in cards or name.endswith((".yaml", ".yml")):
                task = read_task(name, options.trust_task_code)
                self.tasks[task.name] = task
            else:
                self.tasks[name] = name
        theirs = [task for task in self.tasks.values() if isinstance(task, str)]
        self._manager = TaskManager(include_defaults=bool(theirs))
        for name in theirs:
            if name not in (known := set(self._manager.all_tasks)):
                near = nearest(name, known | cards)
                shown = "see `instruct list tasks` and `lm-eval ls tasks`"
                raise InputError(f"lm_eval: has no task {one_line(name, 60)!r}{near}; {shown}")

    def inputs(self, name: str) -> dict[str, Any]:
        """What results depend on besides the model."""
        options, task = self._options, self.tasks[name]
        inputs: dict[str, Any] = {"lm_eval": self.version, "shots": options.shots, "limit": options.limit}
        inputs |= {"chat": self._rendering.identity() or True} if options.chat else {}
        return inputs | ({"files": task.sha256()} if isinstance(task, TaskFile) else {})

    def load(self, name: str) -> Any:
        """A task, not a group, as lm-eval has it.

        Raises:
            InputError: its data cannot be loaded.
        """
        with refusing(name):
            (task,) = self._manager.load([self._spec(name)])["tasks"].values()
        return task

    def _spec(self, name: str) -> str:
        task = self.tasks[name]
        return str(task.path) if isinstance(task, TaskFile) else task

    def evaluate(self, model: Callable[[], Any], name: str, folder: Path) -> PartResult:
        """A task's results, or those of a group and its tasks; lm-eval's files are written into a folder.

        Args:
            model: makes lm-eval's model of the system, for which the folder is named.

        Raises:
            InputError: the task's data cannot be loaded, or the model cannot be asked.
        """
        from lm_eval import simple_evaluate
        from lm_eval.loggers import EvaluationTracker

        lm = model()
        shutil.rmtree(folder, ignore_errors=True)
        tracker = EvaluationTracker(output_path=str(folder.parent))
        # It would run pip, git and others to describe the environment, for seconds; nothing reads that.
        outside = {"add_env_info": mock.DEFAULT, "get_git_commit_hash": lambda: None}
        with refusing(name), mock.patch.multiple("lm_eval.evaluator", **outside):
            results: Any = simple_evaluate(
                lm,
                tasks=[self._spec(name)],
                num_fewshot=self._options.shots,
                limit=self._options.limit,
                task_manager=self._manager,
                apply_chat_template=self._options.chat,
                bootstrap_iters=_RESAMPLES,
                confirm_run_unsafe_code=False,
                log_samples=True,
                evaluation_tracker=tracker,
            )
        numbers, samples = read_results(results, self._options.chat), results.pop("samples")
        about = tracker.general_config_tracker
        about.model_name = about.model_name_sanitized = folder.name
        tracker.save_results_aggregated(results, samples)
        for each, rows in samples.items():
            tracker.save_results_samples(each, rows)
        files = sorted(folder.glob("*.json*"))
        if len(files) <= len(samples):  # lm-eval only logs why
            raise InputError(f"{folder}: lm-eval cannot write its files there; free the disk, or choose another `name`")
        return PartResult(numbers, files=files)


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


def read_results(result: Mapping[str, Any], chat: bool = False) -> list[Number]:
    """The metrics of a task, or of a group and its tasks.

    Of keys such as `acc,none` and `acc_stderr,none`: a metric and the filter that its replies went through.
    """
    rows = []
    for task, values in result["results"].items():
        finite = {
            (metric, applied): float(value)
            for key, value in values.items()
            for metric, comma, applied in [key.partition(",")]
            if comma and isinstance(value, int | float) and math.isfinite(value)
        }
        for (metric, applied), value in finite.items():
            if metric.endswith("_stderr"):
                continue
            error = finite.get((f"{metric}_stderr", applied))
            details = Details(task=task, shots=result["n-shot"].get(task), standard_error=error, chat=chat)
            if result.get("higher_is_better", {}).get(task, {}).get(metric) is False:
                details.better = "lower"
            n = result["n-samples"].get(task, {}).get("effective")
            rows.append(Number(metric=metric_name(metric, applied), value=value, n=n, details=details))
    return rows


@dataclass
class AskedSystems:
    """Systems as models of lm-eval, one after another; in transformers, those on one base share its network.

    Attributes:
        systems: the folder of each one's weights; None: the base.
        rendering: how chats become text.
        make: lm-eval's model in transformers, of HFLM's arguments; None: HFLM.
    """

    options: TaskOptions
    base: ModelOptions
    systems: Mapping[str, Path | None]
    rendering: Rendering = DEFAULT
    make: Callable[..., Any] | None = None
    _model: tuple[str, ForwardModel] | None = field(default=None, init=False)

    def made_from(self, system: str) -> dict[str, Any]:
        """What a system's replies depend on."""
        if self.options.engine == "server":
            return {"weights": f"{self._served_name(system)} at {self.options.base_url}", "engine": "server"}
        made_from = {"weights": self._opened(system).identity, "dtype": [self.base.dtype, self.base.quantization]}
        return made_from | ({"lm": self.make.__name__} if self.make else {})

    @contextlib.contextmanager
    def asked(self, system: str) -> Iterator[Any]:
        """A system as a model of lm-eval; what answers has the weights that were trained.

        Raises:
            InputError: a model that cannot be loaded or asked; with `chat`, one without a chat template.
        """
        from instruct.engines.server import ServerEngine
        from instruct.measuring import lm as models

        engine: Any
        adapter: str | None
        with contextlib.ExitStack() as stack:
            if self.options.engine == "server":
                name, url, tokenizer = self._served_name(system), str(self.options.base_url), None
                subject, adapter = f"model {name}", system
                if has_tokenizer(self.base):
                    tokenizer = load_tokenizer(subject, model_path(self.base.name), self.base.revision)
                    self._prepare_chats(tokenizer, subject)
                engine = ServerEngine(EngineOptions(subject, self.base.name, Decoding(), context_length=0), url)
                engine.check()
                if tokenizer is None and self.options.chat:
                    lm: Any = models.Chats(subject, name, f"{url}/chat/completions", None)
                else:
                    lm = models.Completions(subject, name, f"{url}/completions", tokenizer)
            else:
                model = self._opened(system)
                tokenizer, adapter = model.tokenizer, system if model.adapter else None
                self._prepare_chats(tokenizer, model.engine.options.subject)
                network = stack.enter_context(model.engine.adapted(model.adapter))
                context = min(model.context, 1 << 30)
                asked = models.in_transformers(network, tokenizer, context, model.engine.stops, self.make)
                lm, engine = stack.enter_context(asked), SimpleNamespace(complete=functools.partial(_scores, model))
            check = WeightsCheck(engine, canaries_of(self.systems), "evaluation.tasks.engine")
            if system in check.canaries and (outcome := check.outcome(system, adapter)) != "checked":
                say(f"note: weights of {system} {outcome}")
            if self.options.chat and tokenizer is not None:
                lm.apply_chat_template = functools.partial(render_chat, tokenizer, self.rendering)
            yield lm

    def _prepare_chats(self, tokenizer: Any, subject: str) -> None:
        """Let a tokenizer render chats as the run does, if tasks are asked so."""
        if self.options.chat:
            self.rendering.prepare(tokenizer)
            if not tokenizer.chat_template:
                raise InputError(f"{subject}: its tokenizer has no chat template; set evaluation.tasks.chat: false")

    def _opened(self, system: str) -> ForwardModel:
        if self._model is None or self._model[0] != system:
            like = self._model and self._model[1]
            self._model = system, open_model(self.base, self.systems[system], like=like)
        return self._model[1]

    def close(self) -> None:
        """Release what is loaded."""
        if self._model is not None:
            self._model[1].close()
            self._model = None

    def _served_name(self, system: str) -> str:
        return self.base.name if self.systems[system] is None else system


def _scores(model: ForwardModel, requests: Sequence[Any]) -> Iterator[list[Any]]:
    """What a canary asks of an engine: the scores of one text at a time, with the adapter or without."""
    for request in requests:
        asked = model if request.adapter else replace(model, adapter=None)
        (scores,) = asked.log_probabilities([TextRow(list(request.prompt), request.scored)])
        yield [(request, ScoredCompletion("", token_logprobs=tuple(map(float, scores))))]


def render_chat(
    tokenizer: Any, rendering: Rendering, chat_history: list[Message], add_generation_prompt: bool = True
) -> str:
    """The chat as the run writes it, without a system message if the template has no place for one, as lm-eval does."""
    if not takes_system(tokenizer):
        chat_history = [message for message in chat_history if message["role"] != "system"]
    ends: dict[str, Any] = {"prompt": add_generation_prompt, "continue_final_message": not add_generation_prompt}
    return rendering.render(tokenizer, chat_history, **ends)
