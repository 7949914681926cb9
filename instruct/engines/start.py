"""Which engine asks a model that is loaded here or on a cluster."""

from __future__ import annotations

import functools
from typing import Literal

from instruct.base.errors import InputError
from instruct.engines.base import Engine, EngineOptions
from instruct.engines.cluster_options import ClusterOptions

LocalKind = Literal["vllm", "transformers"]


def make_engine(kind: LocalKind, options: EngineOptions, cluster: ClusterOptions | None = None) -> Engine:
    """An engine, which loads nothing before it is asked.

    Args:
        cluster: where the model is loaded; None: on this machine.

    Raises:
        InputError: options that this engine does not support.
    """
    if cluster is not None:
        from instruct.engines.ray_engine import RayEngine

        make = functools.partial(make_engine, kind)
        return RayEngine(options, cluster, make, functools.partial(engine_version, kind))
    if kind == "vllm":
        from instruct.engines.vllm import VLLMEngine, VLLMRewardEngine

        if options.head:
            raise InputError(
                f"{options.subject}: its head reads states inside the model, which vLLM does not give; leave --engine "
                "out"
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
