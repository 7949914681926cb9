"""Checkpoints and weights that were damaged after they had been written: refused in a line, or passed over."""

from __future__ import annotations

import shutil
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
    (overwrite, "adapter_model.safetensors"),
    (Path.unlink, "adapter_model.safetensors"),
    (replace, "optimizer.pt"),
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


def test_training_goes_on_from_the_checkpoint_before_a_damaged_one(tmp_path, interrupted):
    """A power cut leaves files that have their names and not all of their content."""
    run, config = interrupted
    shutil.copytree(run, tmp_path / "damaged")
    last = tmp_path / "damaged" / "checkpoints" / "emo" / "checkpoint-6"
    truncate(last / "adapter_model.safetensors")
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


def test_a_checkpoint_of_other_processes_is_passed_over(tmp_path):
    for step, states in ((2, ["rng_state_0.pth", "rng_state_1.pth"]), (4, ["rng_state.pth"])):
        folder = tmp_path / f"checkpoint-{step}"
        folder.mkdir()
        for name in ("optimizer.pt", "scheduler.pt", *states):
            (folder / name).touch()
        record_hashes(folder)
    assert last_complete_checkpoint(tmp_path, processes=2) == str(tmp_path / "checkpoint-2")


def test_every_file_of_a_training_is_checked_but_its_card_which_people_may_change(tmp_path, tiny_model_folder):
    config = tiny_config(tiny_model_folder, write_rows(tmp_path / "rows.jsonl"))
    config.train["max_steps"] = 1
    run = train(tmp_path / "run", config)
    adapter = run.adapters / "emo"
    weights, settings, log = (
        adapter / name for name in ("adapter_model.safetensors", "adapter_config.json", "training_log.json")
    )
    trained, text = weights.read_bytes(), settings.read_text()
    overwrite(weights)
    for refused in (partial(Answering(config).generate, run), partial(merge_adapter, config, run)):
        with pytest.raises(
            InputError, match=r"emo/adapter_model\.safetensors: was modified after training .* delete .*/emo "
        ):
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
    shutil.rmtree(adapter)
    train(tmp_path / "run", config)
    assert weights.read_bytes() == trained
