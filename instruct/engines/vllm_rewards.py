"""Reward models in vLLM's pooling runner."""

from __future__ import annotations

from typing import Any

from instruct.engines.rewards import RewardEngine, Text
from instruct.engines.vllm import InVLLM

# Texts that vLLM is given at a time; it batches them itself.
TEXTS = 256


class VLLMRewardEngine(InVLLM, RewardEngine):
    """A sequence-classification model with one label in vLLM; its logit, without an activation, is the score.

    Raises:
        InputError: as `RewardEngine`, or vLLM is not installed.
        InstructError: vLLM failed for another reason.
    """

    def arguments(self) -> dict[str, Any]:
        return super().arguments() | {
            "runner": "pooling",
            "max_model_len": self._context,
            "max_num_seqs": TEXTS,
            "skip_tokenizer_init": False,  # the pooling runner wants it
        }

    def _batches(self, lengths: list[int], device: str) -> list[slice]:
        return [slice(begin, begin + TEXTS) for begin in range(0, len(lengths), TEXTS)]

    def _scores(self, texts: list[Text]) -> list[float]:
        reply = self._client.ask({"classify": [text.ids for text in texts]})
        return [float(score) for score in reply["scores"]]
