"""vLLM: adapters served unmerged, all of them from one start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from instruct.engines.vllm_client import VLLMClient
from instruct.engines.weights import lora_rank
from instruct.errors import InputError
from instruct.generation.options import GenerationConfig
from instruct.generation.serving import Completion, Serving, answer_limits, completion_of, prompt_seed

_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)  # vllm.config.lora.MaxLoRARanks


class VLLMEngine:
    """vLLM in a process of its own (see `VLLMClient`), LoRA adapters served unmerged.

    Raises:
        InputError: a model or an adapter that vLLM cannot load.
        InstructError: vLLM failed for another reason.
    """

    def __init__(self, serving: Serving, config: GenerationConfig) -> None:
        self._serving = serving
        arguments: dict[str, Any] = {
            "model": serving.model,
            "revision": serving.revision,
            "max_model_len": serving.max_model_len,
            "max_num_seqs": config.batch_size,
            "gpu_memory_utilization": config.gpu_memory_utilization,
        }
        if serving.adapters:
            arguments |= {
                "enable_lora": True,
                "max_lora_rank": max(_served_rank(adapter) for adapter in serving.adapters),
                "max_loras": 1,
                "max_cpu_loras": len(serving.adapters),
            }
        self._client = VLLMClient(arguments, serving.adapters)
        self.name = self._client.name

    def complete(
        self, prompts_token_ids: list[list[int]], adapter: Path | None, config: GenerationConfig, first_index: int = 0
    ) -> list[Completion]:
        """See `Engine`. Each request has a seed of its own: a sample does not depend on its batch."""
        reply = self._client.ask(
            {
                "prompts": prompts_token_ids,
                "limits": answer_limits(self._serving, prompts_token_ids, config),
                "seeds": [prompt_seed(config.seed, first_index + i) for i in range(len(prompts_token_ids))],
                "temperature": config.temperature,
                "top_p": config.top_p,
                "stop_ids": self._serving.stop_ids,
                "adapter": None if adapter is None else str(adapter),
            }
        )
        return [completion_of(self._serving, ids) for ids in reply["tokens"]]

    def close(self) -> None:
        """End vLLM's process."""
        self._client.close()


def _served_rank(adapter: Path) -> int:
    """The smallest rank that vLLM can be set to and that holds the adapter."""
    rank = lora_rank(adapter)
    served = next((allowed for allowed in _RANKS if allowed >= rank), None)
    if served is None:
        raise InputError(f"{adapter}: rank {rank}, vLLM serves up to {_RANKS[-1]}; merge it into its base")
    return served
