"""Rows in memory-mapped Arrow files, in a private folder that is removed when nothing needs its rows."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import socket
import tempfile
import time
import uuid
import weakref
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from instruct.base.errors import InputError, one_line

if TYPE_CHECKING:
    import numpy
    from datasets import Dataset, Features

_BATCH = 1000
# Only folders of this machine are cleaned up: another one may not see their locks.
_PREFIX = f".rows-{socket.gethostname()}-"
# Seconds before a folder that nobody has locked may be removed.
_NEW = 60


class RowFolder:
    """A new folder for Arrow files that nobody else can read; removed by `close`, or with the last reference to it.

    What a process that was killed has left there is removed first.

    Args:
        parent: where to make it (default: the system's folder for temporary files).

    Raises:
        InputError: nothing can be written there.
    """

    def __init__(self, parent: Path | None = None) -> None:
        parent = (Path(tempfile.gettempdir()) if parent is None else parent).resolve()
        made = [folder for folder in (parent, *parent.parents) if not folder.exists()]
        for other in parent.glob(f"{_PREFIX}*"):
            with contextlib.suppress(OSError):
                # A process that was killed has left it behind, if it is not locked; a new one may not be locked yet.
                if time.time() - other.stat().st_mtime > _NEW and (descriptor := _locked(other)) is not None:
                    os.close(descriptor)
                    shutil.rmtree(other, ignore_errors=True)
        try:
            parent.mkdir(parents=True, exist_ok=True)
            self.path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
        except OSError as error:
            raise _unwritable(parent, error) from None
        self.close = weakref.finalize(self, _remove, self.path, made, os.getpid(), _locked(self.path))

    def store(self, rows: Iterable[dict[str, Any]], features: Features) -> Dataset:
        """Rows as a data set on disk.

        Raises:
            Exception: what making the rows raises.
            InputError: the disk is full.
        """
        from datasets import Dataset
        from datasets.arrow_writer import ArrowWriter

        path = self.path / f"{uuid.uuid4().hex}.arrow"
        try:
            with path.open("wb") as file, ArrowWriter(stream=file, features=features) as writer:
                for row in rows:
                    writer.write(row)
                writer.finalize()
        except OSError as error:
            raise _unwritable(self.path, error) from None
        return Dataset.from_file(str(path))


def select(dataset: Dataset, indices: list[int] | range) -> Dataset:
    """Rows of a data set by their numbers; `datasets` would hash all numbers for the name of a cached file."""
    return dataset.select(indices, new_fingerprint=uuid.uuid4().hex)


def numbers(dataset: Dataset, column: str) -> numpy.ndarray:
    """A column of numbers."""
    values: numpy.ndarray = dataset.with_format("numpy", columns=[column])[:][column]
    return values


def batches(dataset: Dataset) -> Iterator[Mapping[str, list[Any]]]:
    """The rows of a data set, many at a time."""
    return iter(dataset.iter(_BATCH))


def _locked(folder: Path) -> int | None:
    """A descriptor that locks a folder until it is closed or its process ends; None if that is impossible."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # locked already, or on a file system that cannot lock folders
        os.close(descriptor)
        return None
    return descriptor


def _remove(folder: Path, made: list[Path], process: int, lock: int | None) -> None:
    if os.getpid() != process:  # a copy in a process that was forked
        return
    shutil.rmtree(folder, ignore_errors=True)
    if lock is not None:
        os.close(lock)
    with contextlib.suppress(OSError):  # not empty
        for parent in made:
            parent.rmdir()


def _unwritable(folder: Path, error: OSError) -> InputError:
    return InputError(
        f"{folder}: rows cannot be written ({one_line(error.strerror or error, 100)}); free disk space, or give a "
        "place that can be written"
    )
