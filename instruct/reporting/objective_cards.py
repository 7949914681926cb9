"""A page for each objective: what it is, from its docstring, and what `instruct check` finds."""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from instruct.base.files import write_atomically
from instruct.objectives.built_in import Frozen, frozen_form
from instruct.objectives.check import AT, END, RARE, Checked, Target, pull_curves
from instruct.objectives.objective import Objective
from instruct.reporting.figures.objective import objective_figure

_WRITTEN = "\n<!-- written by instruct check -->\n"
_SECTION = re.compile(r"^(Args|Raises|Attributes|Returns):\n", re.MULTILINE)
_ADDRESS = re.compile(r"(?<![\w/])((?:github\.com|\w+\.github\.io)/[\w./-]*\w)")


@dataclass(frozen=True)
class Card:
    """What is known of an objective. `name`: as in a config; FILE.py:NAME of a user's own."""

    name: str
    objective: Objective
    checked: Checked

    @property
    def stem(self) -> str:
        """Of its files."""
        return self.name.rpartition(":")[2]

    @cached_property
    def png(self) -> bytes:
        """The figure of its targets and pulls."""
        return objective_figure(self.stem, AT, self.checked.targets, pull_curves(self.objective)).small_png

    def write(self, folder: Path) -> Path:
        """The page and its figure; the page's path."""
        write_atomically(folder / f"{self.stem}.png", self.png)
        write_atomically(folder / f"{self.stem}.md", self.text)
        return folder / f"{self.stem}.md"

    @property
    def text(self) -> str:
        """The page in Markdown."""
        image = f"![{self.stem}: where its gradient leads, and its pull on the label]({self.stem}.png)\n"
        parts = [f"# `{self.stem}`\n", about(self.objective), " ".join(self._sentences()) + "\n", image]
        return "\n".join([*parts, target_table(self.checked.needs, self.checked.targets), self._end_table()]) + _WRITTEN

    def _sentences(self) -> list[str]:
        behavior, pull = self.checked.behavior, self.checked.pull
        said = [f"**{behavior.kind.capitalize()}**{behavior.words.removeprefix(behavior.kind)}."]
        if self.checked.reference:
            model = f"the reference model (`{self.checked.reference}`)"
            said = [f"**No claim**: it depends on {model}. With {self.checked.stand_in}: {behavior.words}."]
        if pull.vanishes:
            said.append("A label that the model finds all but impossible is hardly learned.")
        if isinstance(self.objective, Frozen):
            said.append("`a` does not follow the model that is trained: the optimum is q ∝ p · a(p_ref), p the data.")
        elif rule := frozen_form(self.objective):
            said.append(
                f"Read from a frozen model (`frozen`, rule `{rule.rule}`), `a` does not follow the model that is "
                "trained: the optimum is then q ∝ p · a(p_ref), p the data."
            )
        return said

    def _end_table(self) -> str:
        behavior = self.checked.behavior
        ends, truth = (" ".join(f"{h:.2f}" for h in found) for found in (behavior.entropy, behavior.truth_entropy))
        return _table(
            ["where training ends", "here", "in truth"],
            [
                ["entropy, flat to peaked contexts (nats)", ends, truth],
                [f"left to tokens below {RARE:g}", f"{behavior.rare:.2f}", "1"],
                ["probability of an end token", f"{_number(behavior.end)}: {behavior.length}", f"{END:g}"],
                [
                    "distance from the truth with a tenth of the labels drawn at random (nats)",
                    f"{behavior.noise:.4f}; cross-entropy: {self.checked.cross_entropy_noise:.4f}",
                    "0",
                ],
            ],
        )


def about(objective: Objective) -> str:
    """What its docstring says, and its arguments."""
    text, *sections = _SECTION.split(inspect.cleandoc(type(objective).__doc__ or ""))
    arguments = dict(zip(sections[::2], sections[1::2], strict=True)).get("Args", "")
    meanings = {
        name: " ".join(meaning.split())
        for name, meaning in re.findall(r"^ {4}(\w+): (.*(?:\n {5,}.*)*)", arguments, re.MULTILINE)
    }
    parameters = inspect.signature(type(objective)).parameters.values()
    rows = [
        [
            f"`{parameter.name}`",
            f"`{getattr(objective, parameter.name, parameter.default)!r}`",
            meanings.get(parameter.name, ""),
        ]
        for parameter in parameters
    ]
    text = re.sub(r"arXiv (\d{4}\.\d{5})", r"[arXiv \1](https://arxiv.org/abs/\1)", text.strip())
    text = _ADDRESS.sub(r"[\1](https://\1)", text) + "\n"
    return "\n".join([text, _table(["argument", "here", "meaning"], rows)]) if rows else text


def target_table(needs: Collection[str], targets: Mapping[str, Target]) -> str:
    """What the gradient leads to in each situation, from the model's share to the target's."""
    parts = ["label", "rival", *(["near token", "far token"] if "cost" in needs else [])]
    frozen = [f"label if p_ref(y) = {p:g}" for p in next(iter(targets.values())).by_reference]
    rows = [[situation, *_target_cells(target, len(parts))] for situation, target in targets.items()]
    return _table(["situation", *parts, "pull", *frozen], rows)


def _target_cells(target: Target, parts: int) -> list[str]:
    moves = [f"{_number(p)} → {_number(q)}" for p, q in zip(target.model[:parts], target.target[:parts], strict=True)]
    return [*moves, _number(target.pull), *map(_number, target.by_reference.values())]


def overview(cards: Mapping[str, Card]) -> str:
    """One table of all cards, in Markdown."""
    rows = []
    for name, card in cards.items():
        behavior, noisy = card.checked.behavior, card.checked.targets["wrong, or a noisy label"]
        kind = f"no claim; with {card.checked.stand_in}: {behavior.kind}" if card.checked.reference else behavior.kind
        length = "" if behavior.end < END / 1000 else f"{1 / behavior.end:.0f}"
        numbers = [f"{behavior.rare:.2f}", length, f"{behavior.noise:.4f}", _number(card.checked.pull.spread[0])]
        rows.append([f"[`{name}`]({name}.md)", kind, *numbers, _number(noisy.target[0])])
    header = [
        f"left to tokens below {RARE:g}",
        f"length of texts of {1 / END:.0f}",
        "distance with 10 % noise",
        "pull on a label of .0001",
    ]
    words = "[What the figures mean](../objectives.md#check-an-objective). No length: texts hardly end.\n"
    table = _table(["objective", "class", *header, f"a noisy label of {noisy.model[0]:g} leads to"], rows)
    return f"# Cards of the objectives\n\n{words}\n{table}{_WRITTEN}"


def _table(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _number(value: float) -> str:
    """With three digits, and at most four decimals."""
    return f"{round(value, 4) + 0.0:.3g}"
