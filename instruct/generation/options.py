"""Which prompts are answered and which prefixes continued, and how."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from instruct.base.options import Options, Texts
from instruct.data.cards import Cut, Documents
from instruct.engines.base import server_address


class EngineConfig(Options):
    """Which engine generates.

    `engine: server` asks for the base model by its name and for a trained system by the system's name
    (`vllm serve --lora-modules NAME=FOLDER`), with the key in OPENAI_API_KEY.
    """

    no_result: ClassVar[frozenset[str]] = frozenset({"batch_size", "timeout", "gpu_memory_utilization"})

    engine: Literal["auto", "vllm", "transformers", "server"] = "auto"
    """auto: vLLM if there is a GPU and it is installed, else transformers, which also answers for 4-bit models."""
    base_url: str | None = None
    """The OpenAI-compatible server of engine: server."""
    batch_size: int = Field(default=64, ge=1)
    """How many prompts are answered at a time."""
    timeout: float = Field(default=300.0, gt=0, allow_inf_nan=False)
    """Seconds for a server's reply, of each attempt."""
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
    def _server_has_an_address(self) -> Self:
        if (self.engine == "server") != (self.base_url is not None):
            raise ValueError("engine: server requires base_url, and base_url requires engine: server")
        return self


class GenerationConfig(EngineConfig):
    """How prompts are answered: greedily by default."""

    max_new_tokens: int = Field(default=512, ge=1)
    """The longest answer, in tokens, with its thinking."""
    temperature: float = Field(default=0.0, ge=0)
    """The temperature of sampling (0: greedy, or what the evaluation set's card says, as MT-Bench's does)."""
    card_temperatures: bool = True
    """Sample prompts at the temperature that the evaluation set's card names for them, unless `temperature` is set."""
    top_p: float = Field(default=1.0, gt=0, le=1)
    """Nucleus sampling: the share of probability to sample from."""
    seed: int = 0
    """Draws the samples."""


class SamplingConfig(EngineConfig):
    """How prefixes are continued: by samples of the model's own distribution, all equally long."""

    batch_size: int = Field(default=256, ge=1)
    """How many continuations are generated at a time."""
    max_new_tokens: int | None = Field(default=None, ge=1)
    """The longest continuation, in tokens (default: the number in the corpus' continuation)."""
    min_new_tokens: int | None = Field(default=None, ge=0)
    """A continuation does not end before (default: max_new_tokens; 0: it may end at once)."""
    temperature: float = Field(default=1.0, ge=0)
    """The temperature of sampling (1: unbiased; 0: greedy)."""
    top_p: float = Field(default=1.0, gt=0, le=1)
    """Nucleus sampling: the share of probability to sample from."""

    @model_validator(mode="after")
    def _can_end(self) -> Self:
        if None not in (self.min_new_tokens, self.max_new_tokens) and self.min_new_tokens > self.max_new_tokens:  # type: ignore[operator]
            raise ValueError("min_new_tokens exceeds max_new_tokens; lower it")
        return self


class AnswerOptions(Options):
    """The evaluation set that is answered, and how."""

    eval_set: str = "starter_eval"
    """The prompts to answer, such as alpaca_eval."""
    files: Texts | None = None
    """Your own prompts, instead of eval_set: rows with instruction, turns, prompt, question, text or messages."""
    limit: int | None = Field(default=None, ge=1)
    """Answer the first prompts only."""
    cluster_column: str | None = None
    """Rows with the same value in this column are one cluster (default: cluster, else those with the same prompt)."""
    template: Literal["alpaca", "chat"] | None = None
    """How prompts are rendered (default: as in training)."""
    generation: GenerationConfig = GenerationConfig()
    """How prompts are answered."""


class ContinuationOptions(Cut):
    """The prefixes of human texts that every system continues, and how."""

    card: str | None = None
    """The corpus' card, by name or path, such as wikitext2_test."""
    files: Texts | None = None
    """Your own files, instead of the card's source: plain text, JSON, JSON lines, CSV (all also .gz) or Parquet."""
    documents: Documents | None = None
    """What a text is in a plain text file (default: the card's, else line)."""
    column: str | None = None
    """The column with the text (default: the card's, else text)."""
    cluster_column: str | None = None
    """Rows with the same value in this column are one cluster (default: cluster, else those with the same prefix)."""
    limit: int | None = Field(default=None, ge=1)
    """Continue the first prefixes only."""
    samples: int = Field(default=1, ge=1)
    """How many continuations of each prefix are drawn for each seed."""
    seeds: list[int] = Field(default=[0], min_length=1)
    """Each of these seeds draws its own samples."""
    generation: SamplingConfig = SamplingConfig()
    """How prefixes are continued."""

    @model_validator(mode="after")
    def _names_a_corpus(self) -> Self:
        if self.card is None and not self.files:
            raise ValueError("names no corpus; set card (see `instruct list data`) or files")
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError("seeds: a seed is given twice; remove one")
        return self

    @property
    def cut(self) -> Cut:
        """How the texts are cut, as far as it is set here."""
        return Cut(**{name: getattr(self, name) for name in Cut.model_fields})
