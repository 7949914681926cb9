"""Verdicts from and for elsewhere: AlpacaEval's annotations.json and JSON lines."""
