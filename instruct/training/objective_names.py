"""The names of the objectives. It imports nothing heavy: the command's help lists them."""

import re

# Their arguments are `objective_args`, as those of a user's own.
WITH_ARGUMENTS = ("focal", "power", "deft", "eaft", "label_smoothing")
OBJECTIVES = ("mle", "emo", "energy", "mixce", "tailr", "dft", "goldfish", "ent", *WITH_ARGUMENTS)
OWN = r"^[^{}]+:[A-Za-z_]\w*$"
"""A user's own: FILE.py:NAME or MODULE:NAME, see objectives/own.py."""


def is_own(name: str) -> bool:
    """Whether an objective's name is that of a user's own."""
    return re.match(OWN, name) is not None
