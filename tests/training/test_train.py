"""Training as a user calls it: a config or flags in, an adapter out; killed and taken up again."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
import torch
from peft import PeftModel
from test_plain_text import write_texts
from train_configs import have_the_same_weights, interrupted, metrics, tiny_config, train, write_rows
from transformers import AutoModelForCausalLM

from instruct.base.errors import InputError
from instruct.engines.canary import read_canary
from instruct.run.directory import RunDirectory
from instruct.training.merge import merge_adapter


@pytest.fixture
def rows(tmp_path) -> str:
    return write_rows(tmp_path / "rows.jsonl")


def test_training_writes_an_adapter_a_card_and_logs(tmp_path, tiny_model_folder, rows):
    run = train(tmp_path / "run", tiny_config(tiny_model_folder, rows))
    adapter = run.adapters / "emo"
    assert not list(run.folder.rglob("*.bin"))  # pickles
    card = (adapter / "README.md").read_text()
    assert "objective **emo** (variant official" in card
    assert "24 complete rows and 0 truncated" in card
    log = json.loads((adapter / "training_log.json").read_text())
    assert {"ce", "cost", "ratio", "mean_token_accuracy"} <= set(log[0])
    results = run.manifest()["steps"]["train/emo"]["results"]
    assert (results["steps"], results["rows"]["kept"]) == (6, 24)
    file = adapter / "adapter_model.safetensors"
    before = file.stat().st_mtime_ns
    train(tmp_path / "run", tiny_config(tiny_model_folder, rows))
    assert file.stat().st_mtime_ns == before  # it is not trained again


def test_every_objective_is_made_by_its_name_with_its_arguments():
    from instruct.objectives.built_in import OBJECTIVES
    from instruct.training import objective_names
    from instruct.training.emo_config import objective_of

    assert tuple(OBJECTIVES) == objective_names.OBJECTIVES
    for name, kind in OBJECTIVES.items():
        assert repr(objective_of(name, {})) == repr(kind())
    assert objective_of("tailr", {"variant": "official"}) == OBJECTIVES["tailr"](0.8, "official")


def test_a_non_finite_loss_ends_the_command_with_one_line(tmp_path, tiny_model_folder, rows, capsys):
    from instruct.base.output import run_guarded

    config = tiny_config(tiny_model_folder, rows, lora=None)
    config.train |= {"learning_rate": 1e30, "warmup_steps": 0, "max_grad_norm": 0.0}
    assert run_guarded(lambda: train(tmp_path / "run", config)) == 1
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("instruct: ")]
    assert line.startswith("instruct: training step 2: the loss is ")
    assert "lower learning_rate" in line
    assert not (tmp_path / "run" / "adapters" / "emo").exists()


@pytest.mark.slow
def test_a_killed_training_ends_like_an_undisturbed_one(
    tmp_path, tiny_model_folder, run_and_kill, instruct, monkeypatch
):
    """SIGKILL as soon as the first checkpoint is whole, then the same command again; of packed texts with evaluations,
    with dropout."""
    monkeypatch.chdir(tmp_path)
    command = [
        "train", "--model", str(tiny_model_folder), "--data.files", write_texts(tmp_path / "texts.txt"),
        "--objective", "emo", "--name", "killed", "--model.dtype", "float32", "--train.max_steps", "12",
        "--train.save_steps", "3", "--train.logging_steps", "3", "--train.per_device_train_batch_size", "4",
        "--train.max_length", "64", "--lora.r", "4", "--lora.dropout", "0.1",
        "--data.eval_fraction", "0.2", "--train.eval_steps", "3", "--train.eval_on_start", "true",
    ]  # fmt: skip
    checkpoints = tmp_path / "runs" / "killed" / "checkpoints" / "emo"
    run_and_kill(
        [sys.executable, "-m", "instruct", *command],
        lambda: any(checkpoints.glob("checkpoint-*/sha256.json")),
        180,
        cwd=tmp_path,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert not (tmp_path / "runs" / "killed" / "adapters" / "emo").exists()

    assert instruct(*command)[0] == 0
    command[command.index("killed")] = "undisturbed"
    assert instruct(*command)[0] == 0
    killed, undisturbed = (RunDirectory(tmp_path / "runs" / name) for name in ("killed", "undisturbed"))
    assert metrics(killed) == metrics(undisturbed)
    assert have_the_same_weights(killed, undisturbed)
    assert read_canary(killed.adapters / "emo") == read_canary(undisturbed.adapters / "emo")
    assert killed.manifest()["steps"]["train/emo"]["attempts"] == 2


@pytest.mark.slow
def test_checkpoints_from_different_rows_are_discarded(tmp_path, tiny_model_folder, rows):
    config = tiny_config(tiny_model_folder, rows)
    interrupted(tmp_path / "run", config)
    assert list((tmp_path / "run" / "checkpoints" / "emo").glob("checkpoint-*"))

    write_rows(Path(rows), count=16)
    again, fresh = (train(tmp_path / name, config) for name in ("run", "fresh"))
    assert have_the_same_weights(again, fresh)
    assert again.manifest()["steps"]["train/emo"]["results"]["rows"]["kept"] == 16


def test_weights_that_are_a_pickle_are_refused(tmp_path, pickled_model_folder, rows):
    with pytest.raises(InputError, match=r"pickled: could not be loaded .*safetensors"):
        train(tmp_path / "run", tiny_config(pickled_model_folder, rows))


def test_each_systems_own_adapter_is_merged(tmp_path, tiny_model_folder, rows):
    config = tiny_config(tiny_model_folder, rows, systems={"mle": {"objective": "mle"}, "emo": {"objective": "emo"}})
    config.train["max_steps"] = 2
    for system in ("mle", "emo"):
        run = train(tmp_path / "run", config, system)
    ids = torch.arange(5, 40)[None]

    def logits(folder: Path, adapter: Path | None = None) -> torch.Tensor:
        network = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        with torch.no_grad():
            return (PeftModel.from_pretrained(network, str(adapter)) if adapter else network)(ids).logits

    adapted = {system: logits(tiny_model_folder, run.adapters / system) for system in ("mle", "emo")}
    assert (adapted["mle"] - adapted["emo"]).abs().max() > 1e-3
    for folder in merge_adapter(config, run):
        assert torch.allclose(logits(folder), adapted[folder.name], atol=1e-5)
