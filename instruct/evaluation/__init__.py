"""Measures the systems of a run without a judge: on human text, and by the texts that they wrote."""
