"""What a verb prints: text for people, one JSON document (`--json`), or the result alone (`--quiet`)."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from instruct.base.errors import InstructError

if TYPE_CHECKING:
    from rich.progress import Progress


class Result(NamedTuple):
    """What a verb found.

    Attributes:
        data: for `--json`: anything that pydantic can write as JSON.
        line: for `--quiet`: the result in a line, "" if the verb's purpose is not a result.
        text: printed at the end otherwise, "" if the verb printed everything as it went.
        failure: what to end with after printing.
    """

    data: Any
    line: str = ""
    text: str = ""
    failure: InstructError | None = None


@contextlib.contextmanager
def progress_kept_apart(json: bool, quiet: bool) -> Iterator[None]:
    """Keep what is printed meanwhile off stdout if a document is to be printed there, and off the terminal if `quiet`.

    What libraries and child processes write to the file descriptor of stdout is kept off it, too.
    """
    if not (json or quiet):
        yield
        return
    with contextlib.ExitStack() as stack:
        aside: TextIO = sys.stderr
        if quiet:
            aside = stack.enter_context(open(os.devnull, "w"))
            stack.enter_context(contextlib.redirect_stderr(aside))
        if sys.__stdout__ is not None and sys.stdout is sys.__stdout__:
            stack.enter_context(_descriptor_redirected(sys.__stdout__.fileno(), aside.fileno()))
        stack.enter_context(contextlib.redirect_stdout(aside))
        yield


@contextlib.contextmanager
def _descriptor_redirected(descriptor: int, target: int) -> Iterator[None]:
    sys.stdout.flush()
    kept = os.dup(descriptor)
    os.dup2(target, descriptor)
    try:
        yield
    finally:
        os.dup2(kept, descriptor)
        os.close(kept)


def progress_bar() -> Progress:
    """A bar on stderr: description, how many of how many, the time left."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    # As text in a notebook, too: there, rich calls itself without end as soon as anything else writes to stderr.
    return Progress(*columns, console=Console(stderr=True, force_jupyter=False))


def show(result: Result, json: bool, quiet: bool) -> None:
    """Print a verb's result in the form that the call asks for."""
    if json:
        import pydantic_core

        print(pydantic_core.to_json(result.data, indent=2, inf_nan_mode="null").decode())
        return
    text = result.line if quiet else result.text
    if text:
        print(wrapped(text.removesuffix("\n")))


def terminal_width() -> int | None:
    """The columns of the terminal that stdout is; None for a file or a pipe, whose lines are not to be broken."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def say(line: str) -> None:
    """Print a line as work goes on, broken to fit the terminal."""
    print(wrapped(line), flush=True)


def wrapped(text: str) -> str:
    """Text whose lines fit the terminal: longer ones are broken between words, and indented from their second line."""
    width = terminal_width()
    if width is None:
        return text
    lines = []
    for line in text.split("\n"):
        named = re.match(r"\w+ {2,}", line)  # a line of a plan: a name, and what follows in a column of its own
        indent = " " * (named.end() if named else len(line) - len(line.lstrip()) + 2)
        lines += textwrap.wrap(
            line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False,
        ) if len(line) > width else [line]  # fmt: skip
    return "\n".join(lines)
