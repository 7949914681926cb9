"""A cluster is an endpoint: what is refused, and vLLM on two nodes of this machine, of which one is killed."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from instruct.base.errors import InputError
from instruct.base.files import network_file_system
from instruct.base.replies import Completion
from instruct.config import make_config
from instruct.engines.base import Decoding, EngineOptions, Request
from instruct.engines.cluster import ClusterOptions, connect
from instruct.engines.start import make_engine


@pytest.mark.parametrize(
    ("cluster", "said"),
    [
        ("dask", "cluster: must be ray, or its settings"),
        ({"address": "http://10.0.0.1:8265"}, "cluster.address: must be HOST:PORT"),
        ({"workers": 0}, "cluster.workers"),
        ({"gpus_per_worker": -1}, "cluster.gpus_per_worker"),
    ],
)
def test_a_wrong_cluster_is_refused_in_one_line(cluster, said):
    with pytest.raises(InputError) as caught:
        make_config({"name": "x", "cluster": cluster}, [], "here")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_judge_on_a_cluster_has_no_server_and_no_transformers(instruct, tiny_model):
    code, _, error = instruct(
        "judge", "--judge", "smollm2_score", "--cluster", "ray", "--base-url", "http://127.0.0.1:1/v1"
    )
    assert code == 2
    assert "--cluster loads the judge's model, --base-url asks a server that has it" in error
    options = EngineOptions("model m", str(tiny_model), Decoding(), 64)
    with pytest.raises(InputError, match="model m: a cluster runs vLLM"):
        make_engine("transformers", options, ClusterOptions())


def test_ray_that_is_not_installed_or_not_there_is_refused_in_one_line(monkeypatch):
    if importlib.util.find_spec("ray"):
        with pytest.raises(InputError, match=r"^cluster: no Ray cluster at 127\.0\.0\.1:1 .*; start one") as caught:
            connect(ClusterOptions(address="127.0.0.1:1"))
        assert "\n" not in str(caught.value)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"Ray is not installed; run `pip install .*\[cluster\].*`"):
        connect(ClusterOptions())


MOUNTS = """/dev/root / ext4 rw 0 0
server:/home /home nfs4 rw 0 0
/dev/sdb /home/me/scratch xfs rw 0 0
me@server:/ /home/me/scratch/away fuse.sshfs rw 0 0
10.0.0.1@tcp:/fs /lustre\\040fs lustre rw 0 0
"""


def test_a_network_file_system_is_recognized():
    places = ("/runs/a", "/home/me/a", "/home/me/scratch/a", "/home/me/scratch/away/a", "/lustre fs/runs/a")
    found = [network_file_system(Path(place), MOUNTS) for place in places]
    assert found == [None, "nfs4", None, "fuse.sshfs", "lustre"]


def test_one_machine_never_imports_ray():
    code = """
import json, sys
import instruct.command.main, instruct.phases.experiment, instruct.phases.train
import instruct.generation.answers, instruct.judging.judge
from instruct.engines.base import Decoding, EngineOptions
from instruct.engines.start import make_engine
for kind in ("transformers", "vllm"):
    make_engine(kind, EngineOptions("m", "m", Decoding(), 8))
print(json.dumps([name for name in sys.modules if name.split(".")[0] == "ray"]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert json.loads(done.stdout) == []


@contextlib.contextmanager
def two_nodes() -> Iterator[Any]:
    """Two nodes with a CPU each, as `ray.cluster_utils.Cluster`; processes that are left at the end are a failure."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # each of Ray's processes would compile what it imports
    from ray.cluster_utils import Cluster

    # A socket's path may have 107 characters, and Ray's is long: not in pytest's folder.
    folder = Path(tempfile.mkdtemp(prefix="ray", dir="/tmp"))
    Path("/tmp/ray").mkdir(exist_ok=True)  # Ray notes the newest cluster there, wherever its own folder is
    arguments = {"num_cpus": 1, "num_gpus": 0, "object_store_memory": 80 * 2**20}
    cluster = Cluster(initialize_head=False)
    try:
        cluster.add_node(**arguments, **_ports(), include_dashboard=False, temp_dir=str(folder))
        cluster.add_node(**arguments, **_ports())
        cluster.wait_for_nodes()
        yield cluster
    finally:
        cluster.shutdown()
        left = psutil.wait_procs(_processes(str(folder)), timeout=30)[1]
        for process in left:
            process.kill()
        shutil.rmtree(folder, ignore_errors=True)
    assert not left, left


def _ports() -> dict[str, int]:
    """Free ports for a node's agents: a node waits 15 s for those that they choose, too little on a busy machine."""
    names = ("metrics_agent_port", "runtime_env_agent_port", "dashboard_agent_listen_port", "metrics_export_port")
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in names]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return {name: each.getsockname()[1] for name, each in zip(names, sockets, strict=True)}


def _processes(said: str) -> list[psutil.Process]:
    """Processes whose command has these words."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if said in " ".join(process.cmdline()):
                found.append(process)
    return found


@pytest.mark.slow
@pytest.mark.xdist_group("ray")
@pytest.mark.timeout(1200)
def test_answers_are_complete_though_a_worker_is_killed(wide_heads, make_adapter, tmp_path, monkeypatch):
    for package in ("ray", "vllm"):
        pytest.importorskip(package)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    model = wide_heads
    adapter = make_adapter(model, tmp_path / "adapter", 1, 0.5)
    with two_nodes() as cluster:
        options = EngineOptions(
            "model m", str(model), Decoding(max_tokens=64), 128, batch=4, adapters=(adapter,), dtype="float32"
        )
        with pytest.raises(InputError, match=r"^`workers` 5: the cluster's 2 machines have room for 2; lower it"):
            make_engine("vllm", options, ClusterOptions(address=cluster.address, workers=5)).start()
        engine = make_engine("vllm", options, ClusterOptions(address=cluster.address, workers=2))
        try:
            assert engine.start().startswith("vllm ")
            requests = [
                Request(str(number), (1, 2, 3 + number), adapter=str(adapter) if number % 2 else None, min_tokens=60)
                for number in range(200)
            ]
            replies, workers = {}, _processes("ray::Replica")
            assert len(workers) == 2
            for portion in engine.complete(requests):
                replies |= {request.key: reply for request, reply in portion}
                if len(replies) >= 20 and workers[0].is_running():
                    workers[0].kill()
            assert not workers[0].is_running()
            assert all(isinstance(reply, Completion) for reply in replies.values())
            assert len(replies) == 200
            again = {request.key: reply for portion in engine.complete(requests[:9]) for request, reply in portion}
            assert all(again[key].text == replies[key].text for key in again)
        finally:
            engine.close()
    assert not [process for process in _processes(str(model)) if process.status() != psutil.STATUS_ZOMBIE]
