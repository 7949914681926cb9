"""The package's one logger, and what a command prints: text, one JSON document (`--json`) or a line (`--quiet`)."""

from __future__ import annotations

import contextlib
import errno
import functools
import io
import logging
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TextIO

from instruct.base.errors import InputErrors, InstructError, one_line
from instruct.base.interrupts import INTERRUPTED, watched_interrupts

if TYPE_CHECKING:
    from rich.console import Console
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


class Finding(NamedTuple):
    """One line of the diagnosis. A warning limits what can be done; an error must be fixed first."""

    what: str
    state: Literal["ok", "warning", "error"]
    text: str
    remedy: str = ""


_LOG = logging.getLogger("instruct")


def say(line: str) -> None:
    """Log what is being done: a command prints it, Python is quiet unless its logging shows level INFO."""
    _LOG.info(line)


def warn(line: str) -> None:
    """Log what the user should know about a result."""
    _LOG.warning(line)


@functools.cache
def log_once(log: Callable[[str], None], line: str) -> None:
    """`say` or `warn` a line that this process has not logged."""
    log(line)


class _Lines(logging.Handler):
    """Prints the package's log: a command's progress on stdout, or on stderr if a document goes to stdout."""

    def __init__(self, json: bool, quiet: bool, word: Callable[[str], str]) -> None:
        super().__init__()
        self.json, self.quiet, self.word = json, quiet, word

    def emit(self, record: logging.LogRecord) -> None:
        if not self.quiet:
            aside = self.json or record.levelno >= logging.WARNING
            print(wrapped(self.word(record.getMessage())), file=sys.stderr if aside else sys.stdout, flush=True)


@contextlib.contextmanager
def printed_log(json: bool = False, quiet: bool = False, word: Callable[[str], str] = str) -> Iterator[None]:
    """Print the package's log meanwhile, as a command does.

    With `json` or `quiet`, what libraries and child processes write to stdout is kept off it; with `quiet`, what they
    write to stderr, too. Of several training processes only the main one prints.
    """
    handler = _Lines(json, quiet or not _is_main(), word)
    state = _LOG.level, _LOG.propagate, _LOG.handlers
    _LOG.propagate, _LOG.handlers = False, [handler]
    _LOG.setLevel(logging.INFO)
    try:
        with contextlib.ExitStack() as stack:
            if quiet or not _is_main():
                aside = stack.enter_context(open(os.devnull, "w"))
                for stream in (sys.__stdout__, sys.__stderr__) if quiet else (sys.__stdout__,):
                    stack.enter_context(_redirected(stream, aside.fileno()))
            elif json and sys.__stderr__ is not None:
                stack.enter_context(_redirected(sys.__stdout__, 2))
            yield
    finally:
        level, _LOG.propagate, _LOG.handlers = state
        _LOG.setLevel(level)


class _Lasting(io.FileIO):
    """Stdout or stderr that never ends the work: what is printed after its reader has gone is lost, and said to be."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            if error.errno not in (errno.EPIPE, errno.EIO):  # EIO: of a terminal that was closed
                raise
            if self.fileno() == 1:
                with contextlib.suppress(OSError):
                    os.write(2, b"instruct: nobody reads stdout any more; the work goes on\n")
            return len(data)


def make_streams_last() -> None:
    """Let nothing that is printed end the process's work: a closed pipe, a closed stream, a character not in its code.

    A closed descriptor is opened first, because the next file that is opened would have its number.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        stream = getattr(sys, name)
        if stream is not getattr(sys, f"__{name}__"):  # a test's, or a notebook's
            continue
        if isinstance(getattr(getattr(stream, "buffer", None), "raw", None), _Lasting):
            continue
        if stream is not None:
            stream.flush()
        lasting = io.TextIOWrapper(
            io.BufferedWriter(_Lasting(descriptor, "wb", closefd=False)),
            stream.encoding if stream is not None else "utf-8",
            "backslashreplace",
            line_buffering=stream is None or stream.line_buffering,
            write_through=stream is not None and stream.write_through,
        )
        setattr(sys, name, lasting)
        setattr(sys, f"__{name}__", lasting)


def _is_main() -> bool:
    """Whether this is the only process, or the main one of a launch."""
    return os.environ.get("RANK", "0") == "0"


@contextlib.contextmanager
def _redirected(stream: TextIO | None, target: int) -> Iterator[None]:
    """Let the file descriptor of stdout or stderr lead to another one; one that Python does not own is left alone."""
    if stream is None or stream not in (sys.stdout, sys.stderr):
        yield
        return
    stream.flush()
    kept = os.dup(stream.fileno())
    os.dup2(target, stream.fileno())
    try:
        yield
    finally:
        stream.flush()
        os.dup2(kept, stream.fileno())
        os.close(kept)


def console() -> Console:
    """A rich console that prints where the log is printed, for tables and colors."""
    from rich.console import Console

    handler = next((handler for handler in _LOG.handlers if isinstance(handler, _Lines)), None)
    # A pipe gets each line as it is; a terminal wraps it.
    return Console(soft_wrap=True, stderr=bool(handler and handler.json), quiet=bool(handler and handler.quiet))


def progress_bar() -> Progress:
    """A bar on stderr: description, how many of how many, the time taken and left. A description is shown as it is.

    A pipe gets a line when a task begins, and the bar when it ends.
    """
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    class Bar(Progress):
        def add_task(self, description: str, *positional: Any, **named: Any) -> Any:
            if not self.console.is_terminal:
                self.console.print(f"{description} …", markup=False, highlight=False, soft_wrap=True)
            return super().add_task(description, *positional, **named)

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    # As text in a notebook, too: there, rich calls itself without end as soon as anything else writes to stderr.
    quiet = any(isinstance(handler, _Lines) and handler.quiet for handler in _LOG.handlers)
    console = Console(stderr=True, force_jupyter=False, quiet=quiet)
    return Bar(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=console)


@contextlib.contextmanager
def progress(title: str, total: int) -> Iterator[Callable[[int], None]]:
    """A progress bar of one task; what is yielded advances it."""
    with progress_bar() as bar:
        task = bar.add_task(title, total=total)
        yield lambda number: bar.advance(task, number)


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


def wrapped(text: str) -> str:
    """Text whose lines fit the terminal: longer ones are broken between words, and indented from their second line."""
    width = terminal_width()
    if width is None:
        return text
    lines = []
    for line in text.split("\n"):
        named = re.match(r"\w+ {2,}", line)  # a line of a plan: a name, and what follows in a column of its own
        indent = " " * (named.end() if named else len(line) - len(line.lstrip()) + 2)
        if len(line) > width:
            lines += textwrap.wrap(
                line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
            )
        else:
            lines.append(line)
    return "\n".join(lines)


# As safetensors, datasets and SQLite say it.
_FULL_DISK = r"os error 28\)|Not enough disk space|No space left on device|database or disk is full"


def run_guarded(
    work: Callable[[], Result | None], json: bool = False, quiet: bool = False, word: Callable[[str], str] = str
) -> int:
    """Run `work` as a command: print its log and its result, and end with one line on stderr where the user can act.

    Args:
        word: rewords each line and error that is printed, not the result.

    Returns:
        The process's exit code: 0 done, 1 the work failed, 2 the call was wrong, 3 a budget or failures stopped it,
        4 a report is below `--fail-under`, 5 no verdict of a judge could be read, 130 interrupted.
    """
    # No telemetry that the user did not ask for, and no library chatter around the lines that matter.
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    make_streams_last()
    try:
        with watched_interrupts():
            with printed_log(json, quiet, word):
                result = work()
            if result is not None and _is_main():
                show(result, json, quiet)
                sys.stdout.flush()
        if result is not None and result.failure:
            raise result.failure
    except InstructError as error:
        for problem in error.problems if isinstance(error, InputErrors) else [error]:
            print(f"instruct: {one_line(word(str(problem)), 1000)}", file=sys.stderr)
        return error.exit_code
    except ModuleNotFoundError as error:
        from instruct.base.machine import missing_package  # takes a third of the time in which the help is printed

        needed = missing_package(error)
        if needed is None:
            raise
        print(f"instruct: {needed}", file=sys.stderr)
        return needed.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except SystemExit as error:  # of a library, or of a user's code: the work is not done
        print(f"instruct: the work ended itself (SystemExit: {one_line(error, 100)})", file=sys.stderr)
        return 1
    except Exception as error:
        cause: BaseException | None = error
        while cause is not None:  # libraries raise their own from it, some with its text alone
            if getattr(cause, "errno", None) in (errno.ENOSPC, errno.EDQUOT) or re.search(_FULL_DISK, str(cause)):
                print("instruct: the disk is full; free disk space and rerun the command to resume", file=sys.stderr)
                return 1
            cause = cause.__cause__ or cause.__context__
        if isinstance(error, RuntimeError) and str(error).startswith("Symlink loop"):  # pathlib's, before Python 3.13
            print(f"instruct: {one_line(error)}; correct the path", file=sys.stderr)
            return 2
        if isinstance(error, FileNotFoundError) and not os.path.exists("."):
            print("instruct: the working directory was deleted; change to another folder", file=sys.stderr)
            return 2
        if not isinstance(error, OSError) or error.filename is None:  # not about a file that the user could correct
            raise
        reason = one_line(error.strerror, 100)
        print(
            f"instruct: {one_line(error.filename, 300)}: {reason}; correct the path, or its permissions",
            file=sys.stderr,
        )
        return 2
    return 0
