"""DDP, FSDP2 and DeepSpeed ZeRO give the loss, the statistics and the gradients of one process with the same batches.

Two processes on the CPU, over gloo, through the real EMOTrainer; see distributed_worker.py for the trainings.
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
import shutil
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
from distributed_worker import CASES, MEMORY, run_case, save_models
from peak import save_model
from safetensors.torch import load_file
from train_configs import tiny_config, train, write_rows

ROOT = Path(__file__).resolve().parent.parent.parent
ACCELERATE = ROOT / "recipes" / "configs" / "accelerate"
LAUNCH = ["accelerate.commands.launch", "--config_file", str(ACCELERATE / "ddp.yaml"), "--num_processes", "2"]
LAUNCH += ["--main_process_port", "0"]  # a free one
TOLERANCE = 1e-5
LOGGED = ("loss", "ce", "cost", "ratio", "mean_token_accuracy", "grad_norm")
PARITY = {
    "ddp": list(CASES),
    "fsdp2": list(CASES),
    "fsdp2_own_head": ["full", "lora", "saved_head", "masked", "accumulated", "resumed"],
    "fsdp2_lean": ["full", "lora", "saved_head", "resumed"],
}
ZERO_PARITY = {"zero2": list(CASES), "zero3": list(CASES)}


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


def list_of(parity: dict[str, list[str]]) -> list[str]:
    return [f"{mode}:{','.join(names)}" for mode, names in parity.items()]


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
def two_processes(tmp_path_factory, one_process, tiny_model_folder) -> Path:
    """A folder with what two processes gave, MODE-CASE.pt."""
    folder = tmp_path_factory.mktemp("two")
    save_models(folder)
    save_model(folder / "model", tiny_model_folder)
    memory = [f"{mode}:{','.join(MEMORY)}" for mode in ("ddp", "fsdp2")]
    refused = ["ddp:average_tokens_across_devices", "fsdp2:trainable_token_indices", "fsdp2_bf16:full"]
    process = start_workers(folder, *list_of(PARITY), *refused, *memory)
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
    finish(start_workers(folder, *list_of(ZERO_PARITY)), folder, timeout=600)
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
        for mode, names in parity.items()
        for name in names
    ],
)
def test_two_processes_train_like_one(one_process, request, processes, mode, name):
    found = torch.load(request.getfixturevalue(processes) / f"{mode}-{name}.pt")
    assert_the_same(found, one_process(name), CASES[name].resumed)


@pytest.mark.slow
@pytest.mark.xdist_group("distributed")
@pytest.mark.parametrize("name", MEMORY)
@pytest.mark.parametrize("mode", ["ddp", "fsdp2"])
def test_the_estimated_memory_is_near_the_measured_peak_of_a_process(two_processes, mode, name):
    estimated, measured = torch.load(two_processes / f"{mode}-{name}.pt")
    assert estimated == pytest.approx(measured, rel=0.15)


@pytest.mark.slow
@pytest.mark.xdist_group("distributed")
def test_statistics_keep_their_precision_where_fsdp_computes_in_bfloat16(one_process, two_processes):
    found = torch.load(two_processes / "fsdp2_bf16-full.pt")
    for ours, theirs in zip(found["history"], one_process("full")["history"], strict=True):
        assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-2)
        assert ours["loss"] == pytest.approx(ours["ce"], rel=1e-6)  # the official variant's value is ce


@pytest.mark.slow
@pytest.mark.xdist_group("distributed")
@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("ddp-average_tokens_across_devices", "average_tokens_across_devices=False would weight tokens differently"),
        ("fsdp2-trainable_token_indices", "trainable_token_indices does not work with FSDP"),
    ],
)
def test_unsupported_arguments_on_several_processes_are_refused(two_processes, file, message):
    assert message in torch.load(two_processes / f"{file}.pt")


@pytest.mark.parametrize("path", sorted(ACCELERATE.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_accelerate_config_is_read_and_opens_with_its_command(path):
    place = path.relative_to(ROOT)
    assert (
        path.read_text().splitlines()[0].startswith(f"# accelerate launch --config_file {place} recipes/alpaca_emo.py")
    )
    assert load_config_from_file(str(path)).num_machines == 1


RECIPE = str(ROOT / "recipes" / "alpaca_emo.py")
SYSTEMS = ("mle", "emo")


def recipe_config(folder: Path, model: Path, batch: int):
    """A config of two systems, with `batch` rows per process."""
    rows = write_rows(folder / "rows.jsonl")
    arguments = {"max_steps": 4, "save_steps": 2, "logging_steps": 1, "max_length": 256, "learning_rate": 1e-2}
    return tiny_config(
        model,
        rows,
        train={**arguments, "per_device_train_batch_size": batch},
        systems={name: {"objective": name} for name in SYSTEMS},
        judges=[],
        comparisons=[],
    )


def adapters(run: Path) -> dict[str, bytes]:
    return {name: (run / "adapters" / name / "adapter_model.safetensors").read_bytes() for name in SYSTEMS}


@pytest.fixture(scope="module")
def launched(tmp_path_factory, tiny_model_folder) -> Path:
    """A folder with tiny.yaml, which one launcher trained with two processes: runs/two."""
    folder = tmp_path_factory.mktemp("launched")
    config = recipe_config(folder, tiny_model_folder, 2)
    (folder / "tiny.yaml").write_text(yaml.safe_dump(config.model_dump(mode="json")))
    finish(start(folder, *LAUNCH, RECIPE, "--config", "tiny.yaml", "--name", "two"), folder)
    return folder


@pytest.mark.slow
@pytest.mark.xdist_group("distributed")
def test_accelerate_launch_trains_the_recipes_adapters(tmp_path, tiny_model_folder, launched):
    """As a user calls it: the adapters are those of one process, and one process has written them."""
    run = launched / "runs" / "two"
    for name in SYSTEMS:
        alone = train(tmp_path / "one", recipe_config(tmp_path, tiny_model_folder, 4), name)
        ours, theirs = (
            load_file(folder / "adapters" / name / "adapter_model.safetensors") for folder in (run, alone.folder)
        )
        whole = distance({name: torch.zeros(()) for name in theirs}, theirs)
        assert distance(ours, theirs) <= 1e-4 * whole  # AdamW divides small gradients by small numbers
    recorded = json.loads((run / "manifest.json").read_text())["steps"]
    steps = {step: record for step, record in recorded.items() if step.startswith("train/")}
    assert {step: record["results"]["processes"] for step, record in steps.items()} == {"train/mle": 2, "train/emo": 2}
    assert [record["attempts"] for record in steps.values()] == [1, 1]
    assert (launched / "log").read_text().count(" steps each, ") == 1


@pytest.mark.slow
@pytest.mark.xdist_group("distributed")
def test_a_process_that_dies_ends_the_others_and_a_rerun_completes_the_training(tmp_path, tiny_model_folder, launched):
    """As if its node had died."""
    shutil.copy(launched / "tiny.yaml", tmp_path)
    call = [*LAUNCH, RECIPE, "--config", "tiny.yaml", "--name", "two"]
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
    assert adapters(run) == adapters(launched / "runs" / "two")


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
def test_the_slurm_script_on_two_nodes_trains_what_one_launcher_with_two_processes_does(tmp_path, launched):
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
    script = ["bash", "recipes/slurm/train.sbatch", str(launched / "tiny.yaml"), "--name", "nodes"]
    with (tmp_path / "log").open("wb") as log:
        job = subprocess.Popen(
            script, cwd=tmp_path, env=os.environ | environment, stdout=log, stderr=log, start_new_session=True
        )
    finish(job, tmp_path)
    ours, theirs = tmp_path / "runs" / "nodes", launched / "runs" / "two"
    for name in SYSTEMS:
        nodes, processes = (
            [(entry["step"], entry["loss"]) for entry in json.loads(file.read_text()) if "loss" in entry]
            for file in (folder / "adapters" / name / "training_log.json" for folder in (ours, theirs))
        )
        assert len(nodes) == 4
        assert nodes == processes
    assert adapters(ours) == adapters(theirs)


def test_a_verb_for_one_process_is_refused_on_several(monkeypatch, capsys):
    from instruct.command.main import main

    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr(sys, "argv", ["instruct", "generate"])
    assert main() == 2
    assert "only `run` and `train` work on several processes" in capsys.readouterr().err
