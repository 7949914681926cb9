"""`instruct doctor RUN` finds what was damaged."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from instruct.base.replies import Completion, Failure
from instruct.phases.systems import warn_of_changed_files
from instruct.run.directory import RunDirectory
from instruct.run.replies import BatchStore

ROOT = Path(__file__).resolve().parents[2]
RECORDED = ROOT / "tests" / "recorded_runs"


@pytest.fixture
def run(tmp_path, monkeypatch) -> RunDirectory:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("instruct.run.replies._checked", set())
    shutil.copytree(RECORDED / "two_judges", "runs/two_judges")
    return RunDirectory("runs/two_judges")


def lines(instruct, *call: str, code: int = 0) -> list[str]:
    found, stdout, stderr = instruct("doctor", "runs/two_judges", *call)
    assert found == code, stdout + stderr
    return stdout.splitlines()


def test_a_whole_run_is_told_to_be_whole(run, instruct):
    before = {path: path.read_bytes() for path in run.folder.rglob("*") if path.is_file()}
    found = lines(instruct)
    assert not [line for line in found if line.startswith("error")]
    for name in ("emo", "mle"):
        assert any(f"outputs/{name}.json: as generated" in line for line in found), found
    assert any("judgments.sqlite: whole" in line for line in found)
    assert any("all that were begun are finished; next: instruct report" in line for line in found)
    after = {path: path.read_bytes() for path in run.folder.rglob("*") if path.is_file() and path.suffix != ".lock"}
    assert {path: content for path, content in after.items() if path in before} == before


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda run: (run.outputs / "emo.json").write_text("[]"), "outputs/emo.json: is not what was generated"),
        (lambda run: (run.outputs / "emo.json").unlink(), "outputs/emo.json: is recorded, and is not there"),
        (lambda run: (run.outputs / "baseline.json").write_text("[]"), "outputs/baseline.json: is not what was judged"),
        (lambda run: (run.outputs / "baseline.json").unlink(), "outputs/baseline.json: was judged, and is not there"),
        (lambda run: run.store.unlink(), "judgments.sqlite: is missing, but judge/in_words/emo_vs_baseline is"),
        (lambda run: (run.folder / "metrics.json").write_text("{"), "metrics.json: (top level): Invalid JSON"),
        (
            lambda run: next((run.adapters / "emo").glob("*.safetensors")).write_bytes(b"x"),
            "safetensors: was modified after training",
        ),
        (lambda run: shutil.rmtree(run.adapters / "emo"), "adapters/emo: train/emo is done, and it is not there"),
        (
            lambda run: (run.outputs / "emo.replies.sqlite").write_bytes(b"x" * 5000),
            "is not a store of answers",
        ),
    ],
)
def test_each_damaged_file_is_named_with_its_remedy(run, instruct, damage, told):
    damage(run)
    found = lines(instruct, code=1)
    places = [number for number, line in enumerate(found) if line.startswith("error") and told in line]
    assert len(places) == 1, found
    assert "fix: " in found[places[0] + 1]


def test_replies_that_are_gone_are_a_warning(run, instruct):
    """The answers are whole, so nothing is wrong; but what was paid for is kept in one place less."""
    assert not [line for line in lines(instruct) if line.startswith("warning  replies")]
    (run.outputs / "emo.replies.sqlite").unlink()
    assert "warning  replies   runs/two_judges/outputs/emo.replies.sqlite: is not there" in "\n".join(lines(instruct))
    with BatchStore(run.outputs / "emo.replies.sqlite") as store:
        store.add_batch("work", "engine", 0, 1.0, {f"emo/0/{place}/x": Completion("Yes.") for place in range(4)})
    assert "emo.replies.sqlite: 2 of the replies to 6 prompts are missing" in "\n".join(lines(instruct))
    with BatchStore(run.outputs / "emo.replies.sqlite") as store:
        failures = {f"emo/1/{place}/x": Failure("HTTP 400", permanent=True) for place in range(2)}
        store.add_batch("work", "engine", 1, 1.0, failures)
    assert "ok       replies   runs/two_judges/outputs/emo.replies.sqlite: whole" in "\n".join(lines(instruct))


def test_answers_that_were_changed_are_named_when_answering_ends(run, caplog):
    warn_of_changed_files(run)
    assert not caplog.messages
    rows = json.loads((run.outputs / "mle.json").read_text())
    (run.outputs / "mle.json").write_text(json.dumps([row | {"output": "Mine."} for row in rows]))
    warn_of_changed_files(run)
    (line,) = caplog.messages
    assert "outputs/mle.json: is not what was generated; restore it, or delete it" in line


def test_an_unfinished_step_says_what_the_next_command_does(run, instruct):
    manifest = json.loads(run.manifest_path.read_text())
    manifest["steps"]["train/emo"]["status"] = "started"
    run.manifest_path.write_text(json.dumps(manifest))
    state = run.folder / "checkpoints" / "emo" / "checkpoint-2" / "trainer_state.json"
    state.parent.mkdir(parents=True)
    state.write_text('{"global_step": 2}')
    (run.folder / ".report.md.0123456789abcdef.unfinished").write_text("half")
    found = "\n".join(lines(instruct))
    assert "warning  steps     train/emo is not finished" in found
    assert "`instruct train runs/two_judges/config.yaml` resumes after step 2" in found
    assert "1 unfinished file of killed processes" in found


def test_a_run_that_another_process_works_on_is_told(run, instruct):
    program = (
        "import sys\nfrom instruct.run.directory import RunDirectory\n"
        "from instruct.run.lock import VERDICTS, only_process\n"
        "with only_process(RunDirectory(sys.argv[1]), VERDICTS):\n    print('held', flush=True)\n    sys.stdin.read()"
    )
    command = [sys.executable, "-c", program, str(run.folder.resolve())]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout
        assert process.stdout.readline() == "held\n"
        assert any(f"process {process.pid} on " in line and "is judging this run" in line for line in lines(instruct))
        process.communicate()
