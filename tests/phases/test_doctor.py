"""`instruct doctor RUN` finds what was damaged, and repairs what loses nothing."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from instruct.base.replies import Completion, Failure
from instruct.judging.store import JudgmentStore
from instruct.phases.systems import warn_of_changed_files
from instruct.run.directory import RunDirectory
from instruct.run.replies import BatchStore

ROOT = Path(__file__).resolve().parents[2]
RECORDED = ROOT / "tests" / "runs_of_today"


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
            "safetensors: is not what was trained",
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
    assert not [line for line in lines(instruct) if line.startswith("warning  replies")]  # journals are kept replies
    (run.outputs / "emo.batches.jsonl").unlink()
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
    (run.folder / ".report.md.12345").write_text("half")
    found = "\n".join(lines(instruct))
    assert "warning  steps     train/emo is not finished" in found
    assert "`instruct train runs/two_judges/config.yaml` goes on after step 2" in found
    assert "1 unfinished file of killed processes" in found
    assert "1 unfinished file removed" in "\n".join(lines(instruct, "--repair"))
    assert not (run.folder / ".report.md.12345").exists()


def test_what_can_be_read_of_a_damaged_store_is_kept(run, instruct):
    with JudgmentStore(run.store) as store:
        before = {key: store.judgments(key) for key in store.comparisons()}
        spent = store.spent_usd()
    with closing(sqlite3.connect(run.store)) as database:
        pages = database.execute("SELECT rootpage FROM sqlite_master WHERE name LIKE 'sqlite_autoindex%'").fetchall()
        size = database.execute("PRAGMA page_size").fetchone()[0]
        database.execute("UPDATE judgments SET preference = -4.0 WHERE rowid = 1")
        database.commit()
    content = bytearray(run.store.read_bytes())
    for (page,) in pages:
        content[(page - 1) * size : (page - 1) * size + 64] = b"\xff" * 64
    run.store.write_bytes(content)
    assert any("is damaged" in line for line in lines(instruct, code=1))
    found = "\n".join(lines(instruct, "--repair"))
    assert "the damaged one is runs/two_judges/judgments.damaged-1.sqlite" in found
    assert (run.folder / "judgments.damaged-1.sqlite").read_bytes() == content
    with JudgmentStore(run.store) as store:
        after = {key: store.judgments(key) for key in store.comparisons()}
        assert store.spent_usd() == spent
    kept, all_of_them = sum(map(len, after.values())), sum(map(len, before.values()))
    assert kept == all_of_them - 1
    assert all(judgment in before[key] for key, judgments in after.items() for judgment in judgments)
    assert "1 verdict of" in found  # the comparison that lost one is not done any more
    assert not [line for line in lines(instruct) if line.startswith("error")]


def test_a_store_of_which_nothing_can_be_read_stays(run, instruct):
    content = run.store.read_bytes()[:100] + b"\xff" * 20_000
    run.store.write_bytes(content)
    code, _, stderr = instruct("doctor", "runs/two_judges", "--repair")
    assert code == 2
    assert "nothing of it can be read; restore it from a copy" in stderr
    assert run.store.read_bytes() == content
    assert [path.name for path in run.folder.glob("judgments*")] == ["judgments.sqlite"]


def test_a_run_that_another_process_works_on_is_not_repaired(run, instruct):
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
        code, _, stderr = instruct("doctor", "runs/two_judges", "--repair")
        assert code == 2
        assert f"process {process.pid} on " in stderr
        process.communicate()


def test_repair_needs_a_run(instruct):
    code, _, stderr = instruct("doctor", "--repair")
    assert code == 2
    assert "--repair repairs a run; name it: instruct doctor RUN --repair" in stderr
