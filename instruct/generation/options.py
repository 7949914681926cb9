"""Which prompts are answered, and how."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from instruct.cards import Options, Texts
from instruct.engines.base import server_address


class GenerationConfig(Options):
    """How prompts are answered: greedily by default.

    `engine: server` asks for the base model by its name and for a trained system by the system's name
    (`vllm serve --lora-modules NAME=FOLDER`), with the key in OPENAI_API_KEY.
    """

    engine: Literal["auto", "vllm", "transformers", "server"] = "auto"
    """auto: vLLM if it is installed, else transformers, which also answers for 4-bit models."""
    base_url: str | None = None
    """The OpenAI-compatible server of engine: server."""
    max_new_tokens: int = Field(default=512, ge=1)
    """The longest answer, in tokens."""
    temperature: float = Field(default=0.0, ge=0)
    """0: greedy."""
    top_p: float = Field(default=1.0, gt=0, le=1)
    """Nucleus sampling: the share of probability to sample from."""
    seed: int = 0
    """Of sampling."""
    batch_size: int = Field(default=64, ge=1)
    """How many prompts are answered and recorded together."""
    max_model_len: int | None = Field(default=None, ge=2)
    """The longest prompt and answer together, in tokens (default: as long as the prompts need)."""
    gpu_memory_utilization: float = Field(default=0.9, gt=0, le=1)
    """vLLM's share of a GPU's memory."""
    tensor_parallel_size: int | None = Field(default=None, ge=1)
    """How many GPUs share the model in vLLM (default: one)."""

    @field_validator("base_url")
    @classmethod
    def _address_has_no_secret(cls, url: str | None) -> str | None:
        if url is not None:
            server_address(url)  # before it is written into config.yaml and the manifest
        return url

    @model_validator(mode="after")
    def _server_has_an_address(self) -> GenerationConfig:
        if (self.engine == "server") != (self.base_url is not None):
            raise ValueError("engine: server requires base_url, and base_url requires engine: server")
        return self


class AnswerOptions(Options):
    """The evaluation set that is answered, and how."""

    eval_set: str = "starter_eval"
    """The prompts to answer: starter_eval or alpaca_eval."""
    files: Texts | None = None
    """Your own prompts, instead of eval_set."""
    limit: int | None = Field(default=None, ge=1)
    """Answer the first prompts only."""
    template: Literal["alpaca", "chat"] | None = None
    """How prompts are rendered (default: as in training)."""
    generation: GenerationConfig = GenerationConfig()
    """How prompts are answered."""

    def made_from(self) -> dict[str, Any]:
        """The options as a step's inputs."""
        made_from = self.model_dump(mode="json")
        # Earlier runs did not have these options; their answers must not look outdated.
        for name in ("base_url", "tensor_parallel_size"):
            if made_from["generation"][name] is None:
                del made_from["generation"][name]
        return made_from
