"""Judges compared with human labels."""
