"""A run of a stranger: whatever its files are or hold, a verb ends in time, in words, and writes nothing elsewhere."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from works import RECORDED

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

RUN = Path("runs") / "theirs"
LOCKS = [".manifest.lock", ".metrics.lock", ".verdicts.lock"]
SECONDS = 30  # of a call, which opens a pipe that nobody writes to if it takes as long
VALUES = [None, [], {}, 10**400, -1, "\ud800", float("nan"), True]


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(RECORDED / "judges", "judges")
    return tmp_path


def renew() -> None:
    shutil.rmtree("runs", ignore_errors=True)
    shutil.copytree(RECORDED / "two_judges", RUN)


@contextlib.contextmanager
def in_time() -> Iterator[None]:
    def late(number: int, frame: object) -> None:
        raise AssertionError("it does not end")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def attempt(instruct: Any, monkeypatch: pytest.MonkeyPatch, what: str) -> tuple[int, str]:
    """The exit code of a report, and what is wrong with how it ends."""
    monkeypatch.setattr("instruct.run.replies._checked", set())
    try:
        with in_time():
            code, _, err = instruct("report", RUN)
        lines = [line for line in err.splitlines() if line.startswith("instruct: ")]
        told = "Traceback" not in err and bool(lines) == bool(code)
        return code, "" if told and code in (0, 1, 2, 3) else f"{what}: {code} {err[-300:]}"
    except BaseException as error:
        return 1, f"{what}: {error!r:.300}"


def test_files_that_are_links_or_pipes_write_nothing_elsewhere_and_hang_nothing(folder, instruct, monkeypatch):
    renew()
    files = [path.relative_to(RUN) for path in RUN.rglob("*") if path.is_file()]
    wrong, codes = [], Counter[int]()
    for file in sorted([*files, *map(Path, LOCKS)]):
        for kind in ("link", "loop", "pipe"):
            renew()
            path, outside = RUN / file, folder / "outside"
            content = path.read_bytes() if path.exists() else b"theirs"
            outside.write_bytes(content)
            path.unlink(missing_ok=True)
            if kind == "pipe":
                os.mkfifo(path)
            else:
                path.symlink_to(outside.absolute() if kind == "link" else path.absolute())
            code, problem = attempt(instruct, monkeypatch, f"{file} as a {kind}")
            wrong += [problem] if problem else []
            codes[code] += 1
            if outside.read_bytes() != content:
                wrong.append(f"{file} as a {kind}: what it leads to was written")
    print(f"{codes.total()} calls: {dict(codes)}")
    assert not wrong, "\n".join(wrong)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inner:
        yield (*path, key)
        yield from places(part, (*path, key))


def test_a_value_of_another_kind_in_any_field_is_told(folder, instruct, monkeypatch):
    renew()
    drawn = random.Random(0)
    wrong, codes = [], Counter[int]()
    names = ["manifest.json", "config.yaml", "outputs/emo.json", "adapters/emo/canary.json"]
    names += ["adapters/emo/training_log.json", "adapters/emo/adapter_config.json", "outputs/emo.checked"]
    for name in names:
        load = yaml.safe_load if name.endswith(".yaml") else json.loads
        content = load((RECORDED / "two_judges" / name).read_text())
        every = [(place, value) for place in places(content) for value in VALUES]
        for place, value in drawn.sample(every, min(len(every), 12)):
            renew()
            changed = load((RECORDED / "two_judges" / name).read_text())
            holder = changed
            for key in place[:-1]:
                holder = holder[key]
            holder[place[-1]] = value
            text = yaml.safe_dump(changed) if name.endswith(".yaml") else json.dumps(changed)
            (RUN / name).write_text(text, errors="surrogatepass")
            code, problem = attempt(instruct, monkeypatch, f"{name} with {value!r:.20} at {place}")
            wrong += [problem] if problem else []
            codes[code] += 1
    print(f"{codes.total()} calls: {dict(codes)}")
    assert not wrong, "\n".join(wrong)
