"""What runs on the machines of a Ray cluster: the survey of a machine, the worker that holds an engine, the board.

It imports neither torch nor Ray at the top, so that `ray_engine` can name these classes before a cluster is there.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from instruct.base.errors import InputError, one_line
from instruct.engines.base import Engine

# How often a batch is begun at most: what ends its worker three times would end every other, too.
TRIES = 3


class BegunTooOftenError(RuntimeError):
    """A batch was handed to a worker again after it has ended `TRIES` of them."""


def survey(make: Callable[[], Engine], adapters: dict[str, str], version_of: Callable[[], str]) -> dict[str, Any]:
    """A machine as a worker finds it, or `error`, the reason why the engine cannot be asked there.

    Args:
        make: makes the engine, which loads nothing yet.
        adapters: LoRA adapter folders, with the hashes that they have where the run is.
        version_of: the engine's version and device on this machine.
    """
    from instruct.base.machine import versions
    from instruct.engines.weights import adapter_identity, is_adapter

    machine: dict[str, Any] = {"host": socket.gethostname(), "device": _device(), "versions": versions()}
    try:
        engine = make()
        engine.check()
        machine["identity"] = engine.identity
        for folder, expected in adapters.items():
            if not is_adapter(Path(folder)) or adapter_identity(Path(folder)) != expected:
                raise InputError(f"{folder}: is another adapter there; copy this machine's, or share the folder")
        machine["engine"] = version_of()
    except InputError as error:
        machine["error"] = str(error)
    return machine


def check_newcomer(surveyed: dict[str, dict[str, Any]], look: Callable[[], dict[str, Any]], allow_mixed: bool) -> None:
    """Refuse this machine if it has joined the cluster since the survey and differs from the surveyed ones.

    Args:
        surveyed: what each machine said of itself, by Ray's id of the node.
        look: `survey` with its arguments.

    Raises:
        InputError: it cannot run the engine, or differs.
    """
    import ray

    if ray.get_runtime_context().get_node_id() in surveyed:
        return
    newcomer = look()
    if "error" in newcomer:
        raise InputError(newcomer["error"])
    alike = ("identity",) if allow_mixed else ("identity", "engine", "device", "versions")
    for what in alike:
        if all(newcomer[what] != machine[what] for machine in surveyed.values()):
            raise InputError(f"this machine joined the cluster during the run, and its {what} differs; remove it")


def _device() -> str:
    """The models of the GPUs that Ray has given this process, else the processor."""
    from instruct.base.machine import machine

    here = machine()
    return ", ".join(sorted(set(here["gpus"]))) or f"{here['processor']} ({here['cores']} cores)"


class Board:
    """What each worker is doing, and how often each batch was begun. An actor: it outlives the workers."""

    def __init__(self) -> None:
        self._workers: dict[str, dict[str, Any]] = {}
        self._given: Counter[int] = Counter()
        self._begun: Counter[int] = Counter()

    def given(self, batch: int) -> int:
        """Note that a worker was given a batch; returns how often that has happened."""
        self._given[batch] += 1
        return self._given[batch]

    def report(self, worker: str, doing: str, batch: int | None = None, error: str = "") -> None:
        """Note what a worker does from now on."""
        if doing == "working":
            self._begun[batch or 0] += 1
        self._workers[worker] = {"doing": doing, "batch": batch, "error": error, "since": time.monotonic()}

    def read(self) -> tuple[dict[str, dict[str, Any]], dict[int, int]]:
        """Each worker's last report with the seconds since, and how often each batch was begun."""
        now = time.monotonic()
        workers = {name: {**report, "seconds": now - report["since"]} for name, report in self._workers.items()}
        return workers, dict(self._begun)


class Worker:
    """An engine on one machine of the cluster; called with a batch, it returns the replies.

    What the caller must correct comes back as `error`. Anything else that goes wrong ends this process, because the
    engine is gone or in an unknown state: Ray starts it again and repeats the batch, `TRIES` times in all.
    """

    def __init__(self, make: Callable[[], Engine], board: Any, check: Callable[[], None], threads: str | None) -> None:
        # Ray sets OMP_NUM_THREADS to the worker's CPUs; the engine must compute as in a process of its own.
        os.environ.pop("OMP_NUM_THREADS", None)
        if threads is not None:
            os.environ["OMP_NUM_THREADS"] = threads
        if threads is not None and "torch" in sys.modules:
            sys.modules["torch"].set_num_threads(int(threads))
        self._make, self._board, self._check = make, board, check
        self._engine: Engine | None = None
        self._version = ""
        self._node, address = _place()
        self._name = f"{address}/{os.getpid()}"
        # The engine is started with the first batch: Ray gives up an actor that ends while it is being made.

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        import ray

        number = int(row["batch"])
        if ray.get(self._board.given.remote(number)) > TRIES:
            raise BegunTooOftenError(f"batch {number} was given to a worker {TRIES} times")
        done = {
            "batch": number,
            "replies": b"",
            "seconds": 0.0,
            "error": "",
            "engine": "",
            "worker": self._name,
            "node": self._node,
            "host": socket.gethostname(),
        }
        try:
            if self._engine is None:
                self._report("starting", number)
                self._check()
                self._engine = self._make()
                self._version = self._engine.start()
            self._report("working", number)
            began = time.monotonic()
            requests = pickle.loads(row["requests"])
            replies = {request.key: reply for portion in self._engine.complete(requests) for request, reply in portion}
            done |= {
                "replies": pickle.dumps([replies[request.key] for request in requests]),
                "seconds": time.monotonic() - began,
                "engine": self._version,
            }
            self._report("waiting")
            return done
        except InputError as error:
            return {**done, "error": str(error)}
        except Exception as error:
            doing = "starting" if not self._version else "working"
            text = one_line(f"{type(error).__name__}: {error}" if type(error).__module__ == "builtins" else error)
            with contextlib.suppress(Exception):
                self._report(f"failed {doing}", number, text)
            os._exit(1)

    def _report(self, doing: str, batch: int | None = None, error: str = "") -> None:
        import ray

        ray.get(self._board.report.remote(self._name, doing, batch, error))


def _place() -> tuple[str, str]:
    """Ray's id of this node, and its address."""
    import ray

    return ray.get_runtime_context().get_node_id(), str(ray.util.get_node_ip_address())
