"""Tasks of lm-evaluation-harness, whose answers can be checked without a judge."""
