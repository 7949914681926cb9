"""The names of the objectives. It imports nothing heavy: the command's help lists them."""

import re

OBJECTIVES = (
    "mle",
    "emo",
    "energy",
    "mixce",
    "tailr",
    "dft",
    "ent",
    "focal",
    "power",
    "deft",
    "eaft",
    "eaft_top",
    "idft",
    "label_smoothing",
    "gem",
    "asft",
    "frozen",
    "gift",
    "target_sft",
    "tofu",
    "brier",
    "spherical",
)
OWN = r"^[^{}]+:[A-Za-z_]\w*$"
"""A user's own: FILE.py:NAME or MODULE:NAME, see objectives/make.py."""


def is_own(name: str) -> bool:
    """Whether an objective's name is that of a user's own."""
    return re.match(OWN, name) is not None
