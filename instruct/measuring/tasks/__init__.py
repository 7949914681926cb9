"""Tasks of lm-evaluation-harness: prompts with demonstrations, whose answers can be checked without a judge."""
