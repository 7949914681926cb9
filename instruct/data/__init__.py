"""From where: cards, rows, prompt and completion, labels with a response mask, evaluation sets."""
