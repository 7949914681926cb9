"""The colors of report.css: parts of a bar that anybody can tell apart, and text that anybody can read."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import numpy as np
import pytest

import instruct.reporting.render.html as html

STYLES = Path(html.__file__).parent / "templates"
PARTS = ("win", "tie", "split", "same", "loss", "none")

# Machado, Oliveira and Fernandes, A Physiologically-based Model for Simulation of Color Vision Deficiency, IEEE TVCG 15
# (2009), severity 1.0, on linear RGB; gray: the relative luminance of Rec. 709.
DEFICIENCIES = {
    "none": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
    "gray": [[0.2126, 0.7152, 0.0722]] * 3,
}


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


def lab(linear: np.ndarray) -> np.ndarray:
    """CIE 1976 L*a*b* of linear sRGB, white point D65."""
    matrix = [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
    ratio = np.array(matrix) @ np.clip(linear, 0, 1) / np.array([0.95047, 1.0, 1.08883])
    f = np.where(ratio > 216 / 24389, np.cbrt(ratio), (24389 / 27 * ratio + 16) / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def contrast(one: np.ndarray, other: np.ndarray) -> float:
    """WCAG 2.2's contrast ratio of two colors in linear RGB."""
    light, dark = sorted((float(np.array([0.2126, 0.7152, 0.0722]) @ each) for each in (one, other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("deficiency", DEFICIENCIES)
def test_any_two_parts_of_a_bar_differ_visibly(scheme, deficiency):
    """Any two may be neighbors, because parts without pairs are left out. 2.3 is a just noticeable difference."""
    found = colors(scheme)
    seen = {part: lab(np.array(DEFICIENCIES[deficiency]) @ found[part]) for part in PARTS}
    least = {("tie", "same"): 7.0}  # both are ties; one is dotted
    near = {
        pair: round(distance, 1)
        for pair in itertools.combinations(PARTS, 2)
        if (distance := float(np.linalg.norm(seen[pair[0]] - seen[pair[1]]))) < least.get(pair, 10.0)
    }
    assert near == {}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_the_contrast_of_wcag_aa(scheme):
    found = colors(scheme)
    pairs = [(ink, paper) for ink in ("ink", "soft", "accent") for paper in ("paper", "card", "sunk")]
    pairs += [("alert", "alert-paper"), ("ink", "alert-paper"), ("alert", "paper"), ("ink", "mark")]
    pairs += [(f"on-{part}", part) for part in PARTS]
    assert {pair: ratio for pair in pairs if (ratio := contrast(*(found[name] for name in pair))) < 4.5} == {}
    borders = [("edge", paper) for paper in ("paper", "card")]
    assert {pair: ratio for pair in borders if (ratio := contrast(*(found[name] for name in pair))) < 3} == {}
