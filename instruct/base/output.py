"""The package's one logger, and what a command prints: text, one JSON document (`--json`) or a line (`--quiet`)."""

from __future__ import annotations

import contextlib
import errno
import functools
import logging
import os
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TextIO

from instruct.base import run_log
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
        self.bar: Progress | None = None  # that is at the bottom of the terminal

    def emit(self, record: logging.LogRecord) -> None:
        if not self.quiet:
            aside = self.json or record.levelno >= logging.WARNING
            stream, text = run_log.stderr() if aside else run_log.stdout(), wrapped(self.word(record.getMessage()))
            if self.bar and self.bar.console.is_terminal and stream.isatty():
                self.bar.console.print(text, markup=False, highlight=False, soft_wrap=True)
            else:
                tqdm = getattr(sys.modules.get("tqdm"), "tqdm", None)  # bars of libraries, if they are shown
                with (
                    contextlib.suppress(OSError),  # nobody reads it any more: the work goes on
                    tqdm.external_write_mode(stream) if tqdm else contextlib.nullcontext(),
                ):
                    print(text, file=stream, flush=True)


@contextlib.contextmanager
def printed_log(
    json: bool = False, quiet: bool = False, word: Callable[[str], str] = str, verbose: bool = False
) -> Iterator[None]:
    """Print the package's log meanwhile, as a command does.

    What libraries and child processes print is kept in the run's log (`run_log.keep_log`); if `verbose`, it is printed,
    with `json` on stderr. Of several training processes only the main one prints.
    """
    handler = _Lines(json, quiet or not _is_main(), word)
    state = _LOG.level, _LOG.propagate, _LOG.handlers
    _LOG.propagate, _LOG.handlers = False, [handler]
    _LOG.setLevel(logging.INFO)
    try:
        with contextlib.ExitStack() as stack:
            if sys.stdout is sys.__stdout__ and sys.stderr is sys.__stderr__:  # else a test's, or a notebook's
                if not verbose:
                    stack.enter_context(run_log.libraries_aside())
                elif json or not _is_main():
                    stack.enter_context(run_log.libraries_on_stderr())
            yield
    finally:
        level, _LOG.propagate, _LOG.handlers = state
        _LOG.setLevel(level)


def _is_main() -> bool:
    """Whether this is the only process, or the main one of a launch."""
    return os.environ.get("RANK", "0") == "0"


def _handler() -> _Lines | None:
    return next((handler for handler in _LOG.handlers if isinstance(handler, _Lines)), None)


def console() -> Console:
    """A rich console that prints where the log is printed, for tables and colors."""
    handler = _handler()
    file = run_log.stderr() if handler and handler.json else run_log.stdout()
    # A pipe gets each line as it is; a terminal wraps it.
    return _console(file, soft_wrap=True)


def _console(file: TextIO, **more: Any) -> Console:
    """A rich console whose work goes on when nobody reads it any more."""
    from rich.console import Console

    class Lasting(Console):
        def on_broken_pipe(self) -> None:
            self.quiet = True

    handler = _handler()
    return Lasting(file=file, width=_columns(file), quiet=bool(handler and handler.quiet), **more)


@contextlib.contextmanager
def progress_bar() -> Iterator[Progress]:
    """A bar on stderr: description, how many of how many, the time taken and left. A description is shown as it is.

    What is not a terminal, or shows the bars of libraries, gets a line when a task begins and one when it ends. Within
    another bar, it shows its tasks there while they last.
    """
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

    handler = _handler()
    if handler and handler.bar:
        outer = set(handler.bar.task_ids)
        try:
            yield handler.bar
        finally:
            for task in set(handler.bar.task_ids) - outer:
                handler.bar.remove_task(task)
        return
    file = run_log.stderr()
    shown = file.isatty() and (handler is None or run_log.are_aside())
    # As text in a notebook, too: there, rich calls itself without end as soon as anything else writes to stderr.
    console = _console(file, force_terminal=shown, force_jupyter=False)
    columns = [TextColumn("{task.description}", markup=False), MofNCompleteColumn(), TimeElapsedColumn()]
    if shown:
        columns = [columns[0], BarColumn(bar_width=None), *columns[1:], TimeRemainingColumn()]
    with Bar(*columns, console=console, redirect_stdout=False, redirect_stderr=False) as bar:
        if handler:
            handler.bar = bar
        try:
            yield bar
        finally:
            if handler:
                handler.bar = None


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

        document = pydantic_core.to_json(result.data, indent=2, inf_nan_mode="null").decode()
        # JSON escapes the other control characters itself.
        print(re.sub(r"[\x7f-\x9f\u202a-\u202e\u2066-\u2069]", lambda sign: f"\\u{ord(sign[0]):04x}", document))
        return
    text = result.line if quiet else result.text
    if text:
        print(wrapped(text.removesuffix("\n")))


def terminal_width() -> int | None:
    """The columns of the terminal that stdout is; None for a file or a pipe, whose lines are not to be broken."""
    return _columns(run_log.stdout())


def _columns(stream: TextIO) -> int | None:
    """The columns of the terminal that a stream leads to, or that the user says; None of something else."""
    if not stream.isatty():
        return None
    said = os.environ.get("COLUMNS", "")
    return int(said) if said.isdigit() and int(said) else os.get_terminal_size(stream.fileno()).columns or 80


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


_OF_NAMES = {
    r"^Symlink loop|^Could not determine home directory": "correct the path",  # pathlib's, some before Python 3.13
    r"surrogates not allowed": "rename the file whose name is not UTF-8",
}
# As safetensors, datasets and SQLite say it.
_FULL_DISK = r"os error 28\)|Not enough disk space|No space left on device|database or disk is full"


def run_guarded(
    work: Callable[[], Result | None],
    json: bool = False,
    quiet: bool = False,
    word: Callable[[str], str] = str,
    verbose: bool = False,
) -> int:
    """Run `work` as a command: print its log and its result, and end with one line on stderr where the user can act.

    Args:
        word: rewords each line and error that is printed, not the result.
        verbose: print what libraries print, too.

    Returns:
        The process's exit code: 0 done, 1 the work failed, 2 the call was wrong, 3 a budget or failures stopped it,
        4 a report is below `--fail-under`, 5 no verdict of a judge could be read, 130 interrupted.
    """
    # No telemetry that the user did not ask for.
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    if verbose:
        os.environ.setdefault("VLLM_LOGGING_LEVEL", "INFO")
    else:
        os.environ.setdefault("TQDM_MININTERVAL", "10")  # a log needs no bar ten times a second
    prepare_streams()
    try:
        with watched_interrupts():
            with printed_log(json, quiet, word, verbose):
                result = work()
            if result is not None and _is_main():
                _print_result(result, json, quiet)
        if result is not None and result.failure:
            raise result.failure
    except InstructError as error:
        details = f"; {where}" if error.exit_code == 1 and (where := _details()) else ""
        for problem in error.problems if isinstance(error, InputErrors) else [error]:
            _print_error(f"{one_line(word(str(problem)), 1000)}{details}")
        return error.exit_code
    except ModuleNotFoundError as error:
        from instruct.base.machine import missing_package  # takes a third of the time in which the help is printed

        needed = missing_package(error)
        if needed is None:
            raise
        _print_error(str(needed))
        return needed.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except SystemExit as error:  # of a library, or of a user's code: the work is not done
        _print_error(f"the work ended itself (SystemExit: {one_line(error, 100)})")
        return 1
    except Exception as error:
        cause: BaseException | None = error
        while cause is not None:  # libraries raise their own from it, some with its text alone
            if getattr(cause, "errno", None) in (errno.ENOSPC, errno.EDQUOT) or re.search(_FULL_DISK, str(cause)):
                _print_error("the disk is full; free disk space and rerun the command to resume")
                return 1
            cause = cause.__cause__ or cause.__context__
        for problem, remedy in _OF_NAMES.items():
            if re.search(problem, str(error)):
                _print_error(f"{one_line(error)}; {remedy}")
                return 2
        if isinstance(error, FileNotFoundError) and not os.path.exists("."):
            _print_error("the working directory was deleted; change to another folder")
            return 2
        if not isinstance(error, OSError) or error.filename is None:  # not about a file that the user could correct
            if where := _details():
                _print_error(where)
            raise
        reason = one_line(error.strerror, 100)
        _print_error(f"{one_line(error.filename, 300)}: {reason}; correct the path, or its permissions")
        return 2
    return 0


def prepare_streams() -> None:
    """Let no character end the work that a stream cannot encode, and no file take the place of a closed stream."""
    for name in ("stdin", "stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # else the next file that is opened would have its descriptor
            stream = open(os.devnull, "w")  # noqa: SIM115
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)
        if name != "stdin" and stream is getattr(sys, f"__{name}__"):  # else a test's, or a notebook's
            stream.reconfigure(errors="backslashreplace")


def _print_result(result: Result, json: bool, quiet: bool) -> None:
    """Print a result; that nobody reads it is no failure.

    Raises:
        OSError: it cannot be written, as on a full disk.
    """
    try:
        show(result, json, quiet)
        sys.stdout.flush()
    except OSError as error:
        with open(os.devnull, "w") as nowhere:  # else Python tries again when it exits
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        if error.errno != errno.EPIPE:
            raise


def _print_error(line: str) -> None:
    with contextlib.suppress(OSError):  # the exit code tells it, too
        print(f"instruct: {line}", file=sys.stderr, flush=True)


def _details() -> str:
    """Where a failure's reader finds what libraries have printed before it, if they have."""
    place = run_log.details()
    return "" if place is None else f"details: {place or 'rerun with --verbose'}"
