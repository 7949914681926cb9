"""Asking a model: requests in, completions out. Knows no judge and no evaluation set."""
