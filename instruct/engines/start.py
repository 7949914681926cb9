"""Which engine asks a model that is loaded here or on a cluster."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator

from instruct.base.errors import InputError
from instruct.base.files import network_file_system
from instruct.engines.base import Engine, EngineOptions
from instruct.engines.ray_cluster import ClusterOptions

LocalKind = Literal["vllm", "transformers"]


def _read_where(value: Any) -> Any:
    """`ray` is a cluster with the defaults."""
    if isinstance(value, str) and value != "ray":
        raise ValueError("must be ray, or its settings: address, workers, gpus_per_worker, allow_mixed")
    return {} if value == "ray" else value


# Where a model is loaded: on a cluster, or (None) on this machine.
Where = Annotated[
    ClusterOptions | None, BeforeValidator(_read_where, json_schema_input_type=Literal["ray"] | ClusterOptions | None)
]


def make_engine(kind: LocalKind, options: EngineOptions, where: Where = None) -> Engine:
    """An engine, which loads nothing before it is asked.

    Raises:
        InputError: options that this engine does not support.
    """
    if where is not None:
        from instruct.engines.ray_engine import RayEngine

        make = functools.partial(make_engine, kind)
        return RayEngine(options, where, make, functools.partial(engine_version, kind))
    if kind == "vllm":
        from instruct.engines.vllm import VLLMEngine, VLLMRewardEngine

        if options.head:
            raise InputError(
                f"{options.subject}: its head reads states inside the model, which vLLM does not give; leave "
                "`engine` out"
            )
        return VLLMRewardEngine(options) if options.reward else VLLMEngine(options)
    if options.head:
        from instruct.engines.score_heads import ScoreHeadEngine

        return ScoreHeadEngine(options)
    if options.reward:
        from instruct.engines.rewards import RewardEngine

        return RewardEngine(options)
    from instruct.engines.transformers import TransformersEngine

    return TransformersEngine(options)


def engine_version(kind: LocalKind) -> str:
    """What an engine's `start` returns on this machine: its version and device; no model is loaded."""
    if kind == "vllm":
        import vllm
        from vllm.platforms import current_platform

        return f"vllm {vllm.__version__} {current_platform.device_type}"
    import torch
    import transformers

    return f"transformers {transformers.__version__} {'cuda' if torch.cuda.is_available() else 'cpu'}"


def check_store(where: Where, store: Path) -> None:
    """Refuse a store of replies that several machines would share: InputError."""
    if where is not None and (kind := network_file_system(store.parent)):
        raise InputError(
            f"{store}: is on a network file system ({kind}), on which SQLite can lose verdicts; move the run to a "
            "local disk of the machine that runs this command"
        )
