"""Every system of a run is asked tasks: on this machine, in vLLM, on a Ray cluster, or behind a server. What is done is
not done again.

Imports lm-eval when tasks are loaded, and a system is opened.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from instruct.base.errors import InputError
from instruct.base.machine import vllm_is_installed
from instruct.base.models import ModelOptions, model_path
from instruct.data.templates import DEFAULT, Rendering
from instruct.engines.base import Decoding, Engine, EngineOptions
from instruct.engines.forward import ForwardModel, open_model
from instruct.engines.local import has_tokenizer, load_tokenizer
from instruct.engines.ray_cluster import ClusterOptions
from instruct.engines.start import engine_version, make_engine
from instruct.engines.weights import is_adapter
from instruct.measuring.tasks.harness import Harness
from instruct.measuring.tasks.options import TaskOptions
from instruct.run.directory import RunDirectory
from instruct.run.measurements import PartResult, measure

if TYPE_CHECKING:
    from instruct.measuring.tasks.lm import EngineLM

# Before or after training, in tasks of forgetting.
When = Literal["before", "after"] | None
# Prompts that transformers computes together.
BATCH = 8


def evaluate_tasks(
    options: TaskOptions,
    run: RunDirectory,
    base: ModelOptions,
    systems: Mapping[str, Path | None],
    rendering: Rendering = DEFAULT,
    cluster: ClusterOptions | None = None,
) -> None:
    """Every system of the run is asked every task.

    Args:
        systems: the folder of each one's weights; None: the base.
        rendering: how chats become text.
        cluster: where models are loaded; None: on this machine.

    Raises:
        InputError: a task that cannot be read.
        StoppedError: requests without a reply.
    """
    if not options.named:
        raise InputError("evaluation.tasks: names no task; give --tasks NAMES")
    rendering = dataclasses.replace(rendering, remedy="set --no-chat")
    everyone = _with_base(options, systems)
    with contextlib.closing(AskedSystems(options, base, everyone, rendering, cluster)) as asked:
        harness = Harness(options, rendering, asked.engine)
        harness.load_all()
        for system, folder in everyone.items():
            inputs = asked.made_from(system)
            named_by = json.dumps(inputs | ({"engine": options.engine} if asked.engine else {}))
            digest = hashlib.sha256(named_by.encode()).hexdigest()[:16]
            opened = functools.partial(asked.opened, system, run.folder / "metrics" / "replies" / f"{digest}.jsonl")
            for part in harness.parts if system in systems else harness.forgetting:
                made_from = inputs | harness.inputs(part)
                when: When = None
                if part in harness.forgetting:
                    when = "after" if folder else "before"
                    made_from["forgetting"] = when
                measure(run, part, system, made_from, functools.partial(_evaluated, harness, opened, part, when))


def _with_base(options: TaskOptions, systems: Mapping[str, Path | None]) -> Mapping[str, Path | None]:
    """The systems, and the untrained base, if tasks of forgetting need it and no system is that."""
    if not options.forgetting or None in systems.values():
        return systems
    if "base" in systems:
        raise InputError(
            "evaluation.tasks.forgetting: needs the untrained base, but the system called base is trained; add one "
            "under systems: untrained: {objective: none}"
        )
    return {"base": None, **systems}


def _evaluated(
    harness: Harness, opened: Callable[[], AbstractContextManager[EngineLM]], part: str, when: When
) -> PartResult:
    """A task's results; those of tasks of forgetting say whether the system is trained."""
    with opened() as lm:
        result = harness.evaluate(lm, part)
    if when:
        for number in result.numbers:
            number.details = number.details.model_copy(update={"forgetting": when})
    return result


def prepare_chats(options: TaskOptions, rendering: Rendering, tokenizer: Any, subject: str) -> None:
    """Let a tokenizer render chats as the run does, if tasks are asked so.

    Raises:
        InputError: it has no chat template.
    """
    if options.chat:
        rendering.prepare(tokenizer)
        if not tokenizer.chat_template:
            raise InputError(f"{subject}: its tokenizer has no chat template; set --no-chat")


class AskedSystems:
    """Systems that are asked tasks, one after another; those on one base share its engine.

    Args:
        systems: the folder of each one's weights; None: the base.
        rendering: how chats become text.
        cluster: where models are loaded; None: on this machine.
    """

    def __init__(
        self,
        options: TaskOptions,
        base: ModelOptions,
        systems: Mapping[str, Path | None],
        rendering: Rendering = DEFAULT,
        cluster: ClusterOptions | None = None,
    ) -> None:
        self._options, self._base, self._systems = options, base, systems
        self._rendering, self._cluster = rendering, cluster
        self._models: dict[str, ForwardModel] = {}
        self._engine: tuple[Engine | None, Engine] | None = None

    @functools.cached_property
    def engine(self) -> str | None:
        """What replies come from, with its version where it is known; None: transformers, wherever it runs."""
        kind = self._options.engine
        if kind == "vllm" and self._cluster:
            return "vllm on a cluster"
        if kind == "vllm":
            if not vllm_is_installed():
                raise InputError(
                    "evaluation.tasks.engine: vLLM is not installed; run `pip install 'emo-instruct[vllm]'`"
                )
            return engine_version("vllm")
        return None if kind == "transformers" else kind

    def made_from(self, system: str) -> dict[str, Any]:
        """What a system's replies depend on."""
        if self._options.engine == "server":
            return {"weights": f"{self._served_name(system)} at {self._options.base_url}"}
        return {"weights": self._model(system).identity, "dtype": [self._base.dtype, self._base.quantization]}

    @contextlib.contextmanager
    def opened(self, system: str, replies: Path) -> Iterator[EngineLM]:
        """A system as a model of lm-eval.

        Args:
            replies: the file of its replies so far; what is there is not asked again.

        Raises:
            InputError: a model that cannot be loaded or asked; with `chat`, one without a chat template.
        """
        from instruct.measuring.tasks.lm import Replies

        opened = self._served if self._options.engine == "server" else self._loaded
        with contextlib.closing(Replies(replies)) as kept:
            yield opened(system).keep(kept, self._rendering)

    def _served(self, system: str) -> EngineLM:
        from instruct.measuring.tasks.lm import EngineLM

        engine, name = self._started(None, self._server_options()), self._served_name(system)
        return EngineLM(engine, self._options, f"model {name}", self._words, name, None)

    def _loaded(self, system: str) -> EngineLM:
        from instruct.measuring.tasks.lm import EngineLM

        model = self._model(system)
        subject, tokenizer = model.engine.options.subject, model.tokenizer
        prepare_chats(self._options, self._rendering, tokenizer, subject)
        engine = self._started(model.engine, self._loaded_options(model))
        adapter = None if model.adapter is None else str(model.adapter)
        return EngineLM(engine, self._options, subject, tokenizer, adapter, model.context)

    def close(self) -> None:
        """Release what is loaded."""
        if self._engine is not None:
            self._engine[1].close()
            self._engine = None
        for model in self._models.values():
            model.close()
        self._models = {}

    def _model(self, system: str) -> ForwardModel:
        if system not in self._models:
            like = next(reversed(self._models.values()), None)
            model = open_model(self._base, self._systems[system], like=like)
            if like is not None and like.engine is not model.engine:
                self._models = {}
            self._models[system] = model
        return self._models[system]

    def _served_name(self, system: str) -> str:
        return self._base.name if self._systems[system] is None else system

    @functools.cached_property
    def _words(self) -> Any:
        """The tokenizer of the model that a server has; None: it is not on this machine."""
        base, subject = self._base, f"model {self._base.name}"
        if not has_tokenizer(base):
            return None
        tokenizer = load_tokenizer(subject, model_path(base.name), base.revision)
        prepare_chats(self._options, self._rendering, tokenizer, subject)
        return tokenizer

    def _started(self, forward: Engine | None, options: EngineOptions) -> Engine:
        """The engine, kept until a system on another base is asked."""
        if self._engine is None or self._engine[0] is not forward:
            if self._engine is not None:
                self._engine[1].close()
            kind = self._options.engine
            if kind == "server":
                from instruct.engines.server import ServerEngine

                self._engine = (forward, ServerEngine(options, self._options.base_url))
            else:
                self._engine = (forward, make_engine(kind, options, self._cluster))
        return self._engine[1]

    def _loaded_options(self, model: ForwardModel) -> EngineOptions:
        adapters = [folder for folder in self._systems.values() if folder and is_adapter(folder)]
        in_vllm = self._options.engine == "vllm"
        return dataclasses.replace(
            model.engine.options,
            tokenizer=model.tokenizer,
            adapters=tuple(dict.fromkeys(adapters)),
            context_length=-1 if in_vllm else model.context,
            batch=None if in_vllm else BATCH,
            stop_texts=True,
        )

    def _server_options(self) -> EngineOptions:
        return EngineOptions(
            subject=f"model {self._base.name}",
            model=self._base.name,
            decoding=Decoding(),
            context_length=0,  # only the server knows
            other_model=(
                "tasks need a server with /v1/completions that knows the model by this name, with echo and logprobs "
                "for tasks that score given text"
            ),
        )
