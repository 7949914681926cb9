"""A Ray cluster of two nodes on this machine, ended by process id, and processes on it that are killed."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil

from instruct.engines import canary

STORE = 80 * 2**20  # bytes of shared memory of a node


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
        left = psutil.wait_procs(_processes(folder), timeout=30)[1]
        for process in left:
            process.kill()
        psutil.wait_procs(left, timeout=10)
        shutil.rmtree(folder, ignore_errors=True)
    assert not left, left


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


def asked(log: Path) -> Counter[str]:
    """How often each batch of prompts was asked, by its first key."""
    return Counter(key for line in log.read_text().splitlines() if (key := line.split()[1]) != canary.KEY)


def is_gone(log: Path) -> bool:
    """Whether every process that was asked has ended."""
    return not any(psutil.pid_exists(int(line.split()[0])) for line in log.read_text().splitlines())


def wait(condition: Callable[[], bool], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@contextlib.contextmanager
def driven(given: dict[str, Any], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`driver.py` with these arguments, killed at the end."""
    path = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    command = [sys.executable, str(Path(__file__).with_name("driver.py")), json.dumps(given)]
    with log.open("wb") as output:
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(path)}
        driver = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
        try:
            yield driver
        finally:
            driver.send_signal(signal.SIGKILL)
            driver.wait()
