"""DDP, FSDP2 and DeepSpeed ZeRO give the loss, the statistics and the gradients of one process with the same batches.

Two processes on the CPU, over gloo, through the real EMOTrainer; see distributed_worker.py for the trainings.
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import torch
import yaml
from accelerate.commands.config.config_args import load_config_from_file
from distributed_worker import CASES, run_case, save_models
from safetensors.torch import load_file
from train_configs import tiny_config, train, write_rows

ROOT = Path(__file__).resolve().parent.parent.parent
ACCELERATE = ROOT / "recipes" / "configs" / "accelerate"
LAUNCH = ["accelerate.commands.launch", "--config_file", str(ACCELERATE / "ddp.yaml"), "--num_processes", "2"]
LAUNCH += ["--main_process_port", "0"]  # a free one
TOLERANCE = 1e-5
LOGGED = ("loss", "ce", "cost", "ratio", "mean_token_accuracy", "grad_norm")
PARITY = ("ddp", "fsdp2")
ZERO_PARITY = ("zero2", "zero3")
REFUSED = {
    "ddp:average_tokens_across_devices": "average_tokens_across_devices=False would weight tokens differently",
    "fsdp2:trainable_token_indices": "trainable_token_indices does not work with FSDP",
}


def start(folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """A command in a process group of its own; its output goes to FOLDER/log, with the stack of a process that dies."""
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", *arguments],
            stdout=log,
            stderr=log,
            cwd=folder,
            start_new_session=True,
            env={**os.environ, "PYTHONFAULTHANDLER": "1"},
        )


def finish(process: subprocess.Popen[bytes], folder: Path, timeout: float = 300) -> None:
    try:
        code = process.wait(timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        code = "killed: it hung"
    log = (folder / "log").read_text(errors="replace")
    assert code == 0, (log.rpartition("Traceback (most recent call last):")[0] or log)[-6000:]  # not the launcher's


def start_workers(folder: Path, *wanted: str) -> subprocess.Popen[bytes]:
    worker = str(Path(__file__).with_name("distributed_worker.py"))
    return start(folder, "torch.distributed.run", "--standalone", "--nproc-per-node", "2", worker, str(folder), *wanted)


def cases_of(modes: tuple[str, ...]) -> list[str]:
    return [f"{mode}:{','.join(CASES)}" for mode in modes]


@pytest.fixture(scope="module")
def one_process(tmp_path_factory):
    """What one process gives: by case, made when it is first asked for."""
    folder = tmp_path_factory.mktemp("one")
    save_models(folder)
    found = {}

    def give(name: str):
        if name not in found:
            found[name] = run_case(name, "one", folder)
        return found[name]

    return give


@pytest.fixture(scope="module")
def two_processes(tmp_path_factory, one_process) -> Path:
    """A folder with what two processes gave, MODE-CASE.pt."""
    folder = tmp_path_factory.mktemp("two")
    save_models(folder)
    process = start_workers(folder, *cases_of(PARITY), *REFUSED)
    for name in CASES:  # meanwhile
        one_process(name)
    finish(process, folder)
    return folder


@pytest.fixture(scope="module")
def two_deepspeed_processes(tmp_path_factory) -> Path:
    if importlib.util.find_spec("deepspeed") is None:
        pytest.skip("deepspeed is not installed (pip install deepspeed)")
    folder = tmp_path_factory.mktemp("deepspeed")
    save_models(folder)
    finish(start_workers(folder, *cases_of(ZERO_PARITY)), folder, timeout=600)
    return folder


def distance(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> float:
    assert found.keys() == expected.keys()
    return math.sqrt(sum(float((found[name] - expected[name]).double().square().sum()) for name in expected))


def assert_the_same(found, expected, resumed: bool) -> None:
    assert len(found["history"]) == len(expected["history"])
    for ours, theirs in zip(found["history"], expected["history"], strict=True):
        for name in (*LOGGED, *([] if resumed else ["num_tokens"])):
            if name in theirs:
                assert ours[name] == pytest.approx(theirs[name], rel=TOLERANCE), name
    for name in ("eval_loss", "eval_ce", "eval_cost", "eval_ratio", "eval_mean_token_accuracy"):
        if name in expected["evaluation"]:
            assert found["evaluation"][name] == pytest.approx(expected["evaluation"][name], rel=TOLERANCE), name
    if found["gradients"]:  # DeepSpeed keeps them to itself
        whole = distance({name: torch.zeros(()) for name in expected["gradients"]}, expected["gradients"])
        assert distance(found["gradients"], expected["gradients"]) <= TOLERANCE * whole
    update = distance(expected["before"], expected["after"])
    assert update > 0
    assert distance(found["after"], expected["after"]) <= 10 * TOLERANCE * update  # a weight's own rounding


@pytest.mark.xdist_group("distributed")
@pytest.mark.parametrize(
    ("processes", "mode", "name"),
    [
        pytest.param(processes, mode, name, marks=mark)
        for processes, parity, mark in (
            ("two_processes", PARITY, pytest.mark.slow),
            ("two_deepspeed_processes", ZERO_PARITY, pytest.mark.full),
        )
        for mode in parity
        for name in CASES
    ],
)
def test_two_processes_train_like_one(one_process, request, processes, mode, name):
    found = torch.load(request.getfixturevalue(processes) / f"{mode}-{name}.pt")
    assert_the_same(found, one_process(name), CASES[name].resumed)


@pytest.mark.slow
@pytest.mark.xdist_group("distributed")
def test_what_several_processes_would_train_wrong_is_refused(two_processes):
    for case, line in REFUSED.items():
        assert line in torch.load(two_processes / f"{case.replace(':', '-')}.pt")


@pytest.mark.parametrize("path", sorted(ACCELERATE.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_accelerate_config_is_read(path):
    assert load_config_from_file(str(path)).num_machines == 1


RECIPE = str(ROOT / "recipes" / "alpaca_emo.py")


def recipe_config(folder: Path, model: Path, batch: int):
    """A config with `batch` rows per process."""
    arguments = {"max_steps": 4, "save_steps": 2, "logging_steps": 1, "max_length": 256, "learning_rate": 1e-2}
    arguments |= {"per_device_train_batch_size": batch}
    return tiny_config(model, write_rows(folder / "rows.jsonl"), train=arguments, judges=[], comparisons=[])


@pytest.fixture
def config(tmp_path, tiny_model_folder) -> str:
    """The file of a config that two processes train."""
    path = tmp_path / "tiny.yaml"
    path.write_text(yaml.safe_dump(recipe_config(tmp_path, tiny_model_folder, 2).model_dump(mode="json")))
    return str(path)


def assert_trained_by_two(run: Path, folder: Path, model: Path) -> None:
    """The adapter is that of one process, and one of the two has written it."""
    alone = train(folder / "one", recipe_config(folder, model, 4))
    ours, theirs = (load_file(each / "adapters/emo/adapter_model.safetensors") for each in (run, alone.folder))
    whole = distance({name: torch.zeros(()) for name in theirs}, theirs)
    assert distance(ours, theirs) <= 1e-4 * whole  # AdamW divides small gradients by small numbers
    recorded = json.loads((run / "manifest.json").read_text())["steps"]["train/emo"]
    assert recorded["results"]["processes"] == 2


@pytest.mark.slow
@pytest.mark.xdist_group("distributed")
def test_a_process_that_dies_ends_the_others_and_a_rerun_completes_the_training(tmp_path, tiny_model_folder, config):
    """As if its node had died."""
    call = [*LAUNCH, RECIPE, "--config", config, "--name", "two"]
    launcher = start(tmp_path, *call)
    run = tmp_path / "runs" / "two"
    while not any(run.glob("checkpoints/*/checkpoint-2/sha256.json")):
        assert launcher.poll() is None, (tmp_path / "log").read_text()[-3000:]
        time.sleep(0.01)
    ranks = [process for process in psutil.Process(launcher.pid).children() if RECIPE in process.cmdline()]
    assert len(ranks) == 2
    ranks[1].kill()
    assert launcher.wait(120) != 0
    assert not any(process.is_running() for process in ranks)
    finish(start(tmp_path, *call), tmp_path)
    assert_trained_by_two(run, tmp_path, tiny_model_folder)


# What the script calls of SLURM, for two nodes that are this machine.
SRUN = """#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
for node in 0 1; do
  SLURM_NODEID=$node "$@" & eval "launcher$node=$!"
done
wait $launcher0 && wait $launcher1
"""
SCONTROL = "#!/bin/sh\nprintf '127.0.0.1\\n127.0.0.2\\n'\n"


@pytest.mark.slow
@pytest.mark.xdist_group("distributed")
def test_the_slurm_script_trains_on_two_nodes_what_one_process_does(tmp_path, tiny_model_folder, config):
    for name, text in {"srun": SRUN, "scontrol": SCONTROL}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    (tmp_path / "recipes").symlink_to(ROOT / "recipes")
    environment = {
        "PATH": f"{tmp_path}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "ACCELERATE_CONFIG": "recipes/configs/accelerate/ddp.yaml",
        "SLURM_NNODES": "2",
        "SLURM_GPUS_ON_NODE": "1",
        "SLURM_JOB_ID": str(os.getpid()),
        "SLURM_JOB_NODELIST": "node[1-2]",
    }
    script = ["bash", "recipes/slurm/train.sbatch", config, "--name", "nodes"]
    with (tmp_path / "log").open("wb") as log:
        job = subprocess.Popen(
            script, cwd=tmp_path, env=os.environ | environment, stdout=log, stderr=log, start_new_session=True
        )
    finish(job, tmp_path)
    assert_trained_by_two(tmp_path / "runs" / "nodes", tmp_path, tiny_model_folder)


def test_a_verb_for_one_process_is_refused_on_several(monkeypatch, capsys):
    from instruct.command.main import main

    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr(sys, "argv", ["instruct", "generate"])
    assert main() == 2
    assert "only `run` and `train` work on several processes" in capsys.readouterr().err
