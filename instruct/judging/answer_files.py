"""A run that compares files of answers."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from instruct.base.errors import InputError, counted, one_line
from instruct.base.files import sha256_of, write_atomically
from instruct.base.output import say
from instruct.data.evaluation import AnswerForm, answers_name, answers_of, load_answers
from instruct.data.prompts import identity, say_unread
from instruct.data.sources import RawRow, read_file
from instruct.judging.comparison import FILES, file_name
from instruct.judging.presentations import Answers, joined
from instruct.run.directory import RunDirectory, whole_run

# A file, or rows in AlpacaEval's form.
GivenAnswers = str | Path | Iterable[Mapping[str, Any]]


def run_of_answers(
    folder: str | Path,
    candidates: Sequence[GivenAnswers],
    baseline: GivenAnswers | None,
    form: AnswerForm | None = None,
    common_prompts: bool = False,
) -> tuple[RunDirectory, list[tuple[str, str]]]:
    """A run directory, new or existing, with the answers of several systems; returns it and the pairs to compare.

    A system is called like its file, or like its generator if several files have the same name or it is given as rows.
    The answers are copied, so that the run keeps what was judged.

    Args:
        candidates: each is compared with the baseline, or without one with each other.
        form: how files are read.
        common_prompts: compare on the prompts that all systems answered, and leave out the others.

    Raises:
        InputError: unreadable answers, different prompts or clusters, systems that cannot be told apart, a folder that
            cannot be created, or one that has other answers under these names.
    """
    form = form or AnswerForm()
    given = [*candidates, *([] if baseline is None else [baseline])]
    labels = ["candidate", "baseline"] if len(given) == 2 else [f"answers {number + 1}" for number in range(len(given))]
    sides = _sides(dict(zip(labels, given, strict=True)), form)
    names = _names(sides)
    left_out = _leave_out(sides, names) if common_prompts else {}
    _check_prompts(sides, names)
    pairs = [*itertools.combinations(names, 2)] if baseline is None else [(name, names[-1]) for name in names[:-1]]
    with whole_run(folder, {}) as run:
        run.outputs.mkdir(exist_ok=True)
        for name, side in zip(names, sides, strict=True):
            kept = run.outputs / f"{name}.json"
            if not kept.is_file():
                write_atomically(kept, side.text(changed=bool(left_out.get(name)) or form != AnswerForm()))
            elif load_answers(kept) != side.rows:
                raise InputError(
                    f"{side.label}: {Path(folder) / 'outputs' / kept.name} has other answers; give another `output`, "
                    "or rename the file"
                )
        hashes = {name: sha256_of(run.outputs / f"{name}.json") for name in names}
        inputs = {"answers": hashes, "comparisons": [list(pair) for pair in pairs], "left_out": left_out}
        if not run.is_done(FILES, inputs):
            with run.step(FILES, inputs):
                pass
    return RunDirectory(folder), pairs


class _Side:
    """One system's answers: their rows, and what errors call them."""

    def __init__(self, label: str, path: Path | None, rows: list[dict[str, Any]]) -> None:
        self.label, self.path, self.rows = label, path, rows
        generators = {str(row["generator"]) for row in rows}
        # The one who made all the answers.
        self.generator = generators.pop() if len(generators) == 1 else None

    def text(self, changed: bool) -> str:
        """The text of a file that holds them; that of their own file, unless they were `changed` since."""
        if self.path is not None and self.path.suffix == ".json" and not changed:
            return self.path.read_text(encoding="utf-8")
        return json.dumps(self.rows, ensure_ascii=False, indent=2) + "\n"


def _sides(systems: Mapping[str, GivenAnswers], form: AnswerForm) -> list[_Side]:
    paths = [Path(answers).expanduser() if isinstance(answers, str | Path) else None for answers in systems.values()]
    raw = [
        list(read_file(path)) if path else _rows(label, answers)
        for path, (label, answers) in zip(paths, systems.items(), strict=True)
    ]
    renamed = form.renamed(raw)
    for rows in renamed:
        say_unread(rows, form.prompt, form.response, form.cluster)
    return [
        _Side(str(path or label), path, answers_of(rows, answers_name(path) if path else label))
        for path, label, rows in zip(paths, systems, renamed, strict=True)
    ]


def _rows(label: str, answers: Any) -> list[RawRow]:
    """The rows of answers that are no file."""
    if not isinstance(answers, Iterable) or isinstance(answers, Mapping | bytes):
        raise InputError(f"{label}: must be the path of a file or rows with instruction and output")
    rows = []
    for number, row in enumerate(answers, start=1):
        if not isinstance(row, Mapping):
            raise InputError(f"{label}, row {number}: is not a mapping; give rows with instruction and output")
        rows.append(RawRow(label, number, dict(row)))
    if not rows:
        raise InputError(f"{label}: has no rows; give at least one answer")
    return rows


def _names(sides: Sequence[_Side]) -> list[str]:
    """Each system's name: its file's; its generator's, its label's if another is called the same."""
    names = [answers_name(side.path) if side.path else side.generator or side.label for side in sides]
    for others in ([side.generator for side in sides], [None if side.path else side.label for side in sides]):
        for name in {name for name in names if names.count(name) > 1}:
            better = {place: others[place] for place, its_name in enumerate(names) if its_name == name}
            if all(better.values()):
                names = [better.get(place) or its_name for place, its_name in enumerate(names)]
    names = [file_name(name) for name in names]
    for place, name in enumerate(names):
        if name in names[:place]:
            both = f"{sides[names.index(name)].label} and {sides[place].label}"
            raise InputError(f"{both}: both are called {one_line(name, 60)!r}; rename one of the files")
    return names


def _leave_out(sides: Sequence[_Side], names: Sequence[str]) -> dict[str, list[int]]:
    """Leave out the prompts that not all systems answered; of each system, how many of how many."""
    common = set.intersection(*({identity(row) for row in side.rows} for side in sides))
    if not common:
        raise InputError(f"{', '.join(side.label for side in sides)}: no prompt is in all of them; give other files")
    left_out = {}
    for name, side in zip(names, sides, strict=True):
        rows = [row for row in side.rows if identity(row) in common]
        left_out[name] = [len(side.rows) - len(rows), len(side.rows)]
        say(f"{side.label}: {left_out[name][0]} of {counted(len(side.rows), 'prompt')} left out, not in all files")
        side.rows = rows
    return left_out


def _check_prompts(sides: Sequence[_Side], names: Sequence[str]) -> None:
    first, *others = (Answers(name, side.rows) for name, side in zip(names, sides, strict=True))
    try:
        for other in others:
            joined(first, other)
    except InputError as error:
        if len({frozenset(map(identity, side.rows)) for side in sides}) == 1:
            raise
        raise InputError(f"{error}, or compare on those that all have: `common_prompts`") from None
    clusters: dict[str, tuple[str, str]] = {}  # of prompts, with the side that has it
    for side in sides:
        for row in side.rows:
            if cluster := row.get("cluster"):
                said, whose = clusters.setdefault(identity(row), (cluster, side.label))
                if said != cluster:
                    raise InputError(
                        f"{side.label}: {one_line(identity(row), 60)!r} is in the cluster {one_line(cluster, 60)!r}, "
                        f"and in {one_line(said, 60)!r} in {whose}; correct one of them"
                    )
