"""Data: cards, rows as prompt and completion, tokens with a loss mask, evaluation sets."""
