"""Which extra installs a missing package."""

from __future__ import annotations

import importlib.metadata
import json

import pytest

from instruct.base import machine
from instruct.base.output import run_guarded

DECLARED = [
    "numpy>=2.0",
    'torch>=2.13; extra == "train"',
    'lm-eval>=0.4; extra == "lm-eval"',
    'tomli; python_version < "3.0"',
    *[f'{package}; extra == "all"' for package in ("torch>=2.13", "lm-eval>=0.4", "ray")],
]


@pytest.fixture
def declared(monkeypatch):
    monkeypatch.setattr(importlib.metadata, "requires", lambda name: DECLARED)
    metadata = importlib.metadata.metadata("emo-instruct")
    del metadata["Provides-Extra"]
    for extra in ("all", "lm-eval", "train"):  # sorted, as hatchling writes them
        metadata["Provides-Extra"] = extra
    monkeypatch.setattr(importlib.metadata, "metadata", lambda name: metadata)


def test_a_command_without_a_package_names_the_extra_in_one_line(declared, capsys):
    def work():
        raise ModuleNotFoundError("No module named 'lm_eval'", name="lm_eval.api")

    assert run_guarded(work) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("instruct: this needs the package ")
    assert line.endswith(machine.pip_install("lm-eval"))


GIT = "https://example.org/i.git"


@pytest.mark.parametrize(
    ("source", "extra", "command"),
    [
        (None, "train", "pip install 'emo-instruct[train]'"),  # from an index
        ({"url": "file:///a", "dir_info": {"editable": True}}, "", "pip install -e /a"),
        (
            {"url": GIT, "vcs_info": {"vcs": "git", "commit_id": "c0"}},
            "vllm",
            f"pip install 'emo-instruct[vllm] @ git+{GIT}@c0'",
        ),
    ],
)
def test_a_hint_installs_from_where_the_package_came(tmp_path, monkeypatch, source, extra, command):
    folder = tmp_path / "emo_instruct-1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: emo-instruct\nVersion: 1\n")
    if source:
        (folder / "direct_url.json").write_text(json.dumps(source))
    monkeypatch.syspath_prepend(tmp_path)
    assert machine.pip_install(extra) == command
