"""Two files of answers, compared without a run of one's own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from _pytest.monkeypatch import MonkeyPatch

from instruct.base.errors import InputError
from instruct.judging.answer_files import run_of_answers


def answers(path: Path, outputs: list[str], generator: str = "someone", question: str = "Question") -> Path:
    rows = [
        {"instruction": f"{question} {n}?", "output": text, "generator": generator} for n, text in enumerate(outputs)
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(rows))
    return path


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_systems_are_called_like_their_files(tmp_path):
    ours, theirs = answers(Path("ours.json"), ["a", "b"]), answers(Path("theirs.model_outputs.json"), ["c", "d"])
    run, candidate, baseline = run_of_answers("runs/x", ours, theirs)
    assert (candidate, baseline) == ("ours", "theirs")
    assert {path.name: path.read_text() for path in run.outputs.iterdir()} == {
        "ours.json": ours.read_text(),
        "theirs.json": theirs.read_text(),
    }
    assert run.config()["name"] == "x"


def test_files_of_one_name_are_called_like_their_generators():
    ours = answers(Path("one/model_outputs.json"), ["a"], generator="org/ours")
    theirs = answers(Path("two/model_outputs.json"), ["b"], generator="theirs")
    assert run_of_answers("runs/x", ours, theirs)[1:] == ("org-ours", "theirs")


def test_files_that_cannot_be_told_apart_are_refused():
    ours, theirs = (answers(Path(f"{name}/model_outputs.json"), [name]) for name in ("one", "two"))
    with pytest.raises(InputError, match="both are called 'someone'; rename one of the files"):
        run_of_answers("runs/x", ours, theirs)
    assert not Path("runs").exists()


def test_the_same_files_continue_the_run_and_other_answers_are_refused():
    ours, theirs = answers(Path("ours.json"), ["a"]), answers(Path("theirs.json"), ["b"])
    run_of_answers("runs/x", ours, theirs)
    run, *_ = run_of_answers("runs/x", ours, theirs)
    kept = (run.outputs / "ours.json").read_text()
    answers(Path("ours.json"), ["another"])
    with pytest.raises(InputError, match=r"ours.json: .*outputs/ours.json has other answers; give another --output"):
        run_of_answers("runs/x", ours, theirs)
    assert (run.outputs / "ours.json").read_text() == kept


def test_answers_to_different_prompts_leave_no_run():
    ours, theirs = answers(Path("ours.json"), ["a"]), answers(Path("theirs.json"), ["b"], question="What")
    with pytest.raises(InputError, match="of the other side missing"):
        run_of_answers("runs/x", ours, theirs)
    assert not Path("runs").exists()
