"""The engines that answer prompts, and which one a configuration means."""

from __future__ import annotations

import importlib.util

from instruct.errors import InputError
from instruct.generation.options import GenerationConfig
from instruct.generation.serving import Completion, Engine, Serving
from instruct.generation.transformers_engine import TransformersEngine
from instruct.generation.vllm_engine import VLLMEngine

__all__ = ["Completion", "Engine", "Serving", "TransformersEngine", "VLLMEngine", "start_engine"]


def start_engine(serving: Serving, config: GenerationConfig) -> Engine:
    """The engine that `config.engine` names, loaded; `auto` is vLLM where it is installed, else transformers.

    Raises:
        InputError: vLLM is asked for and not installed; a model or an adapter that cannot be loaded.
        InstructError: vLLM failed for another reason.
    """
    installed = importlib.util.find_spec("vllm") is not None
    if config.engine == "vllm" and not installed:
        raise InputError(
            "generation.engine vllm: vLLM is not installed; run `pip install vllm` or set it to transformers"
        )
    if config.engine == "transformers" or not installed:
        return TransformersEngine(serving)
    return VLLMEngine(serving, config)
