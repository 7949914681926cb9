"""Numbers about verdicts: pure functions, no files, no torch."""
