"""The names of the objectives. It imports nothing heavy: the command's help lists them."""

import re

# With options of their own names, if any; and with `objective_args`.
NAMED = ("mle", "emo", "energy", "mixce", "tailr", "dft", "goldfish", "ent")
WITH_ARGS = ("focal", "power", "deft", "eaft", "eaft_top", "label_smoothing", "gem", "asft", "distillation")
OBJECTIVES = NAMED + WITH_ARGS
OWN = r"^[^{}]+:[A-Za-z_]\w*$"
"""A user's own: FILE.py:NAME or MODULE:NAME, see objectives/own.py."""


def is_own(name: str) -> bool:
    """Whether an objective's name is that of a user's own."""
    return re.match(OWN, name) is not None
