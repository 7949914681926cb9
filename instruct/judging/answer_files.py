"""A run that compares two sets of answers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from instruct.base.errors import InputError, one_line
from instruct.base.files import write_atomically
from instruct.data.evaluation import answers_of, load_answers
from instruct.data.sources import RawRow
from instruct.judging.presentations import Answers, joined
from instruct.run.directory import RunDirectory, whole_run

# A file, or rows in AlpacaEval's form.
GivenAnswers = str | Path | Iterable[Mapping[str, Any]]


def run_of_answers(
    folder: str | Path, candidate: GivenAnswers, baseline: GivenAnswers
) -> tuple[RunDirectory, str, str]:
    """A run directory, new or existing, with two systems' answers; returns it and the names of the systems.

    A system is called like its file, or like its generator if both files have the same name or it is given as rows. The
    answers are copied, so that the run keeps what was judged.

    Raises:
        InputError: unreadable answers, different prompts, systems that cannot be told apart, a folder that cannot be
            created, or one that has other answers under these names.
    """
    sides = [_Side(given, name) for given, name in ((candidate, "candidate"), (baseline, "baseline"))]
    names = _names(sides)
    joined(*(Answers(name, side.rows) for name, side in zip(names, sides, strict=True)))
    with whole_run(folder, {}) as run:
        run.outputs.mkdir(exist_ok=True)
        for name, side in zip(names, sides, strict=True):
            kept = run.outputs / f"{name}.json"
            if kept.is_file() and kept.read_text(encoding="utf-8") != side.text:
                raise InputError(
                    f"{side.label}: {Path(folder) / 'outputs' / kept.name} has other answers; give another --output, "
                    "or rename the file"
                )
            write_atomically(kept, side.text)
    return RunDirectory(folder), names[0], names[1]


class _Side:
    """One system's answers: their rows, the text of a file that holds them, and what errors call them."""

    def __init__(self, given: GivenAnswers, name: str) -> None:
        self.path = Path(given).expanduser() if isinstance(given, str | Path) else None
        if self.path is not None:
            self.label = str(self.path)
            self.rows = load_answers(self.path)
        elif isinstance(given, Iterable) and not isinstance(given, Mapping | bytes):
            self.label = name
            self.rows = answers_of([_row(name, number, row) for number, row in enumerate(given, start=1)], name)
            if not self.rows:
                raise InputError(f"{name}: has no rows; give at least one answer")
        else:
            raise InputError(f"{name}: must be the path of a file or rows with instruction and output")
        self.generators = list(dict.fromkeys(str(row["generator"]) for row in self.rows))
        if self.path is not None and self.path.suffix == ".json":
            self.text = self.path.read_text(encoding="utf-8")
        else:
            self.text = json.dumps(self.rows, ensure_ascii=False, indent=2) + "\n"

    @property
    def generator(self) -> str | None:
        """The one who made all the answers, as part of a file's name."""
        return self.generators[0].replace("/", "-") if len(self.generators) == 1 else None


def _row(origin: str, number: int, row: Any) -> RawRow:
    if not isinstance(row, Mapping):
        raise InputError(f"{origin}, row {number}: is not a mapping; give rows with instruction and output")
    return RawRow(origin, number, dict(row))


def _names(sides: list[_Side]) -> list[str]:
    names = [
        (side.generator or side.label)
        if side.path is None
        else side.path.name.removesuffix(side.path.suffix).removesuffix(".model_outputs")
        for side in sides
    ]
    generators = [side.generator for side in sides]
    if names[0] == names[1] and all(generators):
        names = [name for name in generators if name is not None]
    if names[0] == names[1] and not any(side.path for side in sides):
        names = [side.label for side in sides]
    if names[0] == names[1]:
        both = f"{sides[0].label} and {sides[1].label}"
        raise InputError(f"{both}: both are called {one_line(names[0], 60)!r}; rename one of the files")
    return names
