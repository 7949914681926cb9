"""A model on a Ray cluster, whose machines are surveyed first and whose workers are given the batches."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from instruct.base.machine import has_gpu
from instruct.base.output import warn
from instruct.base.replies import Reply
from instruct.engines.base import Engine, EngineOptions, Portion, Prompt, Request
from instruct.engines.ray_cluster import ClusterOptions, check_machines, connect, room_of
from instruct.engines.ray_crew import Crew, Row, Worker
from instruct.engines.weights import adapter_identity

# Seconds without a finished batch after which the run ends; and more for each GiB of weights that has to be read.
PATIENCE_S, PATIENCE_PER_GIB_S = 1800.0, 20.0
# Requests of a stream that a worker is given at a time.
STREAMED = 256


class RayEngine:
    """Engines of one model on the machines of a Ray cluster; this process alone sees the replies.

    A worker holds one engine and is given a batch at a time. A batch that a worker lost is repeated, up to three times
    in all; what has been yielded is never asked again. `identity`, `notes` and `batch` are the engine's own.

    Raises:
        InputError: options that the engine does not support; when it is started, see `connect`, `room_of` and `Crew`.
        InstructError: as `Crew`.
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
        adapters = {folder: adapter_identity(folder) for folder in options.adapters}
        self._worker = (functools.partial(make, options), adapters, version_of, os.environ.get("OMP_NUM_THREADS"))
        self.notes: list[str] = self._here.notes
        self.batch: int | None = self._here.batch
        self.workers: dict[str, dict[str, Any]] = {}
        self._crew: Crew | None = None
        self._joined = False

    @property
    def identity(self) -> dict[str, Any]:
        return self._here.identity

    @property
    def dtype(self) -> str:
        """The dtype that the model computes in: as this machine picks it."""
        return str(self._here.dtype)

    def start(self) -> str:
        """Join the cluster and survey its machines; returns the engine's version and device there."""
        return self._started().engine

    def _started(self) -> Crew:
        if self._crew is None:
            self._joined = connect(self._cluster) or self._joined
            import ray

            options = self._options
            room = room_of(self._cluster, options.tensor_parallel_size)
            if room.gpus and not has_gpu() and self.dtype == "float32":
                warn("cluster: its GPUs compute in float32, as picked here, where no GPU is; to change it, set dtype")
            actor = ray.remote(Worker).options(num_cpus=1, num_gpus=room.gpus, scheduling_strategy="SPREAD")
            check = functools.partial(check_machines, options.model, self.identity, self._cluster.allow_mixed)
            hire = functools.partial(actor.remote, *self._worker)
            self._crew = Crew(room.workers, hire, check, self.workers, patience_s(options))
            self._crew.survey()
        return self._crew

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
        """See `Engine`. A batch is taken when a worker has room for it; a request in several of them is asked once."""
        crew = self._started()
        device = crew.engine.rpartition(" ")[2]
        numbers, asked = itertools.count(), set[str]()
        try:
            for batch, requests in enumerate(batches):
                new = []
                for request in requests:
                    if request.key not in asked:
                        asked.add(request.key)
                        # A worker has another working directory.
                        adapter = request.adapter and str(Path(request.adapter).resolve())
                        new.append(dataclasses.replace(request, adapter=adapter))
                failed, divided = self._here.divided(new, device)
                if failed:
                    yield Portion(batch, failed, 0.0)
                for part in divided:  # a batch, or a stream, of which each gets as much as keeps all of them busy
                    size = len(part) if self.batch else min(STREAMED, max(1, len(part) // (4 * crew.size)))
                    for first in range(0, len(part), size):
                        yield from crew.give(Row(batch, next(numbers), part[first : first + size]))
            yield from crew.rest()
        finally:
            if not crew.is_done:
                self._dismiss()

    def _dismiss(self) -> None:
        crew, self._crew = self._crew, None
        if crew is not None:
            crew.dismiss()

    def close(self) -> None:
        """End this process's workers, and leave the cluster."""
        self._here.close()
        self._dismiss()
        if self._joined:
            import ray

            ray.shutdown()
            self._joined = False


def patience_s(options: EngineOptions) -> float:
    """Seconds without a finished batch after which the run ends: workers may have to read or fetch the weights."""
    from instruct.base.models import model_path

    folder = Path(model_path(options.model)).expanduser()
    sizes = [path.stat().st_size for path in folder.glob("*.safetensors")] if folder.is_dir() else []
    gib = sum(sizes) / 2**30 if sizes else (options.gpu_gb or 140)
    return PATIENCE_S + PATIENCE_PER_GIB_S * gib
