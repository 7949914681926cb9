"""Which judge is asked, and how."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from instruct.cards import Options


class JudgeOptions(Options):
    """One judge, by its card's name.

    `model`: another model under the card's prompt; `base_url`: an OpenAI-compatible server that serves it, with
    `concurrency` requests at a time; `engine`: who is asked, None: by what there is; `trim`: answers that do not fit
    the judge's context are cut, both to the same length; `budget_usd`: what the whole run may cost, which a judge that
    costs money needs; `comparisons`: its own. For a model on this machine: `dtype` and `quantization` of its weights
    (None: the engine's choice), and `tensor_parallel_size`, the GPUs that share it in vLLM (None: one).
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

    def made_from(self) -> dict[str, Any]:
        """What of this section the verdicts are made from: not how fast they were asked for, or for how much."""
        made_from = self.model_dump(mode="json", exclude={"budget_usd", "concurrency"})
        # Settings that earlier runs did not have must not make their verdicts look outdated.
        for name in ("dtype", "quantization", "tensor_parallel_size"):
            if made_from[name] is None:
                del made_from[name]
        return made_from
