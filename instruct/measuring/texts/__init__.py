"""Numbers about texts: perplexity, entropy, distances from a reference model, MAUVE, ROUGE, diversity."""
