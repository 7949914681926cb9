"""Checkpoints and weights that were damaged after they had been written: refused in a line, or passed over."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import torch
from train_configs import have_the_same_weights, tiny_config, train, write_rows
from train_configs import interrupted as interrupted_training

from instruct.base.errors import InputError
from instruct.phases.answer import Answering
from instruct.reporting.read import training_logs
from instruct.training import checkpoints
from instruct.training.checkpoints import last_complete_checkpoint, record_hashes
from instruct.training.merge import merge_adapter
from instruct.training.train import check_weights


def truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def overwrite(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)


def replace(file: Path) -> None:
    torch.save({"not": "this"}, file)


DAMAGES = [
    (truncate, "adapter_model.safetensors"),
    (overwrite, "adapter_model.safetensors"),
    (Path.unlink, "adapter_model.safetensors"),
    (replace, "optimizer.pt"),
    (replace, "scheduler.pt"),
    (replace, "rng_state.pth"),
    (truncate, "trainer_state.json"),
    (truncate, "sha256.json"),
]


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory, tiny_model_folder):
    """A training that was interrupted after its last step, with the checkpoints 2, 4 and 6; and its config."""
    folder = tmp_path_factory.mktemp("interrupted")
    config = tiny_config(tiny_model_folder, write_rows(folder / "rows.jsonl"))
    config.train["save_total_limit"] = 3

    interrupted_training(folder / "run", config)
    return folder / "run", config


@pytest.mark.parametrize(("damage", "name"), DAMAGES, ids=lambda value: getattr(value, "__name__", value))
def test_a_damaged_checkpoint_is_passed_over_with_a_warning(tmp_path, interrupted, damage, name, caplog):
    checkpoints = tmp_path / "emo"
    shutil.copytree(interrupted[0] / "checkpoints" / "emo", checkpoints)
    damage(checkpoints / "checkpoint-6" / name)
    assert last_complete_checkpoint(checkpoints) == str(checkpoints / "checkpoint-4")
    (line,) = caplog.messages
    assert f"checkpoint-6: {name} is damaged; training goes on from checkpoint-4" in line
    assert not (checkpoints / "checkpoint-6").exists()


def test_the_only_checkpoint_is_refused_if_it_is_damaged(tmp_path, interrupted):
    shutil.copytree(interrupted[0] / "checkpoints" / "emo" / "checkpoint-6", tmp_path / "checkpoint-6")
    replace(tmp_path / "checkpoint-6" / "optimizer.pt")
    with pytest.raises(InputError, match=r"checkpoint-6: optimizer\.pt is damaged, and there is no older checkpoint"):
        last_complete_checkpoint(tmp_path)
    assert (tmp_path / "checkpoint-6").is_dir()


@pytest.mark.parametrize("cut", [False, True])
def test_training_goes_on_from_the_checkpoint_before_a_damaged_one(tmp_path, interrupted, cut):
    """Or before one that was cut off: a power cut leaves files that have their names and not all of their content."""
    run, config = interrupted
    shutil.copytree(run, tmp_path / "damaged")
    last = tmp_path / "damaged" / "checkpoints" / "emo" / "checkpoint-6"
    truncate(last / "adapter_model.safetensors")
    if cut:
        (last / "sha256.json").unlink()
    damaged, fresh = (train(tmp_path / name, config) for name in ("damaged", "fresh"))
    assert have_the_same_weights(damaged, fresh)


def test_older_checkpoints_are_kept_until_a_newer_one_is_whole(tmp_path, tiny_model_folder, monkeypatch):
    config = tiny_config(tiny_model_folder, write_rows(tmp_path / "rows.jsonl"))
    folder = tmp_path / "run" / "checkpoints" / "emo"
    seen = []
    recorded = checkpoints.record_hashes
    monkeypatch.setattr(
        checkpoints,
        "record_hashes",
        lambda path: (recorded(path), seen.append(sorted(other.name for other in folder.glob("checkpoint-*")))),
    )
    train(tmp_path / "run", config)
    assert seen == [["checkpoint-2"], ["checkpoint-2", "checkpoint-4"], ["checkpoint-4", "checkpoint-6"]]


STATE = ("optimizer.pt", "scheduler.pt", "rng_state.pth")


@pytest.mark.parametrize(
    ("files", "processes"),
    [
        *((tuple({*STATE} - {name}), 1) for name in STATE),
        ((*STATE[:2], "rng_state_0.pth", "rng_state_1.pth"), 1),
        (STATE, 2),
    ],
)
def test_a_checkpoint_without_a_state_or_of_other_processes_is_passed_over(tmp_path, files, processes):
    ranks = [f"rng_state_{rank}.pth" for rank in range(processes)] if processes > 1 else STATE[2:]
    for step, names in ((2, (*STATE[:2], *ranks)), (4, files)):
        folder = tmp_path / f"checkpoint-{step}"
        folder.mkdir()
        for name in names:
            (folder / name).touch()
        record_hashes(folder)
    (tmp_path / "checkpoint-2 copy").mkdir()
    assert last_complete_checkpoint(tmp_path, processes) == str(tmp_path / "checkpoint-2")
    assert (tmp_path / "checkpoint-4").exists() == (len(files) < 3)  # it is kept where only a state is missing


def test_every_file_of_a_training_is_checked_but_its_card_which_people_may_change(tmp_path, tiny_model_folder):
    config = tiny_config(tiny_model_folder, write_rows(tmp_path / "rows.jsonl"))
    config.train["max_steps"] = 1
    run = train(tmp_path / "run", config)
    adapter = run.adapters / "emo"
    weights, settings, log = (
        adapter / name for name in ("adapter_model.safetensors", "adapter_config.json", "training_log.json")
    )
    trained, text = weights.read_bytes(), settings.read_text()
    for damage in (truncate, overwrite, Path.unlink):
        damage(weights)
        refusal = r"emo/adapter_model\.safetensors: was modified after training .* delete .*/emo "
        with pytest.raises(InputError, match=refusal):
            check_weights(run, "emo")
        weights.write_bytes(trained)
    overwrite(weights)
    for refused in (
        partial(train, run.folder, config),
        partial(Answering(config).generate, run),
        partial(merge_adapter, config, run),
    ):
        with pytest.raises(InputError, match=r"adapter_model\.safetensors: was modified"):
            refused()
    weights.write_bytes(trained)
    settings.write_text(text.replace('"lora_alpha": ', '"lora_alpha": 9'))  # it answers otherwise, but loads
    with pytest.raises(InputError, match=r"emo/adapter_config\.json: was modified after training"):
        check_weights(run, "emo")
    settings.write_text(text)
    (adapter / "README.md").write_text("Mine.")
    log.write_text("[]")
    check_weights(run, "emo")  # a log answers nothing
    with pytest.raises(InputError, match=r"emo/training_log\.json: is not what the training wrote; .* delete it"):
        training_logs(run, run.manifest())
    log.unlink()
    assert training_logs(run, run.manifest()) == {}
    shutil.rmtree(adapter)
    train(tmp_path / "run", config)
    assert weights.read_bytes() == trained


@pytest.mark.slow
def test_two_trainings_of_one_system_at_once_do_not_disturb_each_other(tmp_path, tiny_model_folder):
    command = [
        sys.executable, "-m", "instruct", "train", "--model", str(tiny_model_folder), "--data.files",
        write_rows(tmp_path / "rows.jsonl"), "--objective", "emo", "--name", "both", "--model.dtype", "float32",
        "--train.max_steps", "60", "--train.save_steps", "2", "--train.per_device_train_batch_size", "4",
    ]  # fmt: skip
    both = [subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    errors = [process.communicate(timeout=300)[1] for process in both]
    codes = [process.returncode for process in both]
    assert sorted(codes) == [0, 2], errors
    lines = [line for line in errors[codes.index(2)].splitlines() if line.startswith("instruct: ")]
    assert len(lines) == 1
    assert "is training emo; wait until it ends" in lines[0]
    results = json.loads((tmp_path / "runs" / "both" / "manifest.json").read_text())["steps"]["train/emo"]["results"]
    assert results["steps"] == 60
    assert subprocess.run(command, cwd=tmp_path).returncode == 0
