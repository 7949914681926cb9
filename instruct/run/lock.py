"""The locks of a run: one process at a time writes a system's adapter, a system's outputs, or the verdicts."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from instruct.base.errors import InputError, InstructError, one_line
from instruct.base.files import open_to_write
from instruct.base.machine import now
from instruct.run.directory import RunDirectory

VERDICTS = "verdicts"
_held: set[Path] = set()


def adapter_of(system: str) -> str:
    """The scope of training a system."""
    return f"adapters/{system}"


def outputs_of(system: str) -> str:
    """The scope of writing a system's answers and continuations."""
    return f"outputs/{system}"


def merged_of(system: str) -> str:
    """The scope of merging a system's adapter into its base."""
    return f"merged/{system}"


@contextlib.contextmanager
def only_process(run: RunDirectory, scope: str) -> Iterator[None]:
    """Hold the lock of a scope. The system releases it when the process ends, however it ends.

    A process that already holds it keeps it: several judges of one call share the lock. Of the processes that train
    together (`accelerate launch`), the main one holds it for all.

    Args:
        scope: `VERDICTS`, or what `adapter_of`, `outputs_of` or `merged_of` names.

    Raises:
        InputError: another process holds it.
        InstructError: it cannot be taken, as in a directory that is read-only.
    """
    path = run.folder / f".{scope.replace('/', '-')}.lock"
    place = path.resolve()
    if place in _held:
        yield
        return
    try:
        opened = open_to_write(path)
    except OSError as error:
        raise InstructError(f"{path}: cannot be opened ({error.strerror}); make the run directory writable") from None
    with opened as lock:
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            lock.seek(0)
            holder = one_line(lock.read().decode(errors="replace") or "another process", 120)
            raise InputError(
                f"{path}: {holder} {_doing(scope)}; wait until it ends, or stop it, and run the command again"
            ) from None
        except OSError as error:
            raise InstructError(f"{path}: cannot be locked ({error}); use a file system that supports locks") from None
        lock.truncate(0)
        lock.write(f"process {os.getpid()} on {socket.gethostname()} (since {now()})".encode())
        lock.flush()
        _held.add(place)
        try:
            yield
        finally:
            _held.remove(place)


def _doing(scope: str) -> str:
    kind, _, system = scope.partition("/")
    doing = {"adapters": "is training", "merged": "is merging", "outputs": "is writing the outputs of"}
    return "is judging this run" if kind == VERDICTS else f"{doing[kind]} {system}"
