"""The example notebooks: stored without output, and executed from the first cell to the last."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


@pytest.mark.slow
def test_the_quickstart_runs(tmp_path, monkeypatch, smollm2):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    for name, value in {"ROWS": 2, "HELD_OUT": 1, "STEPS": 1, "OUTPUT": tmp_path / "run"}.items():
        monkeypatch.setenv(f"QUICKSTART_{name}", str(value))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = nbformat.read(EXAMPLES / "quickstart.ipynb", as_version=4)
    client = nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}})
    client.execute(env=dict(os.environ))
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    printed = "".join(output.text for output in outputs if output.output_type == "stream" and output.name == "stdout")
    assert (printed.count("PROMPT"), printed.count("\nEMO ")) == (1, 1)


@pytest.mark.slow
def test_the_training_loop_shifts_masks_and_flattens_like_the_model(tiny_model_folder):
    """Its first cross-entropy is the one that transformers computes from the same labels."""
    import runpy
    import subprocess
    import sys

    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    script = EXAMPLES / "training_loop.py"
    command = [sys.executable, str(script), str(tiny_model_folder)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    ces = [float(line.split("ce ")[1].split(",")[0]) for line in printed]
    assert len(ces) == 5
    assert ces[-1] < ces[0]

    tokenizer = AutoTokenizer.from_pretrained(tiny_model_folder)
    model = AutoModelForCausalLM.from_pretrained(tiny_model_folder, dtype=torch.float32)
    total, tokens = 0.0, 0
    for prompt, completion in runpy.run_path(str(script))["ROWS"]:  # one at a time: no padding
        before, after = tokenizer(prompt).input_ids, [*tokenizer(completion).input_ids, tokenizer.eos_token_id]
        labels = torch.tensor([[-100] * len(before) + after])
        loss = model(input_ids=torch.tensor([before + after]), labels=labels).loss
        total, tokens = total + loss.item() * len(after), tokens + len(after)
    assert printed[0].endswith(f"{tokens} tokens")
    assert ces[0] == pytest.approx(total / tokens, abs=1e-3)
