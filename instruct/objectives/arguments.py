"""Checks of the objectives' arguments."""

from __future__ import annotations

import math
from typing import Any, get_args


def require(holds: bool, otherwise: str) -> None:
    """Raises:
    ValueError: an argument is not what it has to be; `otherwise` says so.
    """
    if not holds:
        raise ValueError(otherwise)


def require_at_least_0(name: str, value: float) -> None:
    require(0 <= value < math.inf, f"{name} is {value}; it must be a number of at least 0")


def require_share(name: str, value: float) -> None:
    require(0 <= value <= 1, f"{name} is {value}; it must lie between 0 and 1")


def require_choice(name: str, value: str, choices: Any) -> None:
    *others, last = get_args(choices)
    require(value in (*others, last), f"unknown {name} {value!r}; use {', '.join(others)} or {last}")
