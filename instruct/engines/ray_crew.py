"""The workers of a Ray cluster: they are given batches, replaced when they end, and their batches asked again.

A worker must start quickly: neither torch nor Ray is imported at the top.
"""

from __future__ import annotations

import dataclasses
import math
import os
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from instruct.base.errors import InputError, InstructError, one_line
from instruct.base.output import warn
from instruct.base.replies import Reply
from instruct.engines import canary
from instruct.engines.base import Engine, Portion, Request
from instruct.engines.ray_cluster import answers

# Seconds for the workers to describe their machines: they import torch and vLLM, and GPUs may have to become free.
SURVEY_S = 300.0
# How often a batch is begun at most: what ends its worker three times would end every other, too.
TRIES = 3
# How often a worker is replaced: a batch gives up before that, a bad machine after it.
REPLACED = 10
# Batches that a worker holds: while it computes one, the next is there already.
IN_FLIGHT = 2
# Seconds without a finished batch after which the workers' doings are printed, and again after twice as long.
QUIET_S = 60.0
# Seconds between looks at the cluster's head, and those that it may not answer. Ray ends this process, without a word,
# after a minute.
_LOOK_S, HEAD_LOST_S = 5.0, 15.0


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
        ray_here = os.getppid()

        def end_with_ray() -> None:
            """End this process with Ray's on this machine: nobody else could, and it holds a GPU."""
            while os.getppid() == ray_here:
                time.sleep(1)
            os._exit(1)

        threading.Thread(target=end_with_ray, daemon=True).start()

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


@dataclasses.dataclass(eq=False)
class Row:
    """What a worker is given at a time: requests of a batch; its number, for messages; how often it ended a worker."""

    batch: int
    number: int
    requests: list[Request]
    tries: int = 0


@dataclasses.dataclass(eq=False)
class _Worker:
    """An actor, what it was told to do and has not done, in order, and since when it does the first of that.

    `jobs` are rows, or None: its survey and its start. `machine` is what the survey found, `engine` what has started.
    """

    actor: Any
    replaced: int
    jobs: deque[tuple[Any, Row | None]]
    since: float = dataclasses.field(default_factory=time.monotonic)
    machine: dict[str, Any] = dataclasses.field(default_factory=dict)
    engine: str = ""

    @property
    def rows(self) -> list[Row]:
        return [row for _, row in self.jobs if row is not None]

    def give(self, row: Row) -> None:
        """Let it do a row after all else; the first one starts its engine."""
        if not self.jobs:
            self.since = time.monotonic()
        if not self.engine and not self.rows:
            self.jobs.append((self.actor.start.remote(), None))
        self.jobs.append((self.actor.ask.remote(row.requests), row))

    def doing(self) -> str:
        """What it does, for people."""
        what = (
            "waiting" if not self.jobs else f"working on batch {row.number}" if (row := self.jobs[0][1]) else "starting"
        )
        return f"{self.machine['worker']} {what} ({time.monotonic() - self.since:.0f} s)"


class Crew:
    """Workers with the same engine, which are given batches until they are dismissed.

    What the caller must correct ends the work. Anything else that a worker raises, and its death, end that worker:
    another one takes its place and its batches.

    Args:
        size: how many workers.
        hire: makes a worker's actor.
        check: refuses machines, by what `Worker.survey` says of each.
        done: is told what each worker has done, for the record of the run.
        patience_s: seconds without a finished batch after which the work ends.

    Raises:
        InputError: a machine is refused, or a request.
        InstructError: a batch has ended its worker `TRIES` times, or no worker finishes anything.
    """

    def __init__(
        self,
        size: int,
        hire: Callable[[], Any],
        check: Callable[[Sequence[dict[str, Any]]], None],
        done: dict[str, dict[str, Any]],
        patience_s: float,
    ) -> None:
        import ray

        self.size, self._actor, self._check, self._done, self._patience_s = size, hire, check, done, patience_s
        self._workers: list[_Worker] = []
        self._waiting: deque[Row] = deque()
        self._head = ray.get_runtime_context().gcs_address
        self._answered = self._last = time.monotonic()
        self._quiet = QUIET_S
        self.engine = ""

    @property
    def is_done(self) -> bool:
        """Whether every row that was given has been answered."""
        return not self._waiting and not any(worker.rows for worker in self._workers)

    def survey(self) -> None:
        """Hire the workers and let them describe their machines; those that find room later are checked then.

        Raises:
            InputError: a machine is refused, or none has room.
        """
        until = time.monotonic() + SURVEY_S
        while len(self._workers) < self.size:
            self._hire(0)
        while not all(worker.machine for worker in self._workers) and time.monotonic() < until:
            list(self._finished())
        self.engine = " + ".join(sorted({worker.machine["engine"] for worker in self._surveyed()}))
        if not self.engine:
            raise InputError(
                f"cluster: no CPU or GPU became free in {SURVEY_S:.0f} s; wait for the cluster's other work, or stop it"
            )

    def give(self, row: Row) -> Iterator[Portion]:
        """Hand out a row as soon as a worker has room for it; yields what is finished meanwhile."""
        if self.is_done:
            self._last = time.monotonic()
        self._waiting.append(row)
        self._hand_out()
        while self._waiting:
            yield from self._finished()

    def rest(self) -> Iterator[Portion]:
        """What has not been yielded yet of all rows that were given."""
        while not self.is_done:
            yield from self._finished()

    def dismiss(self) -> None:
        """End all workers, and say what each has done."""
        for worker in list(self._workers):
            self._dismiss(worker)
        if len(self._done) > 1:
            totals = ", ".join(
                f"{name} {done['replies']} in {done['batches']} batches "
                f"({done['replies'] / max(done['seconds'], 1e-9):.1f}/s)"
                for name, done in sorted(self._done.items())
            )
            warn(f"cluster   replies of each worker: {totals}")

    def _hire(self, replaced: int) -> None:
        actor = self._actor()
        self._workers.append(_Worker(actor, replaced, deque([(actor.survey.remote(), None)])))

    def _dismiss(self, worker: _Worker) -> None:
        """End a worker; its rows are the next that are handed out."""
        import ray

        ray.kill(worker.actor)
        self._workers.remove(worker)
        self._waiting.extendleft(reversed(worker.rows))

    def _surveyed(self) -> list[_Worker]:
        return [worker for worker in self._workers if worker.machine]

    def _hand_out(self) -> None:
        """Give what waits to the workers that have the least to do, as long as they have room."""
        while self._waiting and (able := self._surveyed()):
            least = min(able, key=lambda worker: len(worker.rows))
            if len(least.rows) >= IN_FLIGHT:
                return
            least.give(self._waiting.popleft())

    def _finished(self) -> Iterator[Portion]:
        """Wait a little for the next job that is done."""
        import ray

        first = {worker.jobs[0][0]: worker for worker in self._workers if worker.jobs}
        ready, _ = ray.wait(list(first), timeout=min(QUIET_S / 4, _LOOK_S))
        for ref in ready:
            yield from self._take(first[ref])
        if not ready:
            self._look_at_workers()
        self._look_at_head()
        self._hand_out()

    def _take(self, worker: _Worker) -> Iterator[Portion]:
        """Take what a worker has done first."""
        import ray

        ref, row = worker.jobs[0]
        try:
            answer = ray.get(ref)
        except ray.exceptions.RayError as error:
            cause = getattr(error, "cause", error)  # what it raised; else it has died, or its machine
            if isinstance(cause, InputError):
                raise InputError(f"worker {worker.machine['worker']}: {cause}") from None
            builtin = type(cause).__module__ == "builtins"
            why = one_line(f"{type(cause).__name__}: {cause}" if builtin else cause, 250)
            if not worker.machine and not worker.replaced:
                raise InputError(
                    f"worker {getattr(error, 'ip', 'of the cluster')}: does not run this package ({why}); install the "
                    "same environment on every machine"
                ) from None
            self._replace(worker, why)
            return
        worker.jobs.popleft()
        worker.since = time.monotonic()
        if row is not None:
            replies, seconds = answer
            self._note(worker, row, seconds)
            yield Portion(row.batch, list(zip(row.requests, replies, strict=True)), seconds)
        elif not worker.machine:
            self._check([*(other.machine for other in self._surveyed()), answer])
            worker.machine = answer
        else:
            worker.engine = answer
            if answer not in self.engine.split(" + "):
                raise InputError(
                    f"worker {worker.machine['worker']}: its engine is {answer}, not {self.engine} as its machine "
                    "said; start that machine's Ray again"
                )

    def _replace(self, worker: _Worker, why: str) -> None:
        """Hire another worker, unless the first row of this one has ended too many.

        Raises:
            InstructError: it has.
        """
        for row in worker.rows[:1]:
            row.tries += 1
            if row.tries >= TRIES:
                keys = f"{row.requests[0].key} to {row.requests[-1].key}"
                what = (
                    f"batch {row.number} ({keys}) has ended its worker"
                    if worker.engine
                    else "an engine has failed to start"
                )
                raise self._given_up(f"{what} {TRIES} times (last: {why})")
        if worker.replaced >= REPLACED:
            raise self._given_up(f"a worker has been replaced {REPLACED} times (last: {why})")
        self._dismiss(worker)
        self._hire(worker.replaced + 1)

    def _note(self, worker: _Worker, row: Row, seconds: float) -> None:
        """Count a finished batch for the record of the run, if it is a part of the work."""
        self._last, self._quiet = time.monotonic(), QUIET_S
        if row.requests[0].key == canary.KEY:
            return
        about = {name: worker.machine[name] for name in ("host", "device", "versions")}
        new = {**about, "engine": worker.engine, "batches": 0, "replies": 0, "seconds": 0.0}
        done = self._done.setdefault(worker.machine["worker"], new)
        done["batches"] += 1
        done["replies"] += len(row.requests)
        done["seconds"] = round(done["seconds"] + seconds, 3)

    def _look_at_workers(self) -> None:
        """Say what they do if nothing is finished for long, or give up."""
        waited = time.monotonic() - self._last
        doings = ", ".join(sorted(worker.doing() for worker in self._surveyed())) or "no worker has begun"
        if waited >= self._patience_s:
            raise self._given_up(f"no worker has finished a batch for {waited:.0f} s ({doings})")
        if waited >= self._quiet:
            self._quiet *= 2
            warn(f"cluster   nothing finished for {waited:.0f} s: {doings}")

    def _given_up(self, why: str) -> InstructError:
        return InstructError(f"{why}; finished batches are kept: rerun to resume")

    def _look_at_head(self) -> None:
        """Say once that the cluster's head does not answer."""
        unanswered = time.monotonic() - self._answered
        if unanswered < _LOOK_S:
            return
        if answers(self._head):
            self._answered = time.monotonic()
        elif unanswered >= HEAD_LOST_S:
            self._answered = math.inf
            warn(
                f"cluster   its head at {self._head} does not answer any more, so Ray will end this command within a "
                "minute; finished batches are kept: start the cluster again (docs/cluster.md) and rerun the command"
            )
