"""A model on a Ray cluster: Ray Data hands out the batches, starts engines again and repeats what they lost."""

from __future__ import annotations

import dataclasses
import functools
import logging
import os
import pickle
import threading
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from instruct.base.errors import InputError, InstructError, one_line
from instruct.base.output import warn
from instruct.base.replies import Reply
from instruct.engines.base import Engine, EngineOptions, Portion, Prompt, Request
from instruct.engines.cluster_options import ClusterOptions
from instruct.engines.ray_cluster import Pool, answers, connect, pool_of
from instruct.engines.ray_worker import TRIES, Board, Worker, check_newcomer, survey
from instruct.engines.weights import adapter_identity

# How often a worker is started again in its life: a batch gives up before that, a bad machine after it.
RESTARTS = 10
# How often Ray hands a batch over again. A worker whose machine has died cannot be reached for the half minute or so
# until Ray knows it, and each attempt counts; they are up to 5 s apart. `TRIES` limits how often a batch is begun.
HANDED_OVER = 40
# Batches that a worker holds: while it computes one, the next is there already.
IN_FLIGHT = 2
# Seconds without a finished batch after which the workers' doings are printed, and again after twice as long.
QUIET_S = 60.0
# Seconds without a finished batch after which the run ends; and more for each GiB of weights that has to be read.
PATIENCE_S, PATIENCE_PER_GIB_S = 1800.0, 20.0
# Seconds that the cluster's head may not answer. Ray ends this process, without a word, after a minute.
HEAD_LOST_S = 15.0
# Requests of a stream that a worker is given at a time.
STREAMED = 256


class _Row(NamedTuple):
    """What a worker is given at a time: requests of a batch, packed: token ids in Python take ten times the memory."""

    batch: int
    requests: bytes

    def unpacked(self) -> list[Request]:
        return pickle.loads(self.requests)


class RayEngine:
    """Engines of one model on the machines of a Ray cluster; this process alone sees the replies.

    A worker holds one engine and is given a batch at a time. A batch is repeated on the worker that lost it, up to
    `TRIES` times; what has been yielded is never asked again. `identity`, `notes` and `batch` are the engine's own.

    Raises:
        InputError: options that the engine does not support; when it is started, see `connect` and `pool_of`.
        InstructError: a batch has ended its worker `TRIES` times, or no worker finishes anything.
    """

    def __init__(
        self,
        options: EngineOptions,
        cluster: ClusterOptions,
        make: Callable[[EngineOptions], Engine],
        version_of: Callable[[], str],
    ) -> None:
        """`make` makes an engine of one process; `version_of` is what its `start` returns, without a model."""
        # A worker has another working directory.
        model = Path(options.model).expanduser()
        options = dataclasses.replace(
            options,
            model=str(model.resolve()) if model.is_dir() else options.model,
            adapters=tuple(folder.resolve() for folder in options.adapters),
            head=options.head and options.head.resolve(),
        )
        self._options, self._cluster = options, cluster
        # It tells lengths and identity; its weights are loaded by the workers.
        self._here: Any = make(dataclasses.replace(options, elsewhere=True))
        self._make = functools.partial(make, options)
        adapters = {str(folder): adapter_identity(folder) for folder in options.adapters}
        self._look = functools.partial(survey, self._make, adapters, version_of)
        self.notes: list[str] = self._here.notes
        self.batch: int | None = self._here.batch
        self.workers: dict[str, dict[str, Any]] = {}
        self._pool: Pool | None = None
        self._watch: _Watch | None = None
        self._joined = False

    @property
    def identity(self) -> dict[str, Any]:
        return self._here.identity

    def start(self) -> str:
        """Join the cluster and survey its machines; returns the engine's version and device there."""
        if self._pool is None:
            self._joined = connect(self._cluster) or self._joined
            self._pool = pool_of(self._cluster, self._options, self.identity, self._look)
        return self._pool.engine

    def check(self) -> None:
        """Refuse a cluster that cannot ask the model."""
        self.start()

    def tokens(self, prompt: Prompt) -> int | None:
        """The prompt's length in the model's tokens, counted here."""
        return self._here.tokens(prompt)

    def complete(self, requests: Iterable[Request]) -> Iterator[list[tuple[Request, Reply]]]:
        """See `Engine`. All requests are taken before the first is asked."""
        for portion in self.complete_batches([list(requests)]):
            yield portion.replies

    def complete_batches(self, batches: Iterable[Iterable[Request]]) -> Iterator[Portion]:
        """See `Engine`. All batches are taken before the first is asked; a request in several of them is asked once."""
        engine = self.start()
        assert self._pool is not None
        device = engine.rpartition(" ")[2]
        asked: set[str] = set()
        rows: list[_Row] = []
        for number, batch in enumerate(batches):
            new = [_absolute(request) for request in batch if request.key not in asked]
            asked.update(request.key for request in new)
            failed, divided = self._here.divided(new, device)
            if failed:
                yield Portion(number, failed, 0.0)
            for part in divided:
                rows += (_Row(number, pickle.dumps(row)) for row in self._in_rows(part))
        if rows:
            yield from self._ask(rows, self._pool)

    def _in_rows(self, part: list[Request]) -> list[list[Request]]:
        """What workers are given at a time: a batch, or as much of a stream as keeps all of them busy."""
        assert self._pool is not None
        if self.batch is not None:
            return [part]
        size = min(STREAMED, max(1, len(part) // (4 * self._pool.workers)))
        return [part[first : first + size] for first in range(0, len(part), size)]

    def _ask(self, rows: list[_Row], pool: Pool) -> Iterator[Portion]:
        import ray

        board = ray.remote(Board).options(num_cpus=0, scheduling_strategy=_this_machine()).remote()
        watch = self._watch = _Watch(board, ray.get_runtime_context().gcs_address)
        try:
            for number, row in self._answered(rows, pool, board):
                if row["error"]:
                    raise InputError(f"worker {row['worker']}: {row['error']}")
                if row["engine"] not in pool.engine.split(" + "):
                    raise InputError(
                        f"worker {row['worker']}: its engine is {row['engine']}, not {pool.engine} as its machine "
                        "said; start that machine's Ray again"
                    )
                requests = rows[number].unpacked()
                replies: list[Reply] = pickle.loads(row["replies"])
                watch.finished(row["worker"], len(requests), row["seconds"])
                self._note(row, pool, len(requests))
                yield Portion(rows[number].batch, list(zip(requests, replies, strict=True)), row["seconds"])
        except InstructError:
            raise
        except Exception as error:  # Ray Data has classes of its own besides Ray's
            raise InstructError(f"{watch.why(error, rows)}; finished batches are kept: rerun to resume") from None
        finally:
            watch.close()
            if ray.is_initialized():  # else it ended with the connection, and Ray would start a cluster of its own
                ray.kill(board)

    def _answered(self, rows: list[_Row], pool: Pool, board: Any) -> Iterator[tuple[int, Any]]:
        """Each row's number with what its worker made of it, as rows are finished."""
        import ray
        from ray.data import ActorPoolStrategy, DataContext
        from ray.util.annotations import RayDeprecationWarning

        context = DataContext.get_current()
        context.enable_progress_bars = False
        context.print_on_execution_start = False
        context.execution_no_progress_timeout_s = patience_s(self._options)
        logging.getLogger("ray.data").setLevel(logging.CRITICAL)
        items = [{"batch": number, "requests": row.requests} for number, row in enumerate(rows)]
        check = functools.partial(check_newcomer, pool.machines, self._look, self._cluster.allow_mixed)
        with warnings.catch_warnings():  # ray_remote_args_fn has no successor yet for what `_bounded` sets
            warnings.simplefilter("ignore", RayDeprecationWarning)
            dataset = ray.data.from_items(items, override_num_blocks=len(items)).map(
                Worker,
                fn_constructor_args=(self._make, board, check, os.environ.get("OMP_NUM_THREADS")),
                num_cpus=pool.cpus,
                num_gpus=pool.gpus,
                ray_remote_args_fn=_bounded,
                compute=ActorPoolStrategy(size=min(pool.workers, len(rows)), max_tasks_in_flight_per_actor=IN_FLIGHT),
            )
        del items
        for block in dataset.iter_batches(batch_size=None, prefetch_batches=0, batch_format="pyarrow"):
            for row in block.to_pylist():
                yield row["batch"], row

    def _note(self, row: dict[str, Any], pool: Pool, replies: int) -> None:
        """Count a finished batch for the record of the run."""
        machine = pool.machines.get(row["node"]) or next(iter(pool.machines.values()))
        about = {
            "host": row["host"],
            "device": machine["device"],
            "engine": row["engine"],
            "versions": machine["versions"],
        }
        done = self.workers.setdefault(row["worker"], {**about, "batches": 0, "replies": 0, "seconds": 0.0})
        done["batches"] += 1
        done["replies"] += replies
        done["seconds"] = round(done["seconds"] + row["seconds"], 3)

    def close(self) -> None:
        """Leave the cluster, which ends this process's workers."""
        self._here.close()
        if self._watch is not None:
            self._watch.close()
        if self._joined:
            import ray

            ray.shutdown()
            self._joined, self._pool = False, None


def patience_s(options: EngineOptions) -> float:
    """Seconds without a finished batch after which the run ends: workers may have to read or fetch the weights."""
    from instruct.base.models import model_path

    folder = Path(model_path(options.model)).expanduser()
    sizes = [path.stat().st_size for path in folder.glob("*.safetensors")] if folder.is_dir() else []
    gib = sum(sizes) / 2**30 if sizes else (options.gpu_gb or 140)
    return PATIENCE_S + PATIENCE_PER_GIB_S * gib


def _bounded() -> dict[str, Any]:
    """How often Ray starts a worker again and hands over a batch; its own limits are none."""
    return {"max_restarts": RESTARTS, "max_task_retries": HANDED_OVER}


def _absolute(request: Request) -> Request:
    """The request with an adapter's folder that a worker finds."""
    if request.adapter is None:
        return request
    return dataclasses.replace(request, adapter=str(Path(request.adapter).resolve()))


def _this_machine() -> Any:
    """Where this process runs: whatever else ends, what runs here ends with it alone."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)


class _Watch:
    """Prints what the workers do when nothing is finished for a while, and in the end what each has done."""

    def __init__(self, board: Any, head: str) -> None:
        self._board, self._head = board, head
        self._done: Counter[str] = Counter()
        self._replies: Counter[str] = Counter()
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._last = time.monotonic()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def finished(self, worker: str, replies: int, seconds: float) -> None:
        self._done[worker] += 1
        self._replies[worker] += replies
        self._seconds[worker] += seconds
        self._last = time.monotonic()

    def _watch(self) -> None:
        quiet, seen = QUIET_S, self._last
        answered, told = time.monotonic(), False
        while not self._ended.wait(min(QUIET_S / 4, 5)):
            if answers(self._head):
                answered = time.monotonic()
            elif not told and time.monotonic() - answered >= HEAD_LOST_S:
                told = True
                warn(
                    f"cluster   its head at {self._head} does not answer any more, so Ray will end this command within "
                    "a minute; finished batches are kept: start the cluster again (docs/cluster.md) and rerun the "
                    "command"
                )
                continue  # nobody can be asked what they do
            if self._last != seen:
                quiet, seen = QUIET_S, self._last
            if (waited := time.monotonic() - seen) >= quiet:
                quiet *= 2
                warn(f"cluster   nothing finished for {waited:.0f} s: {self._doings() or 'no worker has begun'}")

    def _doings(self) -> str:
        workers, _ = self._read()
        return ", ".join(
            f"{name} {report['doing']}{'' if report['batch'] is None else ' on batch ' + str(report['batch'])} "
            f"({report['seconds']:.0f} s)"
            for name, report in sorted(workers.items())
        )

    def _read(self) -> tuple[dict[str, dict[str, Any]], dict[int, int]]:
        import ray

        if not ray.is_initialized():
            return {}, {}
        try:
            return ray.get(self._board.read.remote(), timeout=10)
        except Exception:  # the board is only for people
            return {}, {}

    def why(self, error: Exception, rows: list[_Row]) -> str:
        """Why Ray gave up: the batch that ended its workers, else what they were doing."""
        from ray.data.exceptions import ExecutionTimeoutError

        workers, begun = self._read()
        errors = [report["error"] for report in workers.values() if report["error"]]
        last = f" (last: {errors[-1]})" if errors else ""
        worst = max(begun, key=lambda number: begun[number], default=None)
        if worst is not None and begun[worst] >= TRIES:
            keys = [request.key for request in rows[worst].unpacked()]
            return f"batch {worst} ({keys[0]} to {keys[-1]}) has ended its worker {TRIES} times{last}"
        if isinstance(error, ExecutionTimeoutError) or isinstance(error.__cause__, ExecutionTimeoutError):
            waited = time.monotonic() - self._last
            return f"no worker has finished a batch for {waited:.0f} s ({self._doings() or 'none has begun'})"
        if any(report["doing"] == "failed starting" for report in workers.values()):
            return f"an engine has failed to start {TRIES} times{last}"
        return f"the cluster gave up ({one_line(error, 200)}); its workers: {self._doings() or 'none'}"

    def close(self) -> None:
        if self._ended.is_set():
            return
        self._ended.set()
        self._thread.join(timeout=15)
        if len(self._done) > 1:
            totals = ", ".join(
                f"{name} {self._replies[name]} in {self._done[name]} batches "
                f"({self._replies[name] / max(self._seconds[name], 1e-9):.1f}/s)"
                for name in sorted(self._done)
            )
            warn(f"cluster   replies of each worker: {totals}")
