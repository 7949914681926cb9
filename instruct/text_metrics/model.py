"""The numbers about a system's texts, as metrics.json holds them."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Perplexity(BaseModel):
    """How well a system predicts held-out text; docs/text_metrics.md has the formulas.

    Attributes:
        perplexity: per token of the system, the end token of a text included.
        word_perplexity, byte_perplexity: per word and per byte of the text, without end tokens, so that systems with
            different tokenizers can be compared. None: there is no second word.
        texts, tokens, words, bytes: that were scored; the first token of a text has nothing before it.
    """

    model_config = ConfigDict(extra="forbid")

    perplexity: float
    word_perplexity: float | None = None
    byte_perplexity: float | None = None
    texts: int
    tokens: int
    words: int
    bytes: int


class SystemTexts(BaseModel):
    """All numbers about one system's texts; None: not computed."""

    model_config = ConfigDict(extra="forbid")

    perplexity: Perplexity | None = None
