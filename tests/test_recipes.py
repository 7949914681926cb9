"""A recipe as a user runs it: killed in every phase, and undisturbed on real parts."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import forked
import pytest
import stored
from safetensors.torch import load_file

from instruct.judging.store import JudgmentStore

ROOT = Path(__file__).resolve().parent.parent
SMALL = [
    "--config", "demo", "--train.max_steps", "4", "--train.save_steps", "1", "--train.per_device_train_batch_size", "2",
    "--train.max_length", "128", "--data.limit", "24", "--answers.limit", "6", "--answers.generation.batch_size", "2",
    "--answers.generation.max_new_tokens", "8",
]  # fmt: skip


def recipe(name: str, *flags: str) -> list[str]:
    return [sys.executable, str(ROOT / "recipes" / "alpaca_emo.py"), *SMALL, *flags, "--name", name]


def run(command: list[str], folder: Path) -> str:
    done = forked.run(command, folder)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


def completions(run_folder: Path) -> set[str]:
    """The keys of the completions that are committed."""
    if not (run_folder / "judgments.sqlite").is_file():
        return set()
    with JudgmentStore(run_folder / "judgments.sqlite") as store:
        return {key for (key,) in store._db.execute("SELECT key FROM completions")}


def verdicts(run_folder: Path) -> dict[tuple[str, ...], str]:
    with JudgmentStore(run_folder / "judgments.sqlite") as store:
        return {
            (*comparison, judged.instruction, judged.position): judged.verdict
            for comparison in store.comparisons()
            for judged in store.judgments(comparison)
        }


def steps(run_folder: Path) -> dict[str, dict]:
    return json.loads((run_folder / "manifest.json").read_text())["steps"]


@pytest.mark.slow
def test_a_run_killed_in_every_phase_ends_like_an_undisturbed_one(tmp_path, tiny_experiment, run_and_kill):
    undisturbed, killed = tmp_path / "runs" / "undisturbed", tmp_path / "runs" / "killed"
    flags = [
        "--model.name", tiny_experiment["model"]["name"], "--train.max_steps", "8", "--answers.generation.engine",
        "transformers", "--judges", json.dumps(tiny_experiment["judges"]),
        "--model.dtype", "float32",  # in bfloat16 the batch decides near ties
    ]  # fmt: skip
    run(recipe("undisturbed", *flags), tmp_path)

    command = recipe("killed", *flags)
    checkpoints = "checkpoints/emo/checkpoint-*/sha256.json"
    run_and_kill(command, lambda: any(killed.glob(checkpoints)), cwd=tmp_path)
    assert steps(killed)["train/mle"]["status"] == "done"
    assert not (killed / "adapters" / "emo").exists()
    # A reply of the first system is stored.
    outputs = killed / "outputs"
    run_and_kill(command, lambda: any(stored.count(outputs, name) for name in ("mle", "emo")), cwd=tmp_path)
    assert steps(killed)["answers"]["status"] == "started"
    run_and_kill(command, lambda: len(completions(killed)) > 0, cwd=tmp_path)
    committed = completions(killed)
    run(command, tmp_path)

    for name in ("mle", "emo"):
        ours, theirs = (
            load_file(folder / "adapters" / name / "adapter_model.safetensors") for folder in (killed, undisturbed)
        )
        assert all((ours[key] == theirs[key]).all() for key in theirs)
        ours, theirs = ((folder / "outputs" / f"{name}.json").read_text() for folder in (killed, undisturbed))
        assert ours == theirs
    assert verdicts(killed) == verdicts(undisturbed)
    assert len(verdicts(killed)) == 3 * 6 * 2
    assert committed <= completions(killed) == completions(undisturbed)
    report, other = (json.loads((folder / "report" / "report.json").read_text()) for folder in (killed, undisturbed))
    assert report["judges"] == other["judges"]


@pytest.mark.xdist_group("vllm")
def test_the_demo_runs_and_a_rerun_does_nothing_again(tmp_path, smollm2):
    demo = tmp_path / "runs" / "demo"
    command = recipe("demo", "--train.max_steps", "2", "--train.max_length", "64", "--answers.limit", "2")
    out = run(command, tmp_path)
    assert "This judge is for trying things out" in out
    assert "report: runs/demo/report/report.md" in out
    assert len(verdicts(demo)) == 3 * 2  # each answer is scored alone, so there is one order

    before = steps(demo)
    run(command, tmp_path)
    assert steps(demo) == before  # nothing is done again
