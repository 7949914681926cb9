"""Which engine asks a model."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Literal

from instruct.base.errors import InputError
from instruct.engines.base import Engine, EngineOptions
from instruct.engines.cluster_options import ClusterOptions

EngineKind = Literal["vllm", "transformers", "server"]


def make_engine(
    kind: EngineKind,
    options: EngineOptions,
    base_url: str | None = None,
    concurrency: int | None = None,
    cluster: ClusterOptions | None = None,
    replicas: Sequence[str] = (),
    timeout: float | None = None,
) -> Engine:
    """An engine, which loads nothing before it is asked.

    Args:
        base_url: of an OpenAI-compatible server; None: OpenAI's.
        concurrency: requests at a time to a server; None: its default.
        cluster: where the model is loaded; None: on this machine.
        replicas: further servers of the same model, asked in turn with the one at `base_url`.
        timeout: seconds for a server's reply; None: its default.

    Raises:
        InputError: options that this engine does not support.
    """
    if cluster is not None and kind != "server":
        from instruct.engines.ray_engine import RayEngine

        make = functools.partial(make_engine, kind)
        return RayEngine(options, cluster, make, functools.partial(engine_version, kind))
    if kind == "server":
        from instruct.engines.server import CONCURRENCY, TIMEOUT, ServerEngine

        if options.reward:
            raise InputError(
                f"{options.subject}: a reward model is asked on this machine; leave --base-url and --engine out"
            )
        return ServerEngine(options, base_url, concurrency or CONCURRENCY, timeout or TIMEOUT, replicas)
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


def engine_version(kind: EngineKind) -> str:
    """What an engine's `start` returns on this machine: its version and device; no model is loaded."""
    if kind == "vllm":
        import vllm
        from vllm.platforms import current_platform

        return f"vllm {vllm.__version__} {current_platform.device_type}"
    import torch
    import transformers

    return f"transformers {transformers.__version__} {'cuda' if torch.cuda.is_available() else 'cpu'}"
