"""The names of the objectives. It imports nothing heavy: the command's help lists them."""

import re
from collections.abc import Mapping
from typing import Any

# The objectives, each with the options that are arguments of its class: by argument, the name in EMOConfig.
# `objective_args` has any argument by its own name.
OPTIONS: dict[str, dict[str, str]] = {
    "mle": {},
    "emo": {"variant": "emo_variant", "emphasis": "emo_emphasis"},
    "energy": {"weight": "energy_weight", "dim": "energy_dim"},
    "mixce": {"gamma": "gamma"},
    "tailr": {"gamma": "gamma", "variant": "tailr_variant"},
    "dft": {},
    "ent": {"threshold": "ent_threshold"},
    "focal": {},
    "power": {},
    "deft": {},
    "eaft": {},
    "eaft_top": {},
    "idft": {},
    "label_smoothing": {},
    "gem": {},
    "asft": {},
    "frozen": {},
    "gift": {},
    "target_sft": {},
    "tofu": {},
    "brier": {},
    "spherical": {},
}
OBJECTIVES = tuple(OPTIONS)
OWN = r"^[^{}]+:[A-Za-z_]\w*$"
"""A user's own: FILE.py:NAME or MODULE:NAME, see objectives/make.py."""


def objective_arguments(objective: str, options: Mapping[str, Any], args: Mapping[str, Any] | None) -> dict[str, Any]:
    """The arguments of an objective: EMOConfig's options that stand for one, and `objective_args` over them."""
    return {name: options[option] for name, option in OPTIONS.get(objective, {}).items()} | dict(args or {})


def is_own(name: str) -> bool:
    """Whether an objective's name is that of a user's own."""
    return re.match(OWN, name) is not None
