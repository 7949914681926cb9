"""A run that compares two files of answers."""

from __future__ import annotations

from pathlib import Path

from instruct.data.evaluation import load_answers
from instruct.errors import InputError, one_line
from instruct.judging.presentations import Answers, joined
from instruct.runs import RunDirectory, whole_run, write_atomically


def run_of_files(folder: str | Path, candidate: str | Path, baseline: str | Path) -> tuple[RunDirectory, str, str]:
    """A run directory, new or existing, with the answers of two files; returns it and the names of the two systems.

    A system is called like its file, or like its generator if both files have the same name. The files are copied, so
    that the run keeps what was judged.

    Raises:
        InputError: unreadable answers, different prompts, systems that cannot be told apart, a folder that cannot be
            created, or one that has other answers under these names.
    """
    files = [Path(each).expanduser() for each in (candidate, baseline)]
    rows = [load_answers(path) for path in files]
    names = _names(files, [{str(row["generator"]) for row in answers} for answers in rows])
    joined(*(Answers(name, answers) for name, answers in zip(names, rows, strict=True)))
    with whole_run(folder, {}) as run:
        run.outputs.mkdir(exist_ok=True)
        for name, path in zip(names, files, strict=True):
            kept = run.outputs / f"{name}.json"
            text = path.read_text(encoding="utf-8")
            if kept.is_file() and kept.read_text(encoding="utf-8") != text:
                raise InputError(
                    f"{path}: {Path(folder) / 'outputs' / kept.name} has other answers; give another --output, or "
                    "rename the file"
                )
            write_atomically(kept, text)
    return RunDirectory(folder), names[0], names[1]


def _names(files: list[Path], generators: list[set[str]]) -> list[str]:
    names = [path.name.removesuffix(path.suffix).removesuffix(".model_outputs") for path in files]
    if names[0] == names[1] and all(len(each) == 1 for each in generators):
        names = [next(iter(each)).replace("/", "-") for each in generators]
    if names[0] == names[1]:
        raise InputError(
            f"{files[0]} and {files[1]}: both are called {one_line(names[0], 60)!r}; rename one of the files"
        )
    return names
