"""log.txt of a run: what libraries and child processes print while a command works.

They write to the descriptors 1 and 2, which lead to the log meanwhile; the command prints on copies of what these were.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TextIO

LOG = "log.txt"


class _Log:
    """Where the command prints, and the file in which the others do."""

    now: _Log | None = None
    details: str | None = None
    """Where the last command's libraries have printed something: a log, or "" if there was no run."""

    def __init__(self) -> None:
        self.out, self.err = _copy_of(sys.stdout), _copy_of(sys.stderr)
        self.file: IO[bytes] = os.fdopen(os.memfd_create("log"), "w+b", 0)  # until there is a run
        self.path: Path | None = None
        self.empty = 0
        _lead(self.file.fileno(), self.file.fileno())

    def keep(self, path: Path) -> None:
        """Let the log be this file; what was printed before there was a run is copied to it."""
        if self._place() == path.resolve():
            return
        from instruct.base.machine import now  # takes a third of the time in which the help is printed

        # Not through a link, which might lead anywhere.
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
        file = os.fdopen(os.open(path, flags, 0o666), "ab", 0)
        file.write(f"== {now()}, process {os.getpid()}\n".encode())
        empty = os.fstat(file.fileno()).st_size
        _lead(file.fileno(), file.fileno())
        if self.path is None:
            self.file.seek(0)
            shutil.copyfileobj(self.file, file)
        self.file.close()
        self.file, self.path, self.empty = file, path, empty

    def _place(self) -> Path | None:
        """The log's place, also after its folder was moved."""
        return self.path and Path(os.readlink(f"/proc/self/fd/{self.file.fileno()}"))

    def close(self) -> None:
        with contextlib.suppress(OSError):  # nobody reads them any more
            self.out.flush()
            self.err.flush()
        _lead(self.out.fileno(), self.err.fileno())
        if os.fstat(self.file.fileno()).st_size > self.empty:
            place = self._place()
            near = place and place.is_relative_to(Path.cwd())
            _Log.details = str((os.path.relpath(place) if near else place) if place else "")
        for file in (self.out, self.err, self.file):
            with contextlib.suppress(OSError):
                file.close()


def _copy_of(stream: TextIO) -> TextIO:
    """A stream to a copy of another's descriptor."""
    return os.fdopen(os.dup(stream.fileno()), "w", buffering=1, encoding=stream.encoding, errors=stream.errors)


def _lead(out: int, err: int) -> None:
    """Let the descriptors 1 and 2 lead to what these do."""
    with contextlib.suppress(OSError):  # a full disk, or a pipe that nobody reads
        sys.stdout.flush()
        sys.stderr.flush()
    os.dup2(out, 1)
    os.dup2(err, 2)


@contextlib.contextmanager
def libraries_aside() -> Iterator[None]:
    """Keep what libraries and child processes write off the terminal, which `stdout` and `stderr` still lead to."""
    _Log.details, _Log.now = None, (log := _Log())
    try:
        yield
    finally:
        _Log.now = None
        log.close()


@contextlib.contextmanager
def libraries_on_stderr() -> Iterator[None]:
    """Let what is written to the descriptor of stdout go to stderr."""
    kept = os.dup(1)
    _lead(2, 2)
    try:
        yield
    finally:
        _lead(kept, 2)
        os.close(kept)


def stdout() -> TextIO:
    """Where the command prints."""
    return _Log.now.out if _Log.now else sys.stdout


def stderr() -> TextIO:
    """Where the command prints what is no result."""
    return _Log.now.err if _Log.now else sys.stderr


def are_aside() -> bool:
    """Whether what libraries print is kept off the terminal."""
    return _Log.now is not None


def keep_log(folder: Path) -> None:
    """Let what libraries print from now on, and what they have printed, be in the log of a run in this folder.

    Raises:
        OSError: it cannot be written there.
    """
    if _Log.now:
        _Log.now.keep(folder / LOG)


def details() -> str | None:
    """The log in which libraries have printed something while the last command worked, "" if it had none."""
    return _Log.details
