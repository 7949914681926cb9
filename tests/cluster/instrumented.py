"""The transformers engine on a cluster, with a log of what it is asked, and prompts that end or hold up its process."""

from __future__ import annotations

import functools
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from instruct.engines.base import EngineOptions, Reply, Request
from instruct.engines.ray_engine import RayEngine
from instruct.engines.start import engine_version
from instruct.engines.transformers import TransformersEngine


class LoggedEngine(TransformersEngine):
    """Each batch is a line in `log`: this process and the keys.

    Next to it, a file `kill-KEY` ends the process that is asked for the key, `fail-KEY` lets its engine fail, and
    `hang-KEY` holds it up; with `once-` before them, the first time only.
    """

    def __init__(self, options: EngineOptions, log: Path, seconds: float = 0.0) -> None:
        super().__init__(options)
        self._log, self._slow = log, seconds

    def complete(self, requests: Iterable[Request]) -> Iterator[list[tuple[Request, Reply]]]:
        asked = list(requests)
        with self._log.open("a") as file:
            file.write(f"{os.getpid()} {' '.join(request.key for request in asked)}\n")
        time.sleep(self._slow)
        for request in asked:
            if self._told("kill", request):
                os.kill(os.getpid(), signal.SIGKILL)
            if self._told("fail", request):
                raise RuntimeError("CUDA error: an illegal memory access was encountered")
            while self._told("hang", request):
                time.sleep(0.1)
        yield from super().complete(asked)

    def _told(self, what: str, request: Request) -> bool:
        name = f"{what}-{request.key.replace('/', '-')}"
        once = self._log.with_name(f"once-{name}")
        if once.exists():
            once.unlink()
            return True
        return self._log.with_name(name).exists()


def logged(log: Path, seconds: float = 0.0) -> Callable[..., Any]:
    """`make_engine` with that engine, on the cluster that it is given."""

    def make(kind: Any, options: EngineOptions, *, cluster: Any = None) -> Any:
        if cluster is None:
            return LoggedEngine(options, log, seconds)
        one = functools.partial(LoggedEngine, log=log, seconds=seconds)
        return RayEngine(options, cluster, one, functools.partial(engine_version, "transformers"))

    return make
