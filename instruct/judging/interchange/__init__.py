"""Verdicts from elsewhere, AlpacaEval's annotations.json in and out, and people's labels."""
