"""The process's stdout and stderr: none of them ends the work, and what libraries write to them goes into a log.

Libraries, and processes that they start, write to the descriptors 1 and 2. While a command works, these lead to the log
of its run, and the command prints on copies of what they were.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, TextIO

from instruct.base.files import open_to_write

LOG = "log.txt"


class _Lasting(io.FileIO):
    """A descriptor that never ends the work: what is printed after its reader has gone is lost, and said to be."""

    told: int | None = None
    """The descriptor on which that is said."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            log_is_full = _Aside.now is not None and self.fileno() in (1, 2)
            if error.errno not in (errno.EPIPE, errno.EIO) and not log_is_full:  # EIO: of a terminal that was closed
                raise
            if self.told is not None and not log_is_full:
                with contextlib.suppress(OSError):
                    os.write(self.told, b"instruct: nobody reads stdout any more; the work goes on\n")
            return len(data)


def _lasting(descriptor: int, like: TextIO | None, told: int | None = None) -> TextIO:
    """A stream to a descriptor, with the code and the buffering of another."""
    raw = _Lasting(descriptor, "wb", closefd=descriptor > 2)
    raw.told = told
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        like.encoding if like is not None else "utf-8",
        "backslashreplace",
        line_buffering=getattr(like, "line_buffering", True) or getattr(like, "write_through", False),
    )


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
        lasting = _lasting(descriptor, stream, told=2 if descriptor == 1 else None)
        setattr(sys, name, lasting)
        setattr(sys, f"__{name}__", lasting)


class _Aside:
    """Where the command prints, and the file in which the others do."""

    now: _Aside | None = None
    details: str | None = None
    """Where the last command's libraries have printed something: a log, or "" if there was no run."""

    def __init__(self) -> None:
        out, err = os.dup(1), os.dup(2)
        self.out, self.err = _lasting(out, sys.stdout, told=err), _lasting(err, sys.stderr)
        self.early = os.fdopen(os.memfd_create("log"), "w+b", 0)  # until there is a run
        self.file: IO[bytes] = self.early
        self._copied = self._begun = 0
        self._lead(self.early.fileno(), self.early.fileno())

    def _lead(self, out: int, err: int) -> None:
        for stream, descriptor, target in ((sys.stdout, 1, out), (sys.stderr, 2, err)):
            if stream is not None:
                stream.flush()
            os.dup2(target, descriptor)

    def keep(self, path: Path) -> None:
        if self.path == path.resolve():
            return
        from instruct.base.machine import now  # takes a third of the time in which the help is printed

        file = open_to_write(path)
        file.write(f"== {now()}, process {os.getpid()}\n".encode())
        file.flush()
        self._begun = os.fstat(file.fileno()).st_size
        self._lead(file.fileno(), file.fileno())
        if self.file is not self.early:
            self.file.close()
        self.file = file
        self._copy_early()

    def _copy_early(self) -> None:
        """Processes that were started before there was a run go on to write there."""
        text = os.pread(self.early.fileno(), os.fstat(self.early.fileno()).st_size - self._copied, self._copied)
        self._copied += len(text)
        os.write(self.file.fileno(), text)

    @property
    def path(self) -> Path | None:
        """The log's place, also after its folder was moved; None before there is a run."""
        return None if self.file is self.early else Path(os.readlink(f"/proc/self/fd/{self.file.fileno()}"))

    def close(self) -> None:
        self.out.flush()
        self.err.flush()
        self._lead(self.out.fileno(), self.err.fileno())
        written = os.fstat(self.file.fileno()).st_size > self._begun
        if path := self.path:
            self._copy_early()
            self.file.close()
        if written:
            place = Path(os.path.relpath(path)) if path and path.is_relative_to(Path.cwd()) else path
            _Aside.details = str(place or "")
        self.out.close()
        self.err.close()
        self.early.close()


@contextlib.contextmanager
def libraries_aside() -> Iterator[None]:
    """Keep what libraries and child processes write off the terminal, which `stdout` and `stderr` still lead to."""
    _Aside.details, _Aside.now = None, (aside := _Aside())
    try:
        yield
    finally:
        _Aside.now = None
        aside.close()


def stdout() -> TextIO:
    """Where the command prints."""
    return _Aside.now.out if _Aside.now else sys.stdout


def stderr() -> TextIO:
    """Where the command prints what is no result."""
    return _Aside.now.err if _Aside.now else sys.stderr


def are_aside() -> bool:
    """Whether what libraries print is kept off the terminal."""
    return _Aside.now is not None


def keep_log(folder: Path) -> None:
    """Let what libraries print from now on, and what they have printed, be in the log of a run in this folder.

    Raises:
        OSError: it cannot be written there.
    """
    if _Aside.now:
        _Aside.now.keep(folder / LOG)


def details() -> str | None:
    """The log in which libraries have printed something while the last command worked, "" if it had none."""
    return _Aside.details


@contextlib.contextmanager
def to_stderr() -> Iterator[None]:
    """Let what is written to the descriptor of stdout go to stderr."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)
