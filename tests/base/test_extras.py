"""Which extra installs a missing package."""

from __future__ import annotations

import importlib.metadata

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


def test_requirements_are_told_apart_by_extra(declared):
    assert list(machine.requirements()) == ["numpy>=2.0"]
    assert list(machine.requirements("train")) == ["torch>=2.13"]
    assert list(machine.requirements("vllm")) == []


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
    assert line.endswith(f"pip install 'emo-instruct[{extra}]'")


def test_a_missing_package_that_no_extra_installs_stays_a_traceback(declared):
    def work():
        raise ModuleNotFoundError("No module named 'unheard_of'", name="unheard_of")

    with pytest.raises(ModuleNotFoundError):
        run_guarded(work)


def test_a_public_name_names_the_extra(declared, monkeypatch):
    import importlib

    def without_torch(name):
        raise ModuleNotFoundError("No module named 'torch'", name="torch")

    monkeypatch.setattr(importlib, "import_module", without_torch)
    monkeypatch.delitem(vars(instruct), "EMOTrainer", raising=False)
    with pytest.raises(ImportError, match=r"instruct.EMOTrainer: .* pip install 'emo-instruct\[train\]'"):
        _ = instruct.EMOTrainer
