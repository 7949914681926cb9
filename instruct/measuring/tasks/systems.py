"""The systems of a run as models of lm-eval: on this machine, in vLLM, on a Ray cluster, or behind a server.

Imports lm-eval when a system is opened.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from instruct.base.errors import InputError
from instruct.base.extras import vllm_is_installed
from instruct.base.models import ModelOptions, model_path
from instruct.data.templates import DEFAULT, Rendering
from instruct.engines.base import Decoding, Engine, EngineOptions
from instruct.engines.cluster_options import ClusterOptions
from instruct.engines.forward import ForwardModel, open_model
from instruct.engines.local import has_tokenizer, load_tokenizer
from instruct.engines.start import engine_version, make_engine
from instruct.engines.weights import is_adapter
from instruct.measuring.tasks.options import TaskOptions

if TYPE_CHECKING:
    from instruct.measuring.tasks.lm import Kept

# Prompts that transformers computes together on a cluster.
_BATCH = 8


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

    @property
    def elsewhere(self) -> dict[str, str]:
        """What the file of replies is named by, besides what they are made from."""
        return {"engine": self._options.engine} if self.engine else {}

    def made_from(self, system: str, folder: Path | None) -> dict[str, Any]:
        """What a system's replies depend on."""
        if self._options.engine == "server":
            return {"weights": f"{self._served_name(system, folder)} at {self._options.base_url}"}
        identity = self._model(system, folder).identity
        return {"weights": identity, "dtype": [self._base.dtype, self._base.quantization]}

    @contextlib.contextmanager
    def opened(self, system: str, folder: Path | None, replies: Path) -> Iterator[Kept]:
        """A system as a model of lm-eval.

        Args:
            replies: the file of its replies so far; what is there is not asked again.

        Raises:
            InputError: a model that cannot be loaded or asked; with `chat`, one without a chat template.
        """
        from instruct.measuring.tasks.lm import Replies

        opened = self._served if self._options.engine == "server" else self._loaded
        with contextlib.closing(Replies(replies)) as kept, opened(system, folder) as lm:
            lm.keep(kept, self._rendering)
            yield lm

    @contextlib.contextmanager
    def _served(self, system: str, folder: Path | None) -> Iterator[Kept]:
        from instruct.measuring.tasks.engine_lm import EngineLM

        engine = self._started(None, self._server_options())
        name = self._served_name(system, folder)
        yield EngineLM(engine, f"model {name}", self._words, name, None, self._options.chat)

    @contextlib.contextmanager
    def _loaded(self, system: str, folder: Path | None) -> Iterator[Kept]:
        model = self._model(system, folder)
        subject, tokenizer = model.engine.options.subject, model.tokenizer
        prepare_chats(self._options, self._rendering, tokenizer, subject)
        if self._options.engine == "transformers" and not self._cluster:
            from instruct.measuring.tasks.lm import PrefixLM

            with model.engine.adapted(model.adapter) as network:
                yield PrefixLM(network, tokenizer, model.engine.stops)
        else:
            from instruct.measuring.tasks.engine_lm import EngineLM

            engine = self._started(model.engine, self._loaded_options(model))
            adapter = None if model.adapter is None else str(model.adapter)
            yield EngineLM(engine, subject, tokenizer, adapter, model.context, self._options.chat)

    def close(self) -> None:
        """Release what is loaded."""
        if self._engine is not None:
            self._engine[1].close()
            self._engine = None
        for model in self._models.values():
            model.close()
        self._models = {}

    def _model(self, system: str, folder: Path | None) -> ForwardModel:
        if system not in self._models:
            like = next(reversed(self._models.values()), None)
            model = open_model(self._base, folder, like=like)
            if like is not None and like.engine is not model.engine:
                self._models = {}
            self._models[system] = model
        return self._models[system]

    def _served_name(self, system: str, folder: Path | None) -> str:
        return self._base.name if folder is None else system

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
            engine = make_engine(kind, options, self._options.base_url, cluster=self._cluster)
            self._engine = (forward, engine)
        return self._engine[1]

    def _loaded_options(self, model: ForwardModel) -> EngineOptions:
        adapters = [folder for folder in self._systems.values() if folder and is_adapter(folder)]
        in_vllm = self._options.engine == "vllm"
        return dataclasses.replace(
            model.engine.options,
            tokenizer=model.tokenizer,
            adapters=tuple(dict.fromkeys(adapters)),
            context_length=-1 if in_vllm else model.context,
            batch=None if in_vllm else _BATCH,
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
