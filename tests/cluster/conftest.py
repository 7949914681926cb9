"""A Ray cluster of two nodes on this machine, started by the tests, and ended by process id."""

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

STORE = 80 * 2**20  # bytes of shared memory of a node

if importlib.util.find_spec("ray") is None:
    collect_ignore_glob = ["test_*.py"]


@contextlib.contextmanager
def two_nodes(**second: Any) -> Iterator[Any]:
    """Two nodes with a CPU each, as `ray.cluster_utils.Cluster`; processes that are left at the end are a failure."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # each of Ray's processes would compile what it imports
    from ray.cluster_utils import Cluster

    # A socket's path may have 107 characters, and Ray's is long: not in pytest's folder.
    folder = Path(tempfile.mkdtemp(prefix="ray", dir="/tmp"))
    Path("/tmp/ray").mkdir(exist_ok=True)  # Ray notes the newest cluster there, wherever its own folder is
    arguments = {"num_cpus": 1, "num_gpus": 0, "object_store_memory": STORE}
    cluster = Cluster(initialize_head=False)
    try:
        cluster.add_node(**arguments, **_ports(), include_dashboard=False, temp_dir=str(folder))
        cluster.add_node(**{**arguments, **_ports(), **second})
        cluster.wait_for_nodes()
        yield cluster
    finally:
        cluster.shutdown()
        left = _processes(folder)
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(left, timeout=10)
        shutil.rmtree(folder, ignore_errors=True)


def _ports() -> dict[str, int]:
    """Free ports for a node's agents: a node waits 15 s for those that they choose, too little on a busy machine."""
    names = ("metrics_agent_port", "runtime_env_agent_port", "dashboard_agent_listen_port", "metrics_export_port")
    sockets = [socket.socket() for _ in names]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = {name: each.getsockname()[1] for name, each in zip(names, sockets, strict=True)}
    for each in sockets:
        each.close()
    return ports


def _processes(folder: Path) -> list[psutil.Process]:
    """Ray's processes that name this session's folder."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if str(folder) in " ".join(process.cmdline()):
                found.append(process)
    return found


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    with two_nodes() as started:
        yield started


@pytest.fixture
def batch_log(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where every batch that a worker is asked leaves a line; see `instrumented`."""
    import instrumented
    from ray import cloudpickle

    cloudpickle.register_pickle_by_value(instrumented)  # the workers do not have the tests' modules
    log = tmp_path / "batches.log"
    monkeypatch.setattr("instruct.generation.batches.make_engine", instrumented.logged(log, seconds=0.3))
    return log
