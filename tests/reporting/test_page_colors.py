"""The colors of report.css: parts of a bar that anybody can tell apart, and text that anybody can read."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import instruct.reporting.render.html as html

STYLES = Path(html.__file__).parent / "templates"
PARTS = ("win", "tie", "split", "same", "loss", "none")

# Machado, Oliveira and Fernandes, A Physiologically-based Model for Simulation of Color Vision Deficiency, IEEE TVCG 15
# (2009), severity 1.0, on linear RGB; gray: the relative luminance of Rec. 709.


def colors(scheme: str) -> dict[str, np.ndarray]:
    """The colors of a scheme, light or dark, by variable: linear RGB from 0 to 1."""
    text = (STYLES / "report.css").read_text(encoding="utf-8").split("* {", maxsplit=1)[0]
    found: dict[str, np.ndarray] = {}
    for name, value in re.findall(r"--([a-z-]+): ([^;]+);", text):
        if source := re.fullmatch(r"var\(--([a-z-]+)\)", value):
            found[name] = found[source[1]]
            continue
        both = re.findall(r"#([0-9a-f]{6})", value)
        code = both[-1 if scheme == "dark" else 0]
        channel = np.array([int(code[place : place + 2], 16) for place in (0, 2, 4)]) / 255
        found[name] = np.where(channel <= 0.04045, channel / 12.92, ((channel + 0.055) / 1.055) ** 2.4)
    return found


def contrast(one: np.ndarray, other: np.ndarray) -> float:
    """WCAG 2.2's contrast ratio of two colors in linear RGB."""
    light, dark = sorted((float(np.array([0.2126, 0.7152, 0.0722]) @ each) for each in (one, other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_the_contrast_of_wcag_aa(scheme):
    found = colors(scheme)
    pairs = [(ink, paper) for ink in ("ink", "soft", "accent") for paper in ("paper", "card", "sunk")]
    pairs += [("alert", "alert-paper"), ("ink", "alert-paper"), ("alert", "paper"), ("ink", "mark")]
    pairs += [(f"on-{part}", part) for part in PARTS]
    assert {pair: ratio for pair in pairs if (ratio := contrast(*(found[name] for name in pair))) < 4.5} == {}
    borders = [("edge", paper) for paper in ("paper", "card")]
    assert {pair: ratio for pair in borders if (ratio := contrast(*(found[name] for name in pair))) < 3} == {}
