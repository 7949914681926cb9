"""The commands in README.md and docs/ are valid, and so is the example of an objective."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from study import recipe_arguments

from instruct.command.main import make_parser, parse_arguments
from instruct.config import load_config

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^```(bash|python)\n(.*?)^```$|((?:^    [^\n]*\n)+)", re.MULTILINE | re.DOTALL)


def blocks(page: Path, language: str) -> list[str]:
    """The page's code blocks in a language; those without one, indented, count as bash."""
    found = BLOCK.findall(page.read_text(encoding="utf-8"))
    return [code or re.sub(r"^    ", "", indented, flags=re.MULTILINE) for named, code, indented in found
            if (named or "bash") == language]  # fmt: skip


def commands(program: str) -> list[tuple[str, str]]:
    """(page, command) of every call of a program, continued lines joined."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md"))]
    lines = [
        (str(page.relative_to(ROOT)), line)
        for page in pages
        for block in blocks(page, "bash")
        for line in block.replace("\\\n", " ").splitlines()
    ]
    found = [(page, re.search(rf"(?:^|\s){re.escape(program)} (.*)", line)) for page, line in lines]
    return list(dict.fromkeys((page, match.group(1)) for page, match in found if match and "…" not in match.group(1)))


INSTRUCT, RECIPES = commands("instruct"), commands("recipes/alpaca_emo.py")


@pytest.mark.parametrize(("page", "command"), INSTRUCT)
def test_commands_are_valid(page, command):
    command = re.split(r" \| | 2>&1", command)[0]
    tokens = shlex.split(command, comments=True)
    arguments = parse_arguments(make_parser(), tokens)
    if arguments.overrides:
        load_config("demo", arguments.overrides)


@pytest.mark.parametrize(("page", "command"), RECIPES)
def test_recipe_commands_are_valid(page, command):
    arguments, overrides = recipe_arguments(None, shlex.split(command, comments=True))
    if arguments.config != "FILE":
        load_config(arguments.config or "demo", overrides)


def test_the_examples_of_an_objective_run():
    names: dict = {"__name__": "my_loss"}
    for code in blocks(ROOT / "docs" / "objectives.md", "python"):
        exec(code, names)
    assert names["config"].objective == "my_loss:EntropyBonus"
    assert names["hidden"].grad is not None
