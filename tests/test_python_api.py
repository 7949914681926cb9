"""What the README promises to a Python user: the snippet runs as printed, the public names, the packaged model."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

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
