"""Files: written whole or not at all, hashed, and where they lie."""

from __future__ import annotations

import errno
import functools
import hashlib
import os
import re
import shutil
import zlib
from collections.abc import Iterable
from pathlib import Path

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


def write_atomically(path: Path, content: str | bytes | Iterable[bytes]) -> None:
    """Write a file completely or not at all, even if the power is cut; `content` may come in pieces.

    Raises:
        InputError: it cannot be written there.
        InstructError: the disk is full.
    """
    if isinstance(content, str):
        content = content.encode()
    temporary = path.with_name(f".{path.name}.{_MACHINE}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(path.parent.absolute())
        try:
            with temporary.open("wb") as file:
                file.writelines([content] if isinstance(content, bytes) else content)
            sync(temporary)
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


_MACHINE = f"{zlib.crc32(os.uname().nodename.encode()):08x}"


@functools.cache
def _remove_leftovers(folder: Path) -> None:
    """Remove what processes of this machine that were killed while they wrote files of a folder have left of them.

    Once a folder: listing it for each of many files takes longer the more there are.
    """
    for leftover in folder.glob(f".*.{_MACHINE}.*"):
        try:
            os.kill(int(leftover.suffix[1:]), 0)
        except ProcessLookupError:
            leftover.unlink(missing_ok=True)
        except (ValueError, PermissionError):  # of another name; of another user, and running
            continue


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


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


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
