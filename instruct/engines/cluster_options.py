"""Where models are asked beyond this machine."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator

from instruct.base.options import Options


class ClusterOptions(Options):
    """A Ray cluster that runs the engines of answers, tasks and judges on local models (docs/cluster.md)."""

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


def _named(value: Any) -> Any:
    """`cluster: ray` is a cluster with the defaults."""
    if isinstance(value, str) and value != "ray":
        raise ValueError("must be ray, or its settings: address, workers, gpus_per_worker, allow_mixed")
    return {} if value == "ray" else value


Cluster = Annotated[
    ClusterOptions | None, BeforeValidator(_named, json_schema_input_type=Literal["ray"] | ClusterOptions | None)
]
