"""How many digits a figure is shown with: two significant digits of its error, or three of its own without one."""

from __future__ import annotations

from collections.abc import Sequence

# A standard error, or an interval, a quarter of whose width stands for it.
Error = float | Sequence[float] | None
_MOST = 6  # decimals, as many as report.json has


def decimals(value: float, error: Error = None, even: float = 50.0) -> int:
    """The decimals of a value, and of its interval: up to two more, where an end would read as `even` and is not."""
    ends = list(error) if isinstance(error, Sequence) else []
    size = (ends[1] - ends[0]) / 4 if isinstance(error, Sequence) else error
    digits = _below_point(size, 2) if size else _below_point(value, 3)
    for more in range(digits, digits + 3):
        if not any(round(end, more) == even != end for end in ends):
            return min(more, _MOST)
    return digits


def _below_point(size: float, significant: int) -> int:
    """The decimals that show so many significant digits."""
    exponent = int(f"{size:.{significant - 1}e}".partition("e")[2])
    return min(max(significant - 1 - exponent, 0), _MOST) if size else 0


def number(value: float | None, error: Error = None, sign: bool = False) -> str:
    """A figure; `sign`: it is a difference, whose sign is shown."""
    if value is None:
        return "-"
    return f"{value:{'+' * sign}z,.{decimals(value, error, 0.0 if sign else 50.0)}f}"  # z: no -0


def span(interval: Sequence[float] | None, error: Error = None, sign: bool = False) -> str:
    """An interval; `error`: of the figure that it belongs to, if that is not this interval."""
    if interval is None:
        return "-"
    dash = " to " if sign or interval[0] < 0 else "–"
    return dash.join(number(end, error or interval, sign) for end in interval)
