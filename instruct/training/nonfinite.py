"""A NaN or infinite loss."""

from __future__ import annotations

from instruct.base.errors import InstructError


class NonFiniteLossError(InstructError, FloatingPointError):
    """The loss or the gradient is NaN or infinite, and another step would ruin the weights. Exit code 1."""
