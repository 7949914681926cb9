"""The run directory: one experiment, what was made in it, with which configuration and from what."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import time
from collections.abc import Iterator
from datetime import date, datetime
from pathlib import Path
from typing import Any

import yaml

from instruct.base.errors import InputError, one_line
from instruct.base.files import lock_file, new_folder, open_to_write, sync, write_atomically
from instruct.base.machine import machine, now, versions
from instruct.base.run_log import keep_log
from instruct.run.consent import agree
from instruct.run.manifest import FORMAT, read_config, read_manifest

# A run may hold private prompts: its folder is made for its owner alone, and one who opens it with chmod keeps it so.
# The files in it follow the umask, so that nothing else has to be changed to share them.
_PRIVATE = 0o700


class RunDirectory:
    """`runs/NAME/`: config.yaml, manifest.json, log.txt, adapters/, outputs/, continuations/, judgments.sqlite,
    report/."""

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
        self.folder.mkdir(_PRIVATE, parents=True, exist_ok=True)
        path = self.folder / "config.yaml"
        if path.is_file():
            # A key that is null is like one that is not there.
            changes = (change for change in differences(self.config(), config) if change[1:] != (None, None))
            if difference := next(changes, None):
                raise InputError(
                    f"{path}: this run was started with a different {difference[0]}; choose another `name` or "
                    f"delete {self.folder}"
                )
        else:
            self.write_config(config)
        if not self.manifest_path.is_file():
            self._write({"format": FORMAT, "created": now(), "versions": versions(), "machine": machine(), "steps": {}})
        agree(self)

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
        keep_log(self.folder)

    @property
    def day(self) -> date:
        """The day on which the run was started, UTC; today if it is not started yet."""
        return datetime.fromisoformat(self.manifest()["created"] if self.manifest_path.is_file() else now()).date()

    def answers_path(self, name: str) -> Path:
        """The file of a system's answers; a name that ends in .json is already a path."""
        return Path(name) if name.endswith(".json") else self.outputs / f"{name}.json"

    def config(self) -> dict[str, Any]:
        """The resolved config that the run was started with."""
        return read_config(self.folder / "config.yaml")

    def manifest(self) -> dict[str, Any]:
        """The content of manifest.json; `steps` maps a step's name to its record (see `step`).

        Raises:
            InputError: there is none, it is not JSON, or it has another format.
        """
        return read_manifest(self.manifest_path)

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
        self.record(name, record)
        begun, cpu = time.monotonic(), time.process_time()
        results: dict[str, Any] = {}
        yield results
        record |= {
            "status": "stopped" if results.get("stopped") else "done",
            "minutes": round((time.monotonic() - begun) / 60, 2),
            "cpu_minutes": round((time.process_time() - cpu) / 60, 2),
            "results": results,
        }
        self.record(name, record)

    def record(self, name: str, record: dict[str, Any]) -> None:
        """Write the record of a step, or put back an earlier one after an attempt that changed nothing."""
        with open_to_write(self.folder / ".manifest.lock") as lock:  # another process may record another step
            lock_file(lock.fileno(), wait=True)
            manifest = self.manifest()
            manifest["steps"][name] = record
            self._write(manifest)

    def _write(self, manifest: dict[str, Any]) -> None:
        manifest["updated"] = now()
        write_atomically(self.manifest_path, json.dumps(manifest, indent=2, ensure_ascii=False) + "\n")
        keep_log(self.folder)


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
    try:
        with contextlib.ExitStack() as stack:
            try:
                if place.exists() and not place.is_dir():
                    raise NotADirectoryError(errno.ENOTDIR, "is a file")
                temporary = stack.enter_context(new_folder(place, _PRIVATE))
                run = RunDirectory(temporary)
                run.start(config)
            except OSError as error:
                raise _not_created(folder, error) from None
            yield run
            try:
                os.rename(temporary, place)
                sync(place.parent)
            except OSError as error:
                raise _not_created(folder, error) from None
    except BaseException:
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
    folders = [path.parent for path in root.glob("[!.]*/manifest.json") if any(path.parent.glob(needs))]
    if not folders:
        raise InputError(
            f"no run in {root}/ has {needs}; give a run directory, or create one: python recipes/alpaca_emo.py"
        )
    return RunDirectory(max(folders, key=lambda folder: (folder / "manifest.json").stat().st_mtime))


_MISSING = object()


def differences(old: Any, new: Any, key: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Each key that differs between two configs, with its two values (None: not there)."""
    if isinstance(old, dict) and isinstance(new, dict):
        pairs = [(name, old.get(name, _MISSING), new.get(name, _MISSING)) for name in dict.fromkeys([*old, *new])]
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = [(index, *both) for index, both in enumerate(zip(old, new, strict=True))]
    else:
        if old is not new and old != new:  # a key that is null differs from one that is not there
            yield key, None if old is _MISSING else old, None if new is _MISSING else new
        return
    for name, one, other in pairs:
        yield from differences(one, other, f"{key}.{name}" if key else str(name))
