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
    costs money needs; `comparisons`: its own.
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

    def made_from(self) -> dict[str, Any]:
        """What of this section the verdicts are made from: not how fast they were asked for, or for how much."""
        return self.model_dump(mode="json", exclude={"budget_usd", "concurrency"})
