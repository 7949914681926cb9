"""Trackers and tokens: what cannot be used is refused before training, and no token is written or shown."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from instruct.base.errors import InputError
from instruct.training.callbacks import run_of_its_own

SECRET = "hf_this_must_never_be_written"


@pytest.fixture
def train(instruct, tmp_path, monkeypatch, tiny_model_folder):
    """`train(*flags)`: the command on one row; its one line of error."""
    monkeypatch.chdir(tmp_path)
    Path("my.jsonl").write_text(json.dumps({"instruction": "Say one.", "input": "", "output": "One."}) + "\n")

    def call(*flags: str) -> str:
        given = ("--model", str(tiny_model_folder), "--data.files", "my.jsonl")
        code, _, err = instruct("train", *given, *flags)
        assert (code, len(err.splitlines())) == (2, 1)
        assert [path.name for path in tmp_path.iterdir()] == ["my.jsonl"]  # nothing was written
        return err

    return call


def test_an_unknown_tracker_is_refused_before_training(train):
    line = train("--train.report_to", "tensorbord")
    assert "train.report_to: tensorbord is not supported, only " in line


@pytest.mark.skipif(importlib.util.find_spec("wandb") is not None, reason="wandb is installed")
def test_a_tracker_that_is_not_installed_is_refused_before_training(train):
    line = train("--train.report_to", "[tensorboard, wandb]")
    assert "train.report_to: WandbCallback requires wandb to be installed. Run `pip install wandb`" in line


@pytest.mark.parametrize("flag", ["--train.hub_token={}", "--train={{hub_token: {}}}", "{}"])
def test_a_hub_token_is_refused_and_not_shown(train, flag, tmp_path_factory):
    config = tmp_path_factory.mktemp("config") / "mine.yaml"
    config.write_text(f"name: mine\ntrain: {{hub_token: {SECRET}}}\n")
    line = train(str(config) if flag == "{}" else flag.format(SECRET))
    assert "set HF_TOKEN or run `hf auth login`" in line
    assert SECRET not in line


def test_the_run_of_weights_and_biases_ends_with_its_system(monkeypatch):
    """A stand-in: wandb is not a dependency. Its callback starts a run only if none is active."""
    ended = []
    wandb = SimpleNamespace(run="mine-mle", finish=lambda: ended.append("mine-mle"))
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    trainer = SimpleNamespace(callback_handler=SimpleNamespace(callbacks=[]))
    with pytest.raises(InputError), run_of_its_own(trainer):
        raise InputError("the training failed")
    assert ended == ["mine-mle"]
