"""The cards of docs/objectives are what `instruct check --all --out docs/objectives` writes."""

from __future__ import annotations

from pathlib import Path

import pytest
from pins import is_pinned

from instruct.objectives.built_in import OBJECTIVES
from instruct.objectives.check import AT, check, pull_curves, targets
from instruct.reporting.figures.objective import objective_figure
from instruct.reporting.objective_cards import Card, about, overview, target_table

FOLDER = Path(__file__).parents[2] / "docs" / "objectives"
WRITE = "write the cards again: instruct check --all --out docs/objectives"


def test_each_objective_has_a_card_with_a_small_figure_and_nothing_else_is_there():
    files = {f"{name}.{kind}" for name in OBJECTIVES for kind in ("md", "png")}
    assert {path.name for path in FOLDER.iterdir()} == {"README.md", *files}, WRITE
    assert max(path.stat().st_size for path in FOLDER.iterdir()) <= 40_000


@pytest.mark.parametrize("name", OBJECTIVES)
def test_a_card_says_what_its_docstring_and_its_gradient_say(name):
    objective, page = OBJECTIVES[name](), (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    assert page.startswith(f"# `{name}`\n\n{about(objective)}"), WRITE
    assert target_table(objective.needs, targets(objective)) in page, WRITE


@pytest.mark.skipif(not (is_pinned("matplotlib") and is_pinned("pillow")), reason="draws other pixels")
@pytest.mark.parametrize(
    "name", ["emo", *(pytest.param(name, marks=pytest.mark.slow) for name in OBJECTIVES if name != "emo")]
)
def test_a_figure_shows_the_gradient(name):
    objective = OBJECTIVES[name]()
    figure = objective_figure(name, AT, targets(objective), pull_curves(objective))
    assert figure.small_png == (FOLDER / f"{name}.png").read_bytes(), WRITE


@pytest.mark.slow
@pytest.mark.parametrize("name", ["emo", "gem", "prift"])
def test_a_card_is_what_check_finds(name):
    objective = OBJECTIVES[name]()
    card = Card(name, objective, check(objective))
    assert card.text == (FOLDER / f"{name}.md").read_text(encoding="utf-8"), WRITE
    row = overview({name: card}).splitlines()[6]
    assert row in (FOLDER / "README.md").read_text(encoding="utf-8").splitlines(), WRITE


@pytest.mark.full
def test_the_command_writes_the_cards(tmp_path, instruct):
    code, _, err = instruct("check", "--all", "--out", str(tmp_path))
    assert code == 0, err
    written, kept = ({path.name: path.read_bytes() for path in folder.iterdir()} for folder in (tmp_path, FOLDER))
    assert written == kept, WRITE
