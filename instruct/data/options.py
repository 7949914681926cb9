"""Options of the training data."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from instruct.cards import Options
from instruct.data.cards import Documents


class DataOptions(Options):
    """The training data. `files` replaces the card's source; without a card, the first row determines the format.

    `documents` and `encoding` say how plain text files are read; see `DatasetCard`.
    """

    card: str | None = None
    files: list[str] | None = None
    template: Literal["alpaca", "chat"] | None = None
    limit: int | None = Field(default=None, ge=1)
    documents: Documents | None = None
    encoding: str | None = None
