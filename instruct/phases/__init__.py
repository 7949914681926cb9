"""The phases of an experiment. Only they, the command and config.py see the whole config."""

PHASES = ("train", "answer", "evaluate", "judge", "report")
