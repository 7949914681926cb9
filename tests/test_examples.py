"""The example notebooks: stored without output, and executed from the first cell to the last."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


def test_notebooks_are_stored_without_output():
    nbformat = pytest.importorskip("nbformat")
    for path in EXAMPLES.glob("*.ipynb"):
        cells = nbformat.read(path, as_version=4).cells
        assert all(cell.outputs == [] and cell.execution_count is None for cell in cells if cell.cell_type == "code")


@pytest.mark.slow
def test_the_quickstart_runs(tmp_path, monkeypatch, smollm2):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    for name, value in {"ROWS": 4, "HELD_OUT": 2, "STEPS": 1, "OUTPUT": tmp_path / "run"}.items():
        monkeypatch.setenv(f"QUICKSTART_{name}", str(value))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = nbformat.read(EXAMPLES / "quickstart.ipynb", as_version=4)
    client = nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}})
    client.execute(env=dict(os.environ))

    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    (table,) = [o.data["text/html"] for o in outputs if "token accuracy" in o.get("data", {}).get("text/plain", "")]
    assert all(f"<th>{name}</th>" in table for name in ("before", "mle", "emo"))
    printed = "".join(output.text for output in outputs if output.output_type == "stream" and output.name == "stdout")
    assert printed.count("PROMPT") == 2
    assert printed.count("\nEMO ") == 2
