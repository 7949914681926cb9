"""Which judge to ask, and how."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from instruct.base.models import Dtype
from instruct.base.options import Options, Texts

# The judge of a call that names only a model; both judges are for any model, and have no published figures.
GENERAL_JUDGE = "pairwise"
GENERAL_JUDGES = (GENERAL_JUDGE, "pairwise_single")


class JudgeOptions(Options):
    """One judge."""

    no_result: ClassVar[frozenset[str]] = frozenset(
        {"replicas", "concurrency", "timeout", "budget_usd", "comparisons"}  # each comparison is a step of its own
    )

    card: str
    """The name or path of the judge's card."""
    model: str | None = None
    """Another model to ask with the card's prompt, under its own name."""
    base_url: str | None = None
    """An OpenAI-compatible server to ask (its key: OPENAI_API_KEY)."""
    replicas: Texts = []
    """Further servers of the same model, asked in turn with the one at base_url."""
    engine: Literal["vllm", "transformers", "server"] | None = None
    """What runs the model (default: vLLM on a GPU where it is installed, else transformers)."""
    concurrency: int = Field(default=64, ge=1)
    """Requests to a server at a time."""
    timeout: float = Field(default=300.0, gt=0, allow_inf_nan=False)
    """Seconds for a server's reply, of each attempt."""
    orders: Literal["both", "one"] | None = None
    """Show each pair in both orders or in one (default: as the card says)."""
    criteria: str | None = Field(default=None, min_length=1)
    """What to compare by, in words, for rows without `criteria` of their own (default: the judge's prompt alone)."""
    trim: bool = False
    """Cut answers that do not fit the judge's context, both to the same length."""
    budget_usd: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """The spending limit for the whole run, in US dollars; a judge that costs money requires it."""
    comparisons: list[tuple[str, str]] | None = None
    """Pairs of candidate and baseline (default: the experiment's)."""
    dtype: Dtype | None = None
    """What a model on this machine computes in (default: on a GPU the checkpoint's, on a CPU the faster of two)."""
    quantization: Literal["4bit"] | None = None
    """Quantize the weights of a model on this machine (default: none)."""
    tensor_parallel_size: int | None = Field(default=None, ge=1)
    """How many GPUs share the model in vLLM (default: one)."""

    @model_validator(mode="after")
    def _replicas_have_an_original(self) -> Self:
        if self.replicas and self.base_url is None:
            raise ValueError("replicas: are further servers next to base_url; set that to the first of them")
        return self
