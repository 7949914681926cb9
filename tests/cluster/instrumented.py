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
    """Each batch is a line in `log`: this process and the keys. A file `kill-KEY` next to it ends the process there."""

    def __init__(self, options: EngineOptions, log: Path, seconds: float = 0.0) -> None:
        super().__init__(options)
        self._log, self._slow = log, seconds

    def complete(self, requests: Iterable[Request]) -> Iterator[list[tuple[Request, Reply]]]:
        asked = list(requests)
        with self._log.open("a") as file:
            file.write(f"{os.getpid()} {' '.join(request.key for request in asked)}\n")
        time.sleep(self._slow)
        for request in asked:
            name = request.key.replace("/", "-")
            if self._log.with_name(f"kill-{name}").exists():
                os.kill(os.getpid(), signal.SIGKILL)
            if self._log.with_name(f"fail-{name}").exists():
                raise RuntimeError("CUDA error: an illegal memory access was encountered")
            while self._log.with_name(f"hang-{name}").exists():
                time.sleep(0.1)
        yield from super().complete(asked)


def logged(log: Path, seconds: float = 0.0) -> Callable[..., Any]:
    """`make_engine` with that engine, on the cluster that it is given."""

    def make(kind: Any, options: EngineOptions, *, cluster: Any = None) -> Any:
        if cluster is None:
            return LoggedEngine(options, log, seconds)
        one = functools.partial(LoggedEngine, log=log, seconds=seconds)
        return RayEngine(options, cluster, one, functools.partial(engine_version, "transformers"))

    return make
