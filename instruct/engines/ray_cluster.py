"""A Ray cluster: connecting to it, what its machines can run, and whether they would give the same replies."""

from __future__ import annotations

import importlib.util
import logging
import os
import socket
from collections.abc import Sequence
from typing import Any, NamedTuple

from pydantic import Field, field_validator

from instruct.base.errors import InputError, one_line
from instruct.base.machine import pip_install, versions
from instruct.base.options import Options

# Seconds to find the cluster.
CONNECT_S = 20


class ClusterOptions(Options):
    """A Ray cluster that runs the engines of answers and judges on local models (docs/cluster.md)."""

    address: str | None = None
    """HOST:PORT of the cluster (default: RAY_ADDRESS, or the cluster that this machine belongs to)."""
    workers: int | None = Field(default=None, ge=1)
    """Engines at a time (default: as many as the GPUs allow; without GPUs, one per machine)."""
    gpus_per_worker: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """GPUs of an engine (default: its tensor_parallel_size; 0 on a cluster without GPUs)."""
    allow_mixed: bool = False
    """Accept machines whose GPUs or versions differ, so that answers depend on where they were made."""

    @field_validator("address")
    @classmethod
    def _is_a_cluster(cls, value: str | None) -> str | None:
        host, _, port = (value or "host:1").rpartition(":")
        if not (host and port.isdecimal() and 0 < int(port) < 65536 and "/" not in host):
            raise ValueError("must be HOST:PORT of the cluster's head, such as 10.0.0.1:6379")
        return value


class Room(NamedTuple):
    """How many workers a cluster has room for, and how many GPUs each of them has."""

    workers: int
    gpus: float


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
    try:
        if address != "auto":  # Ray would try for a minute
            _open_and_close(address)
        logger = logging.getLogger("ray")  # its lines on the way to an error say nothing that the error does not
        level = logger.level
        logger.setLevel(logging.CRITICAL)
        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.CRITICAL)
        finally:
            logger.setLevel(level)
    except (ConnectionError, TimeoutError, OSError) as error:
        raise InputError(f"cluster: no Ray cluster {where} ({_reason(error)}); {start}") from None
    except (RuntimeError, ValueError) as error:
        if "ersion" in str(error):  # "Version mismatch: The cluster was started with: …"
            raise InputError(
                f"cluster {where}: it has another version of Ray or Python than this process ({_reason(error)}); use "
                "one environment on all machines"
            ) from None
        raise InputError(f"cluster: no Ray cluster {where} ({_reason(error)}); {start}") from None
    return True


def answers(address: str) -> bool:
    """Whether something accepts connections at HOST:PORT."""
    try:
        _open_and_close(address)
    except (OSError, ValueError):
        return False
    return True


def _open_and_close(address: str) -> None:
    host, _, port = address.rpartition(":")
    socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_S).close()


def _reason(error: Exception) -> str:
    return one_line(f"{type(error).__name__}: {error}", 200)


def room_of(options: ClusterOptions, shared: int) -> Room:
    """The room for engines whose model `shared` GPUs share.

    Raises:
        InputError: there is none, or less than the options want.
    """
    import ray

    nodes = [node for node in ray.nodes() if node["Alive"]]
    gpus = options.gpus_per_worker
    if gpus is None:
        gpus = shared if shared > 1 or any(node["Resources"].get("GPU", 0) for node in nodes) else 0
    elif (0 < gpus < shared and shared > 1) or (gpus > 1 and gpus != int(gpus)):
        raise InputError(
            f"`gpus_per_worker` {gpus:g}: must be tensor_parallel_size ({shared}) or more, and whole above 1; "
            "correct it"
        )
    most = 0
    for resources in (node["Resources"] for node in nodes):
        cpus = int(resources.get("CPU", 0))
        if gpus:
            most += min(cpus, int(resources.get("GPU", 0) / gpus + 1e-9))
        else:
            most += cpus >= 1  # one, which uses all of the machine
    if not most:
        largest = max((node["Resources"].get("GPU", 0) for node in nodes), default=0)
        raise InputError(
            f"cluster: a worker needs {gpus:g} GPUs, and the largest of its {len(nodes)} machines has {largest:g}; "
            "lower tensor_parallel_size or `gpus_per_worker`, or add a machine that has them"
            if gpus
            else f"cluster: none of its {len(nodes)} machines has a CPU for a worker; start them with --num-cpus 1"
        )
    if (options.workers or 0) > most:
        size = f", of {gpus:g} GPUs each" if gpus else ""
        raise InputError(f"`workers` {options.workers}: the cluster has room for {most}{size}; lower it")
    return Room(options.workers or most, gpus)


def _name(machine: dict[str, Any]) -> str:
    return f"worker {machine['address']} ({one_line(machine['host'], 60)})"


def check_machines(model: str, identity: dict[str, Any], mixed: bool, machines: Sequence[dict[str, Any]]) -> None:
    """Refuse machines that cannot run an engine, or on which the same request could have different replies.

    Args:
        model: as it is named here.
        identity: the engine's on this machine, which every other one must have, too.
        mixed: GPUs and versions may differ.
        machines: what each says of itself.
    """
    for machine in machines:
        if "error" in machine:
            raise InputError(f"{_name(machine)}: {machine['error']}")
        if machine["identity"] != identity:
            raise InputError(
                f"{_name(machine)}: {model} is another model there than here; copy it, or share its folder"
            )
    if mixed:
        return
    first, here = machines[0], versions()
    for machine in machines:
        for what, value, expected, place in (
            ("the GPU or processor", machine["device"], first["device"], first["address"]),
            ("the engine", machine["engine"], first["engine"], first["address"]),
            *((name, machine["versions"].get(name), here[name], "this machine") for name in here),
            *(
                (name, machine["versions"].get(name), version, first["address"])
                for name, version in first["versions"].items()
            ),
        ):
            if value != expected:
                raise InputError(
                    f"{_name(machine)}: {what} is {value}, on {place} {expected}; use equal machines, or `allow_mixed`"
                )
