"""The run of `works`, undisturbed, and copies of it as it was before each verb."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from works import VERBS, Started, call_of, products, write_inputs


class Undisturbed(NamedTuple):
    before: dict[str, Path]
    """The folder as it was before each verb."""
    products: dict[str, dict[str, Any]]
    requests: Callable[[], list[dict]]
    """What the judge's server was asked so far, by all tests."""
    asked: int
    """How often it was asked for the undisturbed run."""


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, shared_fake_server: Any) -> Undisturbed:
    url, requests = shared_fake_server(delay=0.05)
    folder = tmp_path_factory.mktemp("undisturbed") / "now"
    folder.mkdir()
    write_inputs(folder, url)
    before, made = {}, {}
    for verb in VERBS:
        before[verb] = folder.with_name(verb)
        shutil.copytree(folder, before[verb])
        code, printed = Started(call_of(verb), folder).end()
        assert code == 0, printed
        made[verb] = products(folder, verb)
        assert made[verb]
    before["all"] = folder
    return Undisturbed(before, made, requests, len(requests()))


@pytest.fixture
def state(undisturbed: Undisturbed, tmp_path: Path) -> Callable[[str], Path]:
    """`state(verb)`: a folder with a run as it was before the verb; "all": after the last one."""

    def copy(verb: str) -> Path:
        folder = tmp_path / "work"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(undisturbed.before[verb], folder)
        return folder

    return copy


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk of its own; umounted at the end."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1g", "tmpfs", folder], capture_output=True)
    if mounted.returncode:
        pytest.skip("no disk can be mounted here; run the tests as root")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)
