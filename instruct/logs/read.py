"""Finds the logs in files and folders, and has each read by the reader of its tool."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from instruct.base.errors import InputError, one_line
from instruct.logs.inspect import read_inspect
from instruct.logs.judgments import read_alpaca_eval, read_games
from instruct.logs.lm_eval import read_lm_eval
from instruct.logs.scores import read_scores
from instruct.logs.source import Columns, Source
from instruct.logs.tables import read_table
from instruct.scores.scores import Scores


class Reader(NamedTuple):
    """How one tool's logs are read.

    `read`: the logs in a file; [] if the file belongs to logs of the tool, but has none; None if the tool did not write
    it. Raises InputError, with file, row and field, if the tool wrote it and it is not valid.
    `remedy`: what to do about a file for which `read` gives [], and no other.
    """

    tool: str
    read: Callable[[Source], list[Scores] | None]
    remedy: str = ""


# In the order in which they are asked; a table of any tool is the last.
READERS: tuple[Reader, ...] = (
    Reader("lm-eval", read_lm_eval, "evaluate with `lm_eval run --log_samples`, and give the samples_*.jsonl"),
    Reader("Inspect", read_inspect),
    Reader("alpaca_eval", read_alpaca_eval, "give the annotations.json beside it"),
    Reader("Arena-Hard, FastChat", read_games),
    Reader("instruct", read_scores),
    Reader("table", read_table),
)


class Found(NamedTuple):
    """The logs below a path that a user named, and the files there that no reader knows.

    `unknown`: why a file cannot be read, if it cannot.
    """

    path: Path
    logs: list[Scores]
    unknown: dict[Path, str | None]


def read_logs(paths: Iterable[str | Path], columns: Columns | None = None) -> list[Found]:
    """The logs in each path, a file or a folder, which is searched.

    Raises:
        InputError: no such file, an invalid log, or a path without any log.
    """
    return [_read(Path(path).expanduser(), columns or Columns()) for path in paths]


def _read(path: Path, columns: Columns) -> Found:
    if not path.exists():
        raise InputError(f"{path}: no such file or folder; give the logs of an evaluation")
    files: Sequence[Path] = [path]
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file())
    found, alone = Found(path, [], {}), ""
    for file in files:
        source = Source(file, columns)
        for reader in READERS:
            if (logs := reader.read(source)) is not None:
                found.logs.extend(logs)
                if not logs:
                    alone = alone or f"{file}: is of {reader.tool}, without the rows of a log; {reader.remedy}"
                break
        else:
            found.unknown[file] = str(source.problem) if source.problem else None
    if not found.logs and alone:
        raise InputError(alone)
    if not found.logs:
        if path.is_file() and source.problem:
            raise source.problem
        tools = ", ".join(reader.tool for reader in READERS)
        there = f": {one_line(', '.join(source.first), 200)}" if path.is_file() and source.first else ""
        raise InputError(
            f"{path}: is no log that can be read ({tools}); of a table, name the columns with its units and metrics"
            f"{there}"
        )
    return found
