"""Reward models in vLLM's pooling runner."""

from __future__ import annotations

from typing import Any

from instruct.engines.base import EngineOptions
from instruct.engines.rewards import RewardEngine, Text
from instruct.engines.vllm import check_installed

# Texts that vLLM is given at a time; it batches them itself.
TEXTS = 256


class VLLMRewardEngine(RewardEngine):
    """A sequence-classification model with one label in vLLM; its logit, without an activation, is the score.

    Raises:
        InputError: as `RewardEngine`, or vLLM is not installed.
        InstructError: vLLM failed for another reason.
    """

    kind = "vllm"

    def __init__(self, options: EngineOptions) -> None:
        super().__init__(options)
        self._client: Any = None

    def start(self) -> str:
        """Start vLLM if it is not running; returns its version and device."""
        if self._client is None:
            from instruct.engines.vllm_client import VLLMClient

            self._prepare()
            check_installed(self._options.subject)
            options = self._options
            model, revision = self._safetensors()
            arguments: dict[str, Any] = {
                "model": model,
                "revision": revision,
                "runner": "pooling",
                "max_model_len": self._context,
                "max_num_seqs": TEXTS,
                "skip_tokenizer_init": False,  # the pooling runner wants it
            }
            if options.dtype is not None:
                arguments["dtype"] = options.dtype
            if options.tensor_parallel_size != 1:
                arguments["tensor_parallel_size"] = options.tensor_parallel_size
            self._client = VLLMClient(arguments)
        return str(self._client.name)

    def _batches(self, lengths: list[int], device: str) -> list[slice]:
        return [slice(begin, begin + TEXTS) for begin in range(0, len(lengths), TEXTS)]

    def _scores(self, texts: list[Text]) -> list[float]:
        reply = self._client.ask({"classify": [text.ids for text in texts]})
        return [float(score) for score in reply["scores"]]

    def close(self) -> None:
        """End vLLM's process."""
        if self._client is not None:
            self._client.close()
