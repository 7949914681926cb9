"""`instruct doctor`: a usable installation, broken ones, and keys that stay secret."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from instruct.base import machine as devices
from instruct.command import doctor

ROOT = Path(__file__).resolve().parents[2]
SECRET = "sk-this-must-never-be-printed"


def run_doctor_with(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command, with the packages in `folder` found before the installed ones."""
    variables = os.environ | {"PYTHONPATH": f"{folder}{os.pathsep}{ROOT}", "HF_HUB_OFFLINE": "1"} | environment
    command = [sys.executable, "-m", "instruct", "doctor"]
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True)


@pytest.mark.slow
def test_a_usable_installation_exits_0_and_keys_are_not_shown(tmp_path):
    keys = {"OPENAI_API_KEY": SECRET, "HF_TOKEN": f"hf_{SECRET}"}
    done = run_doctor_with(tmp_path, **keys, HF_ENDPOINT=f"https://user:{SECRET}@127.0.0.1:9", HF_HUB_OFFLINE="0")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "OPENAI_API_KEY: set, HF_TOKEN: set" in done.stdout
    assert "the Hugging Face Hub is out of reach" in done.stdout  # a warning, not an error
    assert "error" not in {line.split()[0] for line in done.stdout.splitlines()}
    assert SECRET not in done.stdout + done.stderr


@pytest.mark.slow
def test_a_broken_installation_exits_1_with_a_remedy_for_each_error(tmp_path):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise OSError('libtorch_cpu.so: cannot open shared object file')")
    (tmp_path / "trl-0.1.0.dist-info").mkdir()
    (tmp_path / "trl-0.1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: trl\nVersion: 0.1.0\n")
    done = run_doctor_with(tmp_path, OPENAI_API_KEY=SECRET)
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    errors = [index for index, line in enumerate(lines) if line.startswith("error")]
    assert any("trl 0.1.0 installed; needed: trl==1.16.*" in lines[index] for index in errors)
    assert any("libtorch_cpu.so: cannot open shared object file" in lines[index] for index in errors)
    assert all("fix: " in lines[index + 1] for index in errors)
    assert done.stderr.splitlines() == [
        "instruct: doctor: not usable yet; fix the lines marked error: packages, imports, gpu"
    ]
    assert SECRET not in done.stdout + done.stderr


def stand_in_for_torch(monkeypatch, cuda: str | None) -> None:
    """No machine of the tests has both an NVIDIA device and a CUDA build that cannot see it."""

    def init() -> None:
        raise RuntimeError("The NVIDIA driver on your system is too old (found version 11040). Please update it.")

    found = SimpleNamespace(is_available=lambda: False, init=init)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=found, version=SimpleNamespace(cuda=cuda)))


@pytest.mark.parametrize(
    ("cuda", "remedy"), [("13.0", "update the driver"), (None, "make venv REQUIREMENTS=requirements/gpu.txt")]
)
def test_an_nvidia_gpu_that_pytorch_cannot_use_is_an_error(monkeypatch, tmp_path, cuda, remedy):
    stand_in_for_torch(monkeypatch, cuda)
    monkeypatch.setattr(devices, "NVIDIA_DEVICES", (tmp_path,))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    (finding,) = doctor.gpu()
    assert finding.state == "error"
    assert remedy in finding.remedy
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert [finding.state for finding in doctor.gpu()] == ["ok"]
