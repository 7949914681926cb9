"""The lock that lets one process judge a run."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from instruct.base.errors import InputError, InstructError, one_line
from instruct.run.directory import RunDirectory

_held: set[Path] = set()


@contextlib.contextmanager
def only_judging_process(run: RunDirectory) -> Iterator[None]:
    """Hold a run's lock. The system releases it when the process ends, however it ends.

    A process that already holds it keeps it: several judges of one call share the lock.

    Raises:
        InputError: another process holds it.
        InstructError: it cannot be taken, as in a directory that is read-only.
    """
    path = run.folder / ".judging.lock"
    place = path.resolve()
    if place in _held:
        yield
        return
    try:
        opened = path.open("a+")
    except OSError as error:
        raise InstructError(f"{path}: cannot be opened ({error.strerror}); make the run directory writable") from None
    with opened as lock:
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            lock.seek(0)
            raise InputError(
                f"{path}: {one_line(lock.read(), 100)} is judging this run; wait until it ends, or stop it, and run "
                "the command again"
            ) from None
        except OSError as error:
            raise InstructError(f"{path}: cannot be locked ({error}); use a file system that supports locks") from None
        lock.truncate(0)
        lock.write(f"process {os.getpid()} on {socket.gethostname()}")
        lock.flush()
        _held.add(place)
        try:
            yield
        finally:
            _held.remove(place)
