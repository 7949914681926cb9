"""A Ray cluster whose machines each run vLLM's server, and what this process asks of them."""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import math
import os
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator

from instruct.base.errors import InputError, InstructError, one_line
from instruct.base.files import network_file_system
from instruct.base.machine import pip_install
from instruct.base.options import Options
from instruct.engines.base import EngineOptions
from instruct.engines.vllm_server import VLLMServer
from instruct.engines.weights import folder_identity

# Seconds to find the cluster, and for one of its machines to have a free GPU and load the model.
CONNECT_S, START_S = 20, 3600.0
# How often Ray starts a replica again that has died with its machine or process, or a replica its vLLM.
RESTARTS = 3
# Seconds that a replica has to say where it is, if another one answers.
_LOOK_S = 2.0


class ClusterOptions(Options):
    """A Ray cluster that runs vLLM for answers and local judges (docs/cluster.md)."""

    address: str | None = None
    """HOST:PORT of the cluster (default: RAY_ADDRESS, or the cluster that this machine belongs to)."""
    workers: int | None = Field(default=None, ge=1)
    """Copies of the model (default: as many as the GPUs allow; without GPUs, one per machine)."""
    gpus_per_worker: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """GPUs of a copy (default: its tensor_parallel_size; 0 on a cluster without GPUs)."""

    @field_validator("address")
    @classmethod
    def _is_a_cluster(cls, value: str | None) -> str | None:
        host, _, port = (value or "host:1").rpartition(":")
        if not (host and port.isdecimal() and 0 < int(port) < 65536 and "/" not in host):
            raise ValueError("must be HOST:PORT of the cluster's head, such as 10.0.0.1:6379")
        return value


def _read_where(value: Any) -> Any:
    """`ray` is a cluster with the defaults."""
    if isinstance(value, str) and value != "ray":
        raise ValueError("must be ray, or its settings: address, workers, gpus_per_worker")
    return {} if value == "ray" else value


# Where a model is loaded: on a cluster, or (None) on this machine.
Where = Annotated[
    ClusterOptions | None, BeforeValidator(_read_where, json_schema_input_type=Literal["ray"] | ClusterOptions | None)
]


class Replica:
    """vLLM's server on a machine of the cluster, started when its address is first asked for, and when it has ended.

    Args:
        arguments: of `VLLMServer`.
        weights: the identities of the model's folder and of the adapters, where the run is.
    """

    def __init__(self, subject: str, arguments: Sequence[str], weights: Mapping[str, str]) -> None:
        # Ray sets it to the CPUs that it counts for this process.
        os.environ.pop("OMP_NUM_THREADS", None)
        self._subject, self._arguments, self._weights = subject, arguments, weights
        self._server: VLLMServer | None = None
        self._starts = 0

    def address(self) -> tuple[str, str, int]:
        """The URL, version and context of the server that runs here.

        Raises:
            InputError: there are other weights here, or vLLM cannot load them.
            InstructError: vLLM ended too often.
        """
        import ray

        if self._server is not None:
            try:
                self._server.check()
            except InstructError:
                self._server.close()
                self._server = None
                if self._starts > RESTARTS:
                    raise
        if self._server is None:
            for folder, expected in self._weights.items():
                if _identity_of(Path(folder)) != expected:
                    raise InputError(f"{folder}: has other weights there; copy this machine's, or share the folder")
            self._starts += 1
            host = str(ray.util.get_node_ip_address())
            self._server = VLLMServer(self._subject, self._arguments, host)
        return self._server.url, self._server.version, self._server.context


def _identity_of(folder: Path) -> str:
    """What tells a folder's weights from others; "" if there are none."""
    with contextlib.suppress(InputError):
        return folder_identity(folder)
    return ""


class Replicas:
    """vLLM's servers on the machines of a cluster; Ray starts them again where they end.

    Attributes:
        urls: of those that answered the last time.
        version, context: as `VLLMServer` has them.

    Raises:
        InputError: no cluster, no room on it, or a machine that cannot load the model.
        InstructError: no server answers.
    """

    def __init__(self, cluster: ClusterOptions, options: EngineOptions, arguments: Sequence[str]) -> None:
        self._joined = connect(cluster)
        import ray

        folders = [folder for folder in (Path(options.model), *options.adapters) if folder.is_dir()]
        weights = {str(folder.resolve()): _identity_of(folder) for folder in folders}
        self._subject = options.subject
        self._actors: list[Any] = []
        self._asked: dict[Any, Any] = {}  # calls of `address` that have not returned, with their actors
        self._last = ""
        self.urls: list[str] = []
        self.version, self.context = "", 0
        try:
            gpus, count = _room(cluster, options.tensor_parallel_size)
            placed: dict[str, Any] = {"num_cpus": 1, "num_gpus": gpus, "scheduling_strategy": "SPREAD"}
            actor: Any = ray.remote(Replica).options(**placed, max_restarts=RESTARTS, max_task_retries=RESTARTS)
            self._actors += [actor.remote(options.subject, arguments, weights) for _ in range(count)]
            self.check(_LOOK_S * 10)  # time for all to start; whoever is later is asked later
        except BaseException:
            self.close()
            raise

    def check(self, seconds: float = _LOOK_S) -> None:
        """See which servers answer, and wait for the first if none does."""
        import ray

        waiting = {*self._asked.values()}
        self._asked |= {actor.address.remote(): actor for actor in self._actors if actor not in waiting}
        until = time.monotonic() + START_S
        urls: list[str] = []
        ready, _ = ray.wait([*self._asked], num_returns=len(self._asked), timeout=seconds)
        while not urls and self._asked and time.monotonic() < until:
            ready = ready or ray.wait([*self._asked], num_returns=1, timeout=START_S)[0]
            for call in ready:
                urls += self._address(call, self._asked.pop(call))
            ready = []
        if not urls:
            raise InstructError(f"{self._subject}: no machine of the cluster answers ({self._last or 'none has room'})")
        self.urls = urls

    def _address(self, call: Any, actor: Any) -> list[str]:
        """The address that an actor has given; none if it is gone."""
        import ray

        try:
            url, self.version, self.context = ray.get(call)
            return [url]
        except ray.exceptions.RayError as error:
            cause = getattr(error, "cause", None) or error
            self._last = one_line(f"{type(cause).__name__}: {cause}", 250)
            if isinstance(cause, InputError):
                raise InputError(str(cause)) from None
            self._actors.remove(actor)
            return []

    def close(self) -> None:
        """End the servers, and leave the cluster."""
        import ray

        for actor in self._actors:
            ray.kill(actor)
        if self._joined:
            ray.shutdown()


def connect(options: ClusterOptions) -> bool:
    """Join the cluster; False if this process has joined one already.

    Raises:
        InputError: Ray is not installed, there is no cluster, or it has another version of Ray or Python.
    """
    if importlib.util.find_spec("ray") is None:
        raise InputError(f"cluster: Ray is not installed; run `{pip_install('cluster')}` on every machine")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ENABLE_AUTO_CONNECT", "0")  # no cluster of its own by mistake
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # of this process: it logs what is not an error, too
    os.environ.setdefault("RAY_gcs_server_request_timeout_seconds", str(CONNECT_S))
    import ray

    if ray.is_initialized():
        return False
    address = options.address or os.environ.get("RAY_ADDRESS") or "auto"
    where = "on this machine" if address == "auto" else f"at {one_line(address, 100)}"
    start = "start one (docs/cluster.md): ray start --head, then ray start --address=HOST:PORT on the other machines"
    if address.startswith("ray://"):
        raise InputError(f"RAY_ADDRESS {one_line(address, 100)}: run the command on a machine of the cluster instead")
    logger = logging.getLogger("ray")  # its lines on the way to an error say nothing that the error does not
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        if address != "auto":  # Ray would try for a minute
            host, _, port = address.rpartition(":")
            socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_S).close()
        ray.init(address=address, log_to_driver=False, logging_level=logging.CRITICAL)
    except (OSError, RuntimeError, ValueError) as error:
        reason = one_line(f"{type(error).__name__}: {error}", 200)
        raise InputError(f"cluster: no Ray cluster {where} that this process can join ({reason}); {start}") from None
    finally:
        logger.setLevel(level)
    return True


def _room(options: ClusterOptions, shared: int) -> tuple[float, int]:
    """The GPUs of a copy of a model that `shared` GPUs share, and how many copies there are.

    Raises:
        InputError: there is no room for so many.
    """
    import ray

    machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    gpus = options.gpus_per_worker
    if gpus is None:
        gpus = float(shared) if shared > 1 or any(machine.get("GPU") for machine in machines) else 0.0
    elif 0 < gpus < shared and shared > 1:
        raise InputError(f"`gpus_per_worker` {gpus:g}: must be tensor_parallel_size ({shared}) or more; correct it")
    most = sum(math.floor(machine.get("GPU", 0) / gpus + 1e-9) if gpus else 1 for machine in machines)
    if (options.workers or 1) > most:
        size = f" with {gpus:g} GPUs each" if gpus else ""
        raise InputError(
            f"`workers` {options.workers or 1}: the cluster's {len(machines)} machines have room for {most}{size}; "
            "lower it, tensor_parallel_size or `gpus_per_worker`"
        )
    return gpus, options.workers or most


def check_store(where: Where, store: Path) -> None:
    """Refuse a store of replies that several machines would share: InputError."""
    if where is not None and (kind := network_file_system(store.parent)):
        raise InputError(
            f"{store}: is on a network file system ({kind}), on which SQLite can lose verdicts; move the run to a "
            "local disk of the machine that runs this command"
        )
