"""Files: written whole or not at all, hashed, and where they lie."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import hashlib
import itertools
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Literal

from instruct.base import run_log
from instruct.base.errors import InputError, InstructError, one_line


def cache_folder() -> Path:
    """The folder of files that can be created again: `$INSTRUCT_CACHE`, or `~/.cache/instruct`."""
    return Path(os.environ.get("INSTRUCT_CACHE") or Path.home() / ".cache" / "instruct")


def ending_of(path: str | Path, known: Iterable[str]) -> str:
    """The extension of a file to write, in small letters; InputError for one that is not among the `known`."""
    ending = Path(path).suffix.lower()
    *others, last = known
    if ending not in (*others, last):
        raise InputError(f"{path}: the extension must be {', '.join(others)} or {last}; rename the file")
    return ending


def open_to_write(path: Path, new: bool = False) -> IO[bytes]:
    """Open a file to write at its end; created if it is not there. No other function of the package opens one.

    Args:
        new: refuse a file that is there.

    Raises:
        OSError: it is a link, which might lead anywhere, or something else than a file, or cannot be opened.
    """
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | (os.O_EXCL if new else 0)
    return _opened(path, flags, "a+b")


def open_to_read(path: Path) -> IO[bytes]:
    """Open a file that anyone may have written: not a pipe or a device, which might never end.

    Raises:
        OSError: it is something else than a file, or cannot be opened.
    """
    return _opened(path, os.O_RDONLY, "rb")


def _opened(path: Path, flags: int, mode: Literal["a+b", "rb"]) -> IO[bytes]:
    try:
        descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    except OSError as error:
        if error.errno == errno.ELOOP and path.is_symlink():
            raise OSError(errno.ELOOP, "is a link; put the file itself there", str(path)) from None
        raise
    kind = os.fstat(descriptor).st_mode
    if stat.S_ISREG(kind):
        return os.fdopen(descriptor, mode)
    os.close(descriptor)
    if stat.S_ISDIR(kind):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise OSError(errno.EINVAL, "is not a regular file", str(path))


def read_text(path: Path) -> str:
    """The UTF-8 text of a file, see `open_to_read`."""
    with open_to_read(path) as file:
        return file.read().decode()


def write_atomically(path: Path, content: str | bytes | Iterable[bytes]) -> None:
    """Write a file completely or not at all, even if the power is cut; `content` may come in pieces.

    What is no file, such as /dev/null or a pipe, is written to.

    Raises:
        InputError: it cannot be written there.
        InstructError: the disk is full.
    """
    if isinstance(content, str):
        content = content.encode()
    pieces = [content] if isinstance(content, bytes) else content
    try:
        if path.exists() and (path.parent == Path("/dev") or not (path.is_file() or path.is_dir())):
            _write_to_device(path, pieces)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(path.parent.absolute())
        temporary, file = _new_file(path)
        with file:  # locked until it is in its place
            try:
                file.writelines(pieces)
                file.flush()
                os.fsync(file.fileno())
                os.replace(temporary, path)
                sync(path.parent)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise
    except OSError as error:
        kind = InstructError if error.errno in (errno.ENOSPC, errno.EDQUOT) else InputError
        raise kind(
            f"{path}: cannot be written ({one_line(error.strerror, 100)}); "
            f"{'free disk space' if kind is InstructError else 'give a place that can be written'}"
        ) from None


def _write_to_device(path: Path, pieces: Iterable[bytes]) -> None:
    # While a command works, the process's own descriptors lead to the run's log.
    ours = {"/dev/stdout": run_log.stdout, "/dev/stderr": run_log.stderr}.get(str(path))
    with open(os.dup(ours().fileno()) if ours else path, "wb") as file:
        file.writelines(pieces)


_UNFINISHED = ".unfinished"


def _unfinished_name(path: Path) -> Path:
    """A place beside `path` that no other process has: their numbers are the same in two containers."""
    return path.with_name(f".{path.name[:60]}.{secrets.token_hex(8)}{_UNFINISHED}")


def unfinished_in(folder: Path) -> list[Path]:
    """The files and folders in a folder that are being made there, or were when their process was killed."""
    return sorted(folder.glob(f".*{_UNFINISHED}"))


def _new_file(path: Path) -> tuple[Path, IO[bytes]]:
    """A new file beside `path`, locked as long as it is open."""
    while True:
        temporary = _unfinished_name(path)
        file = open_to_write(temporary, new=True)
        lock_file(file.fileno())
        if temporary.exists():  # else it was taken for a leftover before it was locked
            return temporary, file
        file.close()


def lock_file(descriptor: int, wait: bool = False) -> bool:
    """Lock an open file or folder until it is closed or the process ends; whether that could be done."""
    with contextlib.suppress(OSError):  # locked by another process, or where nothing can be locked
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        return True
    return False


@functools.cache
def _remove_leftovers(folder: Path) -> None:
    """Remove what processes that were killed have left of files and folders that they made in this one.

    Once a folder: listing it for each of many files takes longer the more there are. Never on a network file system,
    where another machine may not see a lock.
    """
    for leftover in [] if network_file_system(folder) else unfinished_in(folder):
        with contextlib.suppress(OSError):
            descriptor = os.open(leftover, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                if lock_file(descriptor):  # else its process is at work
                    shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink(missing_ok=True)
            finally:
                os.close(descriptor)


@contextlib.contextmanager
def new_folder(folder: Path, mode: int = 0o777) -> Iterator[Path]:
    """A folder beside `folder`, to be filled and moved there; if it is still there at the end, it is removed.

    Raises:
        OSError: it cannot be created.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    _remove_leftovers(folder.parent.absolute())
    while True:
        making = _unfinished_name(folder)
        making.mkdir(mode)
        descriptor = os.open(making, os.O_RDONLY)
        lock_file(descriptor)
        if making.exists():
            break
        os.close(descriptor)
    try:
        yield making
    finally:
        shutil.rmtree(making, ignore_errors=True)
        os.close(descriptor)


# Types in /proc/mounts of file systems whose locks and shared memory SQLite cannot rely on.
_NETWORK = re.compile(
    r"9p|afs|beegfs|ceph|cifs|gpfs|lustre|ncpfs|nfs|nfs4|orangefs|smb3|smbfs"
    r"|fuse\..*(ceph|gcsfuse|glusterfs|goofys|juicefs|moosefs|s3fs|sshfs|weka).*"
)


def network_file_system(path: Path, mounts: str | None = None) -> str | None:
    """The type of the network file system that a path is on; None for a local disk.

    Args:
        mounts: the content of /proc/mounts.
    """
    if mounts is None:
        try:
            mounts = Path("/proc/mounts").read_text(encoding="utf-8", errors="replace")
        except OSError:  # not Linux
            return None
    place, mount = path.resolve(), (0, "")
    for line in mounts.splitlines():
        _, point, kind, *_ = line.split(" ")
        folder = Path(point.replace("\\040", " "))
        if folder == place or folder in place.parents:
            mount = max(mount, (len(folder.parts), kind), key=lambda pair: pair[0])  # a later mount hides an earlier
    return mount[1] if _NETWORK.fullmatch(mount[1]) else None


def valid_name(name: str) -> str:
    """The name of a run or a system, which names files, too.

    Raises:
        ValueError: the file system, or a shell, could take it for something else.
    """
    if not name or len(name.encode()) > 100 or name.startswith(".") or not all(c.isalnum() or c in "-_." for c in name):
        raise ValueError(
            f"{one_line(name, 60)!r} is not a valid name; use letters, digits, '-', '_' and '.', at most 100 bytes"
        )
    return name


def new_stem(names: Iterable[str], taken: Iterable[str]) -> str:
    """The stem of a file about foreign names: another one than those that are taken, ignoring case."""
    parts = [re.sub(r"[^A-Za-z0-9_.-]+", "-", one_line(name, 60)).strip("-.") or "unnamed" for name in names]
    stem, others = "-".join(parts), {other.lower() for other in taken}
    numbered = (f"{stem}-{number}" for number in itertools.count(2))
    return next(each for each in itertools.chain([stem], numbered) if each.lower() not in others)


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal."""
    with open_to_read(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]


def changed_file(folder: Path, hashes: dict[str, str]) -> str | None:
    """The first file of a folder that is missing or does not have its recorded SHA-256; None if all are as recorded."""
    for name, digest in hashes.items():
        path = folder / name
        if not path.is_file() or sha256_of(path) != digest:
            return name
    return None


def sync(*paths: Path) -> None:
    """Wait until files and folders are on the disk; after a power failure, a renamed file might be empty otherwise."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        except OSError as error:
            if error.errno != errno.EINVAL:  # a file system that cannot sync a folder
                raise
        finally:
            os.close(descriptor)


def replace_folder(folder: Path, made: Path) -> None:
    """Put a folder that was made beside it in the place of `folder`, after its files have reached the disk."""
    sync(*(path for path in made.rglob("*") if path.is_file()))
    shutil.rmtree(folder, ignore_errors=True)
    os.replace(made, folder)
    sync(folder, folder.parent)
