"""What the README promises to a Python user: the snippet runs as printed, the public names, the packaged model."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import instruct
from instruct.base.models import has_bfloat16_instructions

ROOT = Path(__file__).resolve().parent.parent


def readme_snippet() -> str:
    (snippet,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    return snippet


@pytest.mark.slow
def test_the_readme_snippet_runs_as_printed(tmp_path, monkeypatch, smollm2):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    done = subprocess.run([sys.executable, "-c", readme_snippet()], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "'train_loss'" in done.stdout + done.stderr
    assert any((tmp_path / "out").glob("checkpoint-*/*.safetensors"))


@pytest.mark.skipif(torch.accelerator.is_available(), reason="this machine has a GPU")
def test_emo_config_with_defaults_works_on_a_cpu(tmp_path):
    arguments = instruct.EMOConfig(str(tmp_path))
    assert arguments.use_cpu
    assert arguments.bf16 == has_bfloat16_instructions()  # TRL's default is True


def test_dir_shows_the_exports_before_anything_is_imported():
    code = "import sys, instruct; print(*dir(instruct)); assert 'torch' not in sys.modules"
    names = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert set(instruct.__all__) <= set(names)


def test_model_path_finds_the_packaged_model(smollm2):
    assert instruct.model_path("smollm2-135m-instruct") == smollm2
    assert (Path(smollm2) / "model.safetensors").is_file()
    assert instruct.model_path("Qwen/Qwen2.5-0.5B-Instruct") == "Qwen/Qwen2.5-0.5B-Instruct"
