"""Which prompts are answered, and how."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from instruct.cards import Options


class GenerationConfig(Options):
    """Greedy by default. `engine: auto` is vLLM where it is installed, transformers elsewhere.

    `batch_size` prompts are answered and recorded together; `max_model_len` (None: what the prompts need) bounds
    prompt and answer together, in tokens; `gpu_memory_utilization` is vLLM's share of a GPU's memory.
    """

    engine: Literal["auto", "vllm", "transformers"] = "auto"
    max_new_tokens: int = Field(default=512, ge=1)
    temperature: float = Field(default=0.0, ge=0)
    top_p: float = Field(default=1.0, gt=0, le=1)
    seed: int = 0
    batch_size: int = Field(default=64, ge=1)
    max_model_len: int | None = Field(default=None, ge=2)
    gpu_memory_utilization: float = Field(default=0.9, gt=0, le=1)


class AnswerOptions(Options):
    """The evaluation set that is answered, and how."""

    eval_set: str = "starter_eval"
    files: list[str] | None = None
    limit: int | None = Field(default=None, ge=1)
    template: Literal["alpaca", "chat"] | None = None
    generation: GenerationConfig = GenerationConfig()
