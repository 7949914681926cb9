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


def test_the_notebook_for_colab_has_a_valid_config(tmp_path, monkeypatch):
    import json

    from instruct.config import load_config

    cells = json.loads((EXAMPLES / "colab_t4.ipynb").read_text(encoding="utf-8"))["cells"]
    assert "**Not run yet**" in "".join(cells[0]["source"])
    written, *commands = [
        "".join(cell["source"]) for cell in cells if cell["cell_type"] == "code" and cell["source"][0][0] in "%!"
    ][1:]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "colab.yaml").write_text(written.partition("\n")[2], encoding="utf-8")
    assert commands == ["!instruct run colab.yaml --dry-run", "!instruct run colab.yaml"]
    assert list(load_config("colab.yaml").systems) == ["base", "mle", "emo"]


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


@pytest.mark.slow
def test_the_judging_notebook_runs_offline_in_a_minute(tmp_path, monkeypatch, smollm2):
    import time

    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    monkeypatch.setenv("JUDGING_OUTPUT", str(tmp_path / "run"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = nbformat.read(EXAMPLES / "judging.ipynb", as_version=4)
    client = nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}})
    began = time.process_time()
    client.execute(env=dict(os.environ))
    assert time.process_time() - began < 60
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    printed = "".join(output.text for output in outputs if output.output_type == "stream" and output.name == "stdout")
    assert "smollm2_score: helpful beats unhelpful: weighted win rate" in printed
    assert "agreement of the judge with people: pandalm: κ" in printed
    assert "warning:" in printed
    (frame,) = [o.data["text/html"] for o in outputs if "finding" in o.get("data", {}).get("text/plain", "")]
    assert "<td>helpful</td>" in frame
    assert (tmp_path / "run" / "report" / "report.html").is_file()
    assert (tmp_path / "run" / "summary.md").is_file()


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


def test_the_curve_of_several_runs_is_written_as_a_table_and_a_figure(tmp_path):
    import json
    import subprocess
    import sys

    for system, perplexities in (("mle", (40.0, 20.0)), ("emo", (40.0, 21.0))):
        folder = tmp_path / f"run-{system}" / "adapters" / system
        folder.mkdir(parents=True)
        log = [
            {"step": step, "eval_ce": 3.0, "eval_perplexity": value, "eval_mean_token_accuracy": 0.5}
            for step, value in enumerate(perplexities)
        ]
        (folder / "training_log.json").write_text(json.dumps([*log, {"step": 1, "loss": 3.0}]))
    command = [sys.executable, str(EXAMPLES / "evaluation_curve.py"), "out", "run-mle", "run-emo"]
    subprocess.run(command, cwd=tmp_path, check=True)
    assert (tmp_path / "out" / "evaluations.csv").read_text().splitlines() == [
        "system,step,cross_entropy,perplexity,token_accuracy",
        "mle,0,3.0,40.0,0.5",
        "mle,1,3.0,20.0,0.5",
        "emo,0,3.0,40.0,0.5",
        "emo,1,3.0,21.0,0.5",
    ]
    assert {path.name for path in (tmp_path / "out" / "figures").iterdir()} == {"perplexity.svg", "perplexity.png"}
    nothing = subprocess.run([*command[:2], "out", "no-run"], cwd=tmp_path, capture_output=True, text=True)
    assert nothing.returncode == 1
    assert nothing.stderr.startswith("no evaluations in these runs; train with --data.eval_fraction")
