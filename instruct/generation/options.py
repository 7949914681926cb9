"""Which prompts are answered, and how."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from instruct.cards import Options
from instruct.engines.base import server_address


class GenerationConfig(Options):
    """How prompts are answered: greedily by default.

    `engine: auto` is vLLM if it is installed, else transformers, which also answers for 4-bit models. `engine: server`
    asks the OpenAI-compatible server at `base_url`, with the key in OPENAI_API_KEY: the base model by its name, a
    trained system by the system's name (`vllm serve --lora-modules NAME=FOLDER`).

    `batch_size` prompts are answered and recorded together; `max_model_len` bounds prompt and answer together, in
    tokens (None: as long as the prompts need). Of vLLM: `gpu_memory_utilization` is its share of a GPU's memory,
    `tensor_parallel_size` the number of GPUs that share the model (None: one).
    """

    engine: Literal["auto", "vllm", "transformers", "server"] = "auto"
    base_url: str | None = None
    max_new_tokens: int = Field(default=512, ge=1)
    temperature: float = Field(default=0.0, ge=0)
    top_p: float = Field(default=1.0, gt=0, le=1)
    seed: int = 0
    batch_size: int = Field(default=64, ge=1)
    max_model_len: int | None = Field(default=None, ge=2)
    gpu_memory_utilization: float = Field(default=0.9, gt=0, le=1)
    tensor_parallel_size: int | None = Field(default=None, ge=1)

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
    files: list[str] | None = None
    limit: int | None = Field(default=None, ge=1)
    template: Literal["alpaca", "chat"] | None = None
    generation: GenerationConfig = GenerationConfig()

    def made_from(self) -> dict[str, Any]:
        """The options as a step's inputs."""
        made_from = self.model_dump(mode="json")
        # Earlier runs did not have these options; their answers must not look outdated.
        for name in ("base_url", "tensor_parallel_size"):
            if made_from["generation"][name] is None:
                del made_from["generation"][name]
        return made_from
