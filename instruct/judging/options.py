"""Which judge to ask, and how."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator

from instruct.cards import Options


class JudgeOptions(Options):
    """One judge.

    Attributes:
        card: the name or path of its card.
        model: the model to ask with the card's prompt, instead of the card's own.
        base_url: of an OpenAI-compatible server to ask, with `concurrency` requests at a time.
        engine: that asks the model; None: chosen by what is installed.
        orders: how often to show each pair; None: as the card says.
        trim: cut answers that do not fit the judge's context, both to the same length.
        budget_usd: limit for the whole run; required for a judge that costs money.
        comparisons: (candidate, baseline) pairs; None: the experiment's.
        dtype, quantization: of the weights of a model on this machine; None: the engine's choice.
        tensor_parallel_size: GPUs that share such a model in vLLM; None: one.
        stop_when: judge in a random order and stop early: `decided`, or `width=POINTS`; None: judge all pairs.
    """

    card: str
    model: str | None = None
    base_url: str | None = None
    engine: Literal["vllm", "transformers", "server"] | None = None
    concurrency: int = Field(default=64, ge=1)
    orders: Literal["both", "one"] | None = None
    trim: bool = False
    budget_usd: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    comparisons: list[tuple[str, str]] | None = None
    dtype: Literal["auto", "bfloat16", "float16", "float32"] | None = None
    quantization: Literal["4bit"] | None = None
    tensor_parallel_size: int | None = Field(default=None, ge=1)
    stop_when: str | None = None

    @field_validator("stop_when")
    @classmethod
    def _is_a_rule(cls, value: str | None) -> str | None:
        from instruct.analysis.sequential import StopRule  # imports numpy

        return None if value is None else str(StopRule.parse(value))

    def made_from(self) -> dict[str, Any]:
        """The options that affect the verdicts: all but speed and budget."""
        made_from = self.model_dump(mode="json", exclude={"budget_usd", "concurrency"})
        # Earlier runs did not have these options; their verdicts must not look outdated.
        for name in ("dtype", "quantization", "tensor_parallel_size", "stop_when"):
            if made_from[name] is None:
                del made_from[name]
        return made_from
