"""What runs on a machine of a Ray cluster. It imports neither torch nor Ray at the top: a worker must start quickly."""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from instruct.base.errors import InputError
from instruct.base.replies import Reply
from instruct.engines.base import Engine, Request


class Worker:
    """An engine on one machine of the cluster, which is asked one batch after another.

    An engine that fails is gone or in an unknown state, so that whatever else waits here fails, too.

    Args:
        make: makes the engine, which loads nothing yet.
        adapters: LoRA adapter folders, with the hashes that they have where the run is.
        version_of: the engine's version and device on this machine.
        threads: OMP_NUM_THREADS where the run is.
    """

    def __init__(
        self,
        make: Callable[[], Engine],
        adapters: dict[Path, str],
        version_of: Callable[[], str],
        threads: str | None,
    ) -> None:
        # Ray sets OMP_NUM_THREADS to the worker's CPUs; the engine must compute as in a process of its own.
        os.environ.pop("OMP_NUM_THREADS", None)
        if threads is not None:
            os.environ["OMP_NUM_THREADS"] = threads
        if threads is not None and "torch" in sys.modules:
            sys.modules["torch"].set_num_threads(int(threads))
        self._make, self._adapters, self._version_of = make, adapters, version_of
        self._engine: Engine | None = None
        threading.Thread(target=_end_after, args=(os.getppid(),), daemon=True).start()

    def survey(self) -> dict[str, Any]:
        """Its name and machine, and what replies depend on; or `error`, why the engine cannot be asked there."""
        import ray

        from instruct.base.machine import machine, versions
        from instruct.engines.weights import adapter_identity, is_adapter

        address, here = str(ray.util.get_node_ip_address()), machine()
        device = ", ".join(sorted(set(here["gpus"]))) or f"{here['processor']} ({here['cores']} cores)"
        about = {"worker": f"{address}/{os.getpid()}", "address": address, "host": socket.gethostname()}
        report: dict[str, Any] = {**about, "device": device, "versions": versions()}
        try:
            engine = self._make()
            engine.check()
            report["identity"] = engine.identity
            for folder, expected in self._adapters.items():
                if not is_adapter(folder) or adapter_identity(folder) != expected:
                    raise InputError(f"{folder}: is another adapter there; copy this machine's, or share the folder")
            report["engine"] = self._version_of()
        except InputError as error:
            report["error"] = str(error)
        return report

    def start(self) -> str:
        """Start the engine; returns its version and device."""
        engine = self._make()
        version = engine.start()
        self._engine = engine
        return version

    def ask(self, requests: list[Request]) -> tuple[list[Reply], float]:
        """The replies to a batch, in its order, and the seconds that they took."""
        engine, self._engine = self._engine, None
        assert engine is not None, "it has failed"
        began = time.monotonic()
        replies = {request.key: reply for portion in engine.complete(requests) for request, reply in portion}
        self._engine = engine
        return [replies[request.key] for request in requests], time.monotonic() - began


def _end_after(parent: int) -> None:
    """End this process when its parent, Ray's on this machine, has ended: nobody else could, and it holds a GPU."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)
