"""Every system of a run is asked tasks: on this machine, in vLLM, or behind a server. What is done is not done again.

Imports lm-eval when tasks are loaded, and a system is opened.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from instruct.base.errors import InputError
from instruct.base.machine import pip_install, vllm_is_installed
from instruct.base.models import ModelOptions, model_path
from instruct.base.output import say
from instruct.data.templates import DEFAULT, Rendering, takes_system
from instruct.engines.base import Decoding, EngineOptions, Message
from instruct.engines.canary import WeightsCheck, canaries_of
from instruct.engines.forward import ForwardModel, open_model
from instruct.engines.local import has_tokenizer, load_tokenizer
from instruct.engines.network import TextRow
from instruct.engines.start import engine_version
from instruct.measuring.tasks.cards import Rule
from instruct.measuring.tasks.harness import Harness
from instruct.measuring.tasks.options import TaskOptions
from instruct.run.directory import RunDirectory
from instruct.run.measurements import measure


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
        raise InputError("evaluation.tasks: names no task; set cards or lm_eval")
    rendering = dataclasses.replace(rendering, remedy="set evaluation.tasks.chat: false")
    with contextlib.closing(AskedSystems(options, base, systems, rendering)) as asked:
        harness = Harness(options, rendering, asked.engine)
        harness.load_all()
        for system in systems:
            inputs = asked.made_from(system)
            with contextlib.ExitStack() as stack:

                @functools.cache
                def model(rule: Rule, system: str = system, stack: contextlib.ExitStack = stack) -> Any:
                    return stack.enter_context(asked.asked(system, rule, run.folder / "metrics" / "replies"))

                for part in harness.parts:
                    made_from = inputs | harness.inputs(part)
                    measure(run, part, system, made_from, functools.partial(harness.evaluate, model, part))


def prepare_chats(options: TaskOptions, rendering: Rendering, tokenizer: Any, subject: str) -> None:
    """Let a tokenizer render chats as the run does, if tasks are asked so.

    Raises:
        InputError: it has no chat template.
    """
    if options.chat:
        rendering.prepare(tokenizer)
        if not tokenizer.chat_template:
            raise InputError(f"{subject}: its tokenizer has no chat template; set evaluation.tasks.chat: false")


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
                raise InputError(f"evaluation.tasks.engine: vLLM is not installed; run `{pip_install('vllm')}`")
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
        from instruct.engines.server import ServerEngine
        from instruct.engines.vllm import VLLMEngine
        from instruct.measuring.tasks import lm as models

        options, kind = self._options, self._options.engine
        engine: Any
        with contextlib.ExitStack() as stack:
            if kind == "server":
                name = self._served_name(system)
                subject, url, tokenizer = f"model {name}", str(options.base_url), None
                if has_tokenizer(self._base):
                    tokenizer = load_tokenizer(subject, model_path(self._base.name), self._base.revision)
                    prepare_chats(options, self._rendering, tokenizer, subject)
                engine = ServerEngine(EngineOptions(subject, self._base.name, Decoding(), context_length=0), url)
                engine.check()
                if tokenizer is None and options.chat:
                    lm: Any = models.Chats(subject, name, f"{url}/chat/completions", None)
                else:
                    lm = models.Completions(subject, name, f"{url}/completions", tokenizer)
            else:
                model = self._opened(system)
                tokenizer = model.tokenizer
                prepare_chats(options, self._rendering, tokenizer, model.engine.options.subject)
                if kind == "vllm":
                    adapters = () if model.adapter is None else (model.adapter,)
                    loaded = dataclasses.replace(
                        model.engine.options, tokenizer=tokenizer, adapters=adapters, context_length=-1
                    )
                    lm = stack.enter_context(models.in_vllm(VLLMEngine(loaded), tokenizer.name_or_path))
                    engine = models.CanaryEngine(functools.partial(models.vllm_scores, lm))
                else:
                    network = stack.enter_context(model.engine.adapted(model.adapter))
                    context, stops = min(model.context, 1 << 30), model.engine.stops
                    lm = stack.enter_context(models.in_transformers(network, tokenizer, rule, context, stops))

                    def scores(ids: list[int], start: int, adapter: str | None) -> Any:
                        asked = model if adapter else dataclasses.replace(model, adapter=None)
                        return asked.log_probabilities([TextRow(ids, start)])[0]

                    engine = models.CanaryEngine(scores)
            check = WeightsCheck(engine, canaries_of(self._systems), "evaluation.tasks.engine")
            if system in check.canaries:
                adapted = kind == "server" or model.adapter is not None
                outcome = check.outcome(system, system if adapted else None)
                if outcome != "checked":
                    say(f"note: weights of {system} {outcome}")
            if options.chat and tokenizer is not None:
                lm.apply_chat_template = functools.partial(render_chat, tokenizer, self._rendering)
            named_by = self.made_from(system) | {"engine": self.engine, "rule": rule}
            digest = hashlib.sha256(json.dumps(named_by).encode()).hexdigest()[:16]
            yield models.Resumed(lm, folder / f"{digest}.jsonl")

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


def render_chat(
    tokenizer: Any, rendering: Rendering, chat_history: list[Message], add_generation_prompt: bool = True
) -> str:
    """The chat as the run writes it, without a system message if the template has no place for one, as lm-eval does."""
    if not takes_system(tokenizer):
        chat_history = [message for message in chat_history if message["role"] != "system"]
    ends: dict[str, Any] = {"prompt": add_generation_prompt, "continue_final_message": not add_generation_prompt}
    return rendering.render(tokenizer, chat_history, **ends)
