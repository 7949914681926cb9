"""Which extra installs a missing package."""

from __future__ import annotations

import importlib.metadata
import json
import re

import pytest
from packaging.requirements import Requirement

import instruct
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


def test_the_installed_base_needs_no_torch():
    base = {Requirement(text).name for text in machine.requirements()}
    train = {Requirement(text).name for text in machine.requirements("train")}
    assert {"alpaca-eval", "openai", "setuptools"} <= base
    assert {"torch", "transformers", "trl", "peft"} <= train
    assert not base & train


@pytest.mark.parametrize(("module", "extra"), [("torch", "train"), ("torch.nn", "train"), ("lm_eval.api", "lm-eval")])
def test_a_command_without_a_package_names_the_extra_in_one_line(declared, capsys, module, extra):
    def work():
        raise ModuleNotFoundError(f"No module named {module!r}", name=module)

    assert run_guarded(work) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("instruct: this needs the package ")
    assert line.endswith(machine.pip_install(extra))


FILE, GIT = "file:///a/emo_instruct-1-py3-none-any.whl", "https://example.org/i.git"


@pytest.mark.parametrize(
    ("source", "extra", "command"),
    [
        (None, "train", "pip install 'emo-instruct[train]'"),  # from an index
        (None, "", "pip install emo-instruct"),
        ({"url": "file:///a/my%20copy", "dir_info": {}}, "train", "pip install '/a/my copy[train]'"),
        ({"url": "file:///a", "dir_info": {"editable": True}}, "lm-eval", "pip install -e '/a[lm-eval]'"),
        ({"url": "file:///a", "dir_info": {"editable": True}}, "", "pip install -e /a"),
        ({"url": FILE, "archive_info": {}}, "train", f"pip install 'emo-instruct[train] @ {FILE}'"),
        (
            {"url": GIT, "vcs_info": {"vcs": "git", "commit_id": "c0"}, "subdirectory": "b"},
            "vllm",
            f"pip install 'emo-instruct[vllm] @ git+{GIT}@c0#subdirectory=b'",
        ),
        (
            {"url": GIT, "vcs_info": {"vcs": "git", "commit_id": "c0", "requested_revision": "v1"}},
            "",
            f"pip install 'emo-instruct @ git+{GIT}@v1'",
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


def test_a_public_name_names_the_extra(declared, monkeypatch):
    import importlib

    def without_torch(name):
        raise ModuleNotFoundError("No module named 'torch'", name="torch")

    monkeypatch.setattr(importlib, "import_module", without_torch)
    monkeypatch.delitem(vars(instruct), "EMOTrainer", raising=False)
    with pytest.raises(ImportError, match=f"instruct.EMOTrainer: .* {re.escape(machine.pip_install('train'))}"):
        _ = instruct.EMOTrainer
