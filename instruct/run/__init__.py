"""What a run has done, and from what: its directory, steps and locks."""
