"""The run directory and its manifest."""

from __future__ import annotations

import json
import os

import pytest

from instruct.base.errors import InputError
from instruct.base.files import write_atomically
from instruct.run.directory import RunDirectory, newest_run, whole_run


@pytest.fixture
def run(tmp_path):
    run = RunDirectory(tmp_path / "runs" / "one")
    run.start({"name": "one", "train": {"learning_rate": 0.1}, "judges": [{"card": "a"}]})
    return run


def test_a_step_is_done_only_for_its_own_inputs(run):
    assert not run.is_done("train/emo", {"data": "1"})
    with run.step("train/emo", {"data": "1"}) as results:
        results["steps"] = 3
    assert run.is_done("train/emo", {"data": "1"})
    assert not run.is_done("train/emo", {"data": "2"})
    record = run.manifest()["steps"]["train/emo"]
    assert record["results"] == {"steps": 3}
    assert record["attempts"] == 1


def test_an_interrupted_step_is_not_done_and_is_counted(run):
    with pytest.raises(RuntimeError), run.step("train/emo", {"data": "1"}):
        raise RuntimeError("killed")
    assert not run.is_done("train/emo", {"data": "1"})
    with run.step("train/emo", {"data": "1"}):
        pass
    assert run.manifest()["steps"]["train/emo"]["attempts"] == 2


def test_a_different_config_in_the_same_directory_is_refused(run):
    run.start({"name": "one", "train": {"learning_rate": 0.1}, "judges": [{"card": "a", "base_url": None}]})
    with pytest.raises(InputError, match=r"started with a different train\.learning_rate; .*`name`"):
        run.start({"name": "one", "train": {"learning_rate": 0.2}, "judges": [{"card": "a"}]})


def test_the_newest_run_is_the_newest_that_has_what_is_needed(tmp_path):
    root = tmp_path / "runs"
    for age, name in [(100, "old"), (0, "new")]:
        run = RunDirectory(root / name)
        run.start({"name": name})
        os.utime(run.manifest_path, (1e9 - age, 1e9 - age))
    write_atomically(root / "old" / "outputs" / "emo.json", "[]")
    assert newest_run("manifest.json", root).folder.name == "new"
    assert newest_run("outputs/*.json", root).folder.name == "old"
    with pytest.raises(InputError, match=r"no run in .* has adapters"):
        newest_run("adapters/*", root)


def test_a_folder_that_is_not_a_run_is_refused(tmp_path):
    with pytest.raises(InputError, match="is not a run directory"):
        RunDirectory(tmp_path).manifest()
    (tmp_path / "manifest.json").write_text("[" * 100_000)
    with pytest.raises(InputError, match="is not valid JSON"):
        RunDirectory(tmp_path).manifest()


def test_a_damaged_config_is_refused_in_one_line(run):
    (run.folder / "config.yaml").write_text("name: [")
    with pytest.raises(InputError, match=r"config\.yaml: .*; restore it or delete the run"):
        run.config()


def test_a_run_of_another_format_is_refused(run):
    run.manifest_path.write_text(json.dumps(run.manifest() | {"format": 4}))
    with pytest.raises(InputError, match=r"manifest\.json: is of another format than 3; use the version"):
        run.manifest()


def test_a_new_run_is_its_owners_alone_and_stays_as_it_was_opened(run, tmp_path):
    assert run.folder.stat().st_mode & 0o777 == 0o700
    run.folder.chmod(0o755)
    run.start(run.config())
    assert run.folder.stat().st_mode & 0o777 == 0o755
    with whole_run(tmp_path / "made", {}):
        pass
    assert (tmp_path / "made").stat().st_mode & 0o777 == 0o700
