"""Logs of evaluations that other tools ran, read as scores. Never loads torch."""
