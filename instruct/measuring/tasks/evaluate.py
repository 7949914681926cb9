"""Every system of a run is asked tasks: on this machine, in vLLM, or behind a server. What is done is not done again.

Imports lm-eval when tasks are loaded, and a system is opened.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from instruct.base.errors import InputError
from instruct.base.machine import vllm_is_installed
from instruct.base.models import ModelOptions, compute_dtype, model_path
from instruct.base.output import say
from instruct.data.templates import DEFAULT, Rendering, takes_system
from instruct.engines.base import Decoding, EngineOptions, Message
from instruct.engines.canary import check_weights_that_answer, read_canary
from instruct.engines.forward import ForwardModel, open_model
from instruct.engines.local import has_tokenizer, load_tokenizer
from instruct.engines.network import TextRow
from instruct.engines.start import engine_version
from instruct.measuring.tasks.cards import Rule
from instruct.measuring.tasks.harness import Harness
from instruct.measuring.tasks.options import TaskOptions
from instruct.run.directory import RunDirectory
from instruct.run.measurements import PartResult, measure

# Before or after training, in tasks of forgetting.
When = Literal["before", "after"] | None


def evaluate_tasks(
    options: TaskOptions,
    run: RunDirectory,
    base: ModelOptions,
    systems: Mapping[str, Path | None],
    rendering: Rendering = DEFAULT,
) -> None:
    """Every system of the run is asked every task.

    Args:
        systems: the folder of each one's weights; None: the base.
        rendering: how chats become text.

    Raises:
        InputError: a task that cannot be read, or asked of the engine; weights that are not those that were trained.
        StoppedError: a server that does not reply.
    """
    if not options.named:
        raise InputError("evaluation.tasks: names no task; give --tasks NAMES")
    rendering = dataclasses.replace(rendering, remedy="set --no-chat")
    everyone = _with_base(options, systems)
    with contextlib.closing(AskedSystems(options, base, everyone, rendering)) as asked:
        harness = Harness(options, rendering, asked.engine)
        harness.load_all()
        for system, folder in everyone.items():
            inputs = asked.made_from(system)
            with contextlib.ExitStack() as stack:

                @functools.cache
                def model(rule: Rule, system: str = system, stack: contextlib.ExitStack = stack) -> Any:
                    return stack.enter_context(asked.asked(system, rule, run.folder / "metrics" / "replies"))

                for part in harness.parts if system in systems else harness.forgetting:
                    made_from = inputs | harness.inputs(part)
                    when: When = None
                    if part in harness.forgetting:
                        when = "after" if folder else "before"
                        made_from["forgetting"] = when
                    measure(run, part, system, made_from, functools.partial(_evaluated, harness, model, part, when))


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


def _evaluated(harness: Harness, model: Callable[[Rule], Any], part: str, when: When) -> PartResult:
    """A task's results; those of tasks of forgetting say whether the system is trained."""
    result = harness.evaluate(model, part)
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
    """Systems as models of lm-eval, one after another; in transformers, those on one base share its network.

    Args:
        systems: the folder of each one's weights; None: the base.
        rendering: how chats become text.
    """

    def __init__(
        self,
        options: TaskOptions,
        base: ModelOptions,
        systems: Mapping[str, Path | None],
        rendering: Rendering = DEFAULT,
    ) -> None:
        self._options, self._base, self._systems, self._rendering = options, base, systems, rendering
        self._model: tuple[str, ForwardModel] | None = None

    @functools.cached_property
    def engine(self) -> str | None:
        """What replies come from, with its version where it is known; None: transformers."""
        kind = self._options.engine
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
        return {"weights": self._opened(system).identity, "dtype": [self._base.dtype, self._base.quantization]}

    @contextlib.contextmanager
    def asked(self, system: str, rule: Rule, folder: Path) -> Iterator[Any]:
        """A system as a model of lm-eval; what answers has the weights that were trained.

        Args:
            folder: of files with replies so far, one for each weights, dtype, engine and rule; what is there is not
                asked again.

        Raises:
            InputError: a model that cannot be loaded or asked; with `chat`, one without a chat template.
        """
        from instruct.measuring.tasks.lm import Resumed

        named_by = self.made_from(system) | {"engine": self.engine, "rule": rule}
        digest = hashlib.sha256(json.dumps(named_by).encode()).hexdigest()[:16]
        opened = {"transformers": self._in_transformers, "vllm": self._in_vllm, "server": self._on_a_server}
        with opened[self._options.engine](system, rule) as (lm, engine):
            self._check_weights(system, engine)
            if self._options.chat and lm.tokenizer is not None:
                lm.apply_chat_template = functools.partial(render_chat, lm.tokenizer, self._rendering)
            resumed = Resumed(lm, folder / f"{digest}.jsonl")
            with contextlib.closing(resumed.dbdict):
                yield resumed

    def _check_weights(self, system: str, engine: Any) -> None:
        """Have the canary ask what is about to answer."""
        folder = self._systems[system]
        canary = read_canary(folder)
        if canary is not None:
            adapter = system if self._options.engine == "server" else None
            outcome = check_weights_that_answer(engine, canary, adapter, compute_dtype(self._base), f"system {system}")
            if outcome != "checked":
                say(f"note: weights of {system} {outcome}")

    @contextlib.contextmanager
    def _in_transformers(self, system: str, rule: Rule) -> Iterator[tuple[Any, Any]]:
        from instruct.measuring.tasks.lm import CanaryEngine, in_transformers

        model = self._prepared(system)
        context = min(model.context, 1 << 30)
        with (
            model.engine.adapted(model.adapter) as network,
            in_transformers(network, model.tokenizer, rule, context, model.engine.stops) as lm,
        ):
            yield lm, CanaryEngine(lambda ids, start: model.log_probabilities([TextRow(ids, start)])[0])

    @contextlib.contextmanager
    def _in_vllm(self, system: str, rule: Rule) -> Iterator[tuple[Any, Any]]:
        from instruct.engines.vllm import VLLMEngine
        from instruct.measuring.tasks.lm import CanaryEngine, in_vllm, vllm_scores

        model = self._prepared(system)
        adapters = () if model.adapter is None else (model.adapter,)
        tokenizer = model.tokenizer
        engine = VLLMEngine(
            dataclasses.replace(model.engine.options, tokenizer=tokenizer, adapters=adapters, context_length=-1)
        )
        with in_vllm(engine, tokenizer.name_or_path) as lm:
            yield lm, CanaryEngine(functools.partial(vllm_scores, lm))

    @contextlib.contextmanager
    def _on_a_server(self, system: str, rule: Rule) -> Iterator[tuple[Any, Any]]:
        from instruct.engines.server import ServerEngine
        from instruct.measuring.tasks.lm import Chats, Completions

        name, url = self._served_name(system), str(self._options.base_url)
        subject = f"model {name}"
        engine = ServerEngine(EngineOptions(subject, self._base.name, Decoding(), context_length=0), url)
        engine.check()
        words = self._words
        if words is None and self._options.chat:
            yield Chats(subject, name, f"{url}/chat/completions", None), engine
        else:
            yield Completions(subject, name, f"{url}/completions", words), engine

    def _prepared(self, system: str) -> ForwardModel:
        model = self._opened(system)
        prepare_chats(self._options, self._rendering, model.tokenizer, model.engine.options.subject)
        return model

    def _opened(self, system: str) -> ForwardModel:
        if self._model is None or self._model[0] != system:
            like = self._model and self._model[1]
            self._model = system, open_model(self._base, self._systems[system], like=like)
        return self._model[1]

    def close(self) -> None:
        """Release what is loaded."""
        if self._model is not None:
            self._model[1].close()
            self._model = None

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


def render_chat(
    tokenizer: Any, rendering: Rendering, chat_history: list[Message], add_generation_prompt: bool = True
) -> str:
    """The chat as the run writes it, without a system message if the template has no place for one, as lm-eval does."""
    if not takes_system(tokenizer):
        chat_history = [message for message in chat_history if message["role"] != "system"]
    ends: dict[str, Any] = {"prompt": add_generation_prompt, "continue_final_message": not add_generation_prompt}
    return rendering.render(tokenizer, chat_history, **ends)
