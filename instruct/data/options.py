"""Which rows are trained on."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from instruct.cards import Options


class DataOptions(Options):
    """What is trained on. `files` overrides the card's source; without a card the format is read off the first row."""

    card: str | None = None
    files: list[str] | None = None
    template: Literal["alpaca", "chat"] | None = None
    limit: int | None = Field(default=None, ge=1)
