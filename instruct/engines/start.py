"""Which engine asks a model that is loaded here or on a cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from instruct.base.errors import InputError
from instruct.base.machine import has_gpu_device, pip_install, vllm_is_installed
from instruct.engines.base import Engine, EngineOptions
from instruct.engines.cluster import Where

LocalKind = Literal["vllm", "transformers"]


def pick_kind(named: LocalKind | None, subject: str, where: Where = None) -> LocalKind:
    """The engine that is named, or else vLLM where it is installed, but not on a CPU, where its start takes longer than
    transformers needs for a small model.

    Args:
        subject: who is asked, as error messages name it.

    Raises:
        InputError: vLLM is named, and not installed.
    """
    if named is None:
        return "vllm" if where is not None or (vllm_is_installed() and has_gpu_device()) else "transformers"
    if named == "vllm" and not vllm_is_installed():
        raise InputError(
            f"{subject}: vLLM is not installed; run `{pip_install('vllm')}`, or set the engine to transformers"
        )
    return named


def make_engine(kind: LocalKind, options: EngineOptions, where: Where = None) -> Engine:
    """An engine, which loads nothing before it is asked.

    Raises:
        InputError: options that this engine does not support.
    """
    if kind == "vllm":
        from instruct.engines.vllm import VLLMEngine, VLLMRewardEngine

        if options.head:
            raise InputError(
                f"{options.subject}: its head reads states inside the model, which vLLM does not give; leave "
                "`engine` out"
            )
        options = replace(options, elsewhere=where is not None)
        return VLLMRewardEngine(options, where) if options.reward else VLLMEngine(options, where)
    if where is not None:
        raise InputError(f"{options.subject}: a cluster runs vLLM; leave `cluster` out, or the engine transformers")
    if options.head:
        from instruct.engines.score_heads import ScoreHeadEngine

        return ScoreHeadEngine(options)
    if options.reward:
        from instruct.engines.rewards import RewardEngine

        return RewardEngine(options)
    from instruct.engines.transformers import TransformersEngine

    return TransformersEngine(options)
