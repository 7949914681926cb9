"""The figures: valid PNG and SVG, the counts in them, and foreign names that only show."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import matplotlib as mpl
import pytest
from PIL import Image

from instruct.reporting.comparison import tally_figures
from instruct.reporting.plots import draw_comparisons
from instruct.reporting.statistics import Tally


def judge_of(*tallies, candidate="emo", baseline="mle", **changes):
    comparisons = [
        {
            "candidate": candidate,
            "baseline": baseline,
            "leading": "strict",
            "policies": {"strict": tally_figures(counts)},
            "partial": False,
        }
        for counts in tallies
    ]
    return {"name": "j", "model": "m", "warning": None, "comparisons": comparisons} | changes


def texts_of(path):
    """What the figure says: matplotlib leaves each text as a comment beside its outlines."""
    ElementTree.parse(path)
    return re.findall(r"<!-- (.*?) -->", path.read_text(encoding="utf-8"), re.DOTALL)


def test_both_files_are_images_with_the_counts_inside(tmp_path):
    draw_comparisons(judge_of(Tally(41, 13, 27, 3, 1), Tally(8, 0, 92)), tmp_path / "f" / "figure")
    with Image.open(tmp_path / "f" / "figure.png") as image:
        image.load()
        assert image.format == "PNG"
        assert image.width == 1600
        colours = {colour for _, colour in image.convert("RGB").getcolors(1 << 24)}
    assert {(0x00, 0x72, 0xB2), (0xDD, 0xDD, 0xDD), (0xE6, 0x9F, 0x00), (0x77, 0x77, 0x77)} <= colours
    texts = texts_of(tmp_path / "f" / "figure.svg")
    assert {"41", "13", "27", "4", "8", "92", "Verdicts of j", "emo vs mle", "n = 81", "n = 100"} <= {*texts}
    assert texts.count("0") == 1  # the axis: no part of a bar is labelled with none


def test_the_warning_and_a_partial_comparison_are_on_the_figure(tmp_path):
    judge = judge_of(Tally(3, 2, 1), warning="proves the plumbing, not the models")
    judge["comparisons"][0]["partial"] = True
    draw_comparisons(judge, tmp_path / "figure")
    texts = texts_of(tmp_path / "figure.svg")
    assert "proves the plumbing, not the models" in texts
    assert "n = 6, PARTIAL" in texts


@pytest.mark.parametrize(
    "name",
    ["$x^2$ \\frac{1}{0}", "--><script>alert(1)</script>", "&<>\"'", "_hidden", "\u202e\x00\n模型 😀", "W" * 500, ""],
)
def test_foreign_names_only_show(tmp_path, name):
    judge = judge_of(Tally(3, 2, 1), candidate=name, baseline=name, name=name, model=name, warning=name)
    draw_comparisons(judge, tmp_path / "figure")
    root = ElementTree.parse(tmp_path / "figure.svg").getroot()
    assert not [element.tag for element in root.iter() if element.tag.endswith(("script", "image", "foreignObject"))]
    with Image.open(tmp_path / "figure.png") as image:
        assert image.width == 1600


@pytest.mark.parametrize("counts", [Tally(), Tally(failed=9), Tally(win=1), Tally(1, 1, 800, 1, 1)])
def test_lopsided_counts_are_drawn(tmp_path, counts):
    draw_comparisons(judge_of(counts), tmp_path / "figure")
    texts = texts_of(tmp_path / "figure.svg")
    parts = [counts.win, counts.tie, counts.loss, counts.unread]
    assert {str(part) for part in parts if part} <= {*texts}
    # once in the legend, once where the win rate would stand
    assert texts.count("no verdict") == (1 if counts.n_judged else 2)


def test_the_settings_of_the_caller_stay(tmp_path):
    before = dict(mpl.rcParams)
    draw_comparisons(judge_of(Tally(3, 2, 1)), tmp_path / "figure")
    assert dict(mpl.rcParams) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["figure.png", "figure.svg"]
