"""Engines on a cluster, with a log of what they are asked, and prompts that end or hold up their process."""

from __future__ import annotations

import functools
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import psutil

from instruct.base.errors import InputError
from instruct.base.replies import Reply
from instruct.engines.base import EngineOptions, Request
from instruct.engines.ray_engine import RayEngine
from instruct.engines.rewards import RewardEngine
from instruct.engines.start import engine_version
from instruct.engines.transformers import TransformersEngine
from instruct.engines.vllm import VLLMEngine


class _Logged:
    """Each batch is a line in `log`: this process and the keys.

    Next to it, a file `kill-KEY` ends the process that is asked for the key, `fail-KEY` lets its engine fail,
    `kill_vllm-KEY` ends vLLM's process, and `hang-KEY` holds it up; with `once-` before them, the first time only.
    A file `no-start` lets the engine fail while it is started.
    """

    def __init__(self, options: EngineOptions, log: Path, seconds: float = 0.0) -> None:
        super().__init__(options)  # type: ignore[call-arg]
        self._log, self._slow = log, seconds

    def check(self) -> None:
        """A machine without the model, if the file `no-model` says so."""
        if self._log.with_name("no-model").exists():
            raise InputError(f"{self.options.model}: no such folder; copy the model")  # type: ignore[attr-defined]
        super().check()  # type: ignore[misc]

    def start(self) -> str:
        if self._log.with_name("no-start").exists():
            raise RuntimeError("CUDA error: out of memory")
        return str(super().start())  # type: ignore[misc]

    def complete(self, requests: Iterable[Request]) -> Iterator[list[tuple[Request, Reply]]]:
        asked = list(requests)
        with self._log.open("a") as file:
            file.write(f"{os.getpid()} {' '.join(request.key for request in asked)}\n")
        time.sleep(self._slow)
        for request in asked:
            if self._told("kill", request):
                os.kill(os.getpid(), signal.SIGKILL)
            if self._told("kill_vllm", request):
                for process in psutil.Process().children(recursive=True):
                    if "vllm_process.py" in " ".join(process.cmdline()):
                        process.kill()
            if self._told("fail", request):
                raise RuntimeError("CUDA error: an illegal memory access was encountered")
            while self._told("hang", request):
                time.sleep(0.1)
        yield from super().complete(asked)  # type: ignore[misc]

    def _told(self, what: str, request: Request) -> bool:
        name = f"{what}-{request.key.replace('/', '-')}"
        once = self._log.with_name(f"once-{name}")
        if once.exists():
            once.unlink()
            return True
        return self._log.with_name(name).exists()


class LoggedEngine(_Logged, TransformersEngine):
    """The engine that generates."""


class LoggedVLLM(_Logged, VLLMEngine):
    """vLLM."""


class LoggedRewards(_Logged, RewardEngine):
    """The engine that scores."""


def logged(log: Path, seconds: float = 0.0) -> Callable[..., Any]:
    """`make_engine` with that engine, on the cluster that it is given."""

    def make(kind: Any, options: EngineOptions, where: Any = None) -> Any:
        engines = {"vllm": LoggedVLLM, "transformers": LoggedEngine}
        one = functools.partial(LoggedRewards if options.reward else engines[kind], log=log, seconds=seconds)
        if where is None:
            return one(options)
        return RayEngine(options, where, one, functools.partial(engine_version, kind))

    return make
