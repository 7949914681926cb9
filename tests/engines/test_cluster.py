"""A cluster is an endpoint: what is refused, and vLLM on two nodes of this machine, of which one is killed."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from transformers import LlamaConfig, LlamaForCausalLM

from instruct.base.errors import InputError
from instruct.base.files import network_file_system
from instruct.base.replies import Completion
from instruct.engines.base import Decoding, EngineOptions, Request
from instruct.engines.cluster import ClusterOptions, connect
from instruct.engines.start import make_engine


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
def test_answers_are_complete_though_a_worker_is_killed(tiny_model, tmp_path, monkeypatch):
    for package in ("ray", "vllm"):
        pytest.importorskip(package)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    model = shutil.copytree(tiny_model, tmp_path / "model")
    config = LlamaConfig.from_pretrained(tiny_model)
    config.update({"hidden_size": 64, "head_dim": 32})  # as wide as vLLM's attention on a CPU needs
    LlamaForCausalLM(config).save_pretrained(model)
    with two_nodes() as cluster:
        options = EngineOptions("model m", str(model), Decoding(max_tokens=64), 128, batch=4)
        with pytest.raises(InputError, match=r"^`workers` 5: the cluster's 2 machines have room for 2; lower it"):
            make_engine("vllm", options, ClusterOptions(address=cluster.address, workers=5)).start()
        engine = make_engine("vllm", options, ClusterOptions(address=cluster.address, workers=2))
        try:
            assert engine.start().startswith("vllm ")
            requests = [Request(str(number), (1, 2, 3 + number), min_tokens=60) for number in range(100)]
            replies, workers = {}, _processes("ray::Replica")
            assert len(workers) == 2
            for portion in engine.complete(requests):
                replies |= {request.key: reply for request, reply in portion}
                if len(replies) >= 20:
                    with contextlib.suppress(psutil.NoSuchProcess):
                        workers[0].kill()
            assert not workers[0].is_running() or workers[0].status() == psutil.STATUS_ZOMBIE
            assert all(isinstance(reply, Completion) for reply in replies.values())
            assert len(replies) == 100
        finally:
            engine.close()
    assert not [process for process in _processes(str(model)) if process.status() != psutil.STATUS_ZOMBIE]
