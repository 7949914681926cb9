"""The options of a cluster: how they are given, and what is refused before any cluster is looked for."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from instruct.base.errors import InputError
from instruct.base.files import network_file_system
from instruct.base.machine import versions
from instruct.config import make_config
from instruct.engines.ray_cluster import ClusterOptions, check_machines, connect
from instruct.judging.options import JudgeOptions

FLAGS = ["--address", "10.0.0.1:6379", "--workers", "2", "--gpus-per-worker", "0.5", "--allow-mixed"]


def test_a_cluster_is_named_in_a_config_or_by_flags():
    from instruct.command.call import cluster_override
    from instruct.command.main import make_parser

    assert make_config({"name": "x"}, [], "here").cluster is None
    assert make_config({"name": "x", "cluster": "ray"}, [], "here").cluster == ClusterOptions()
    for verb in (["generate"], ["run", "demo"]):
        override = cluster_override(make_parser().parse_args([*verb, "--cluster", "ray", *FLAGS]))
        found = make_config({"name": "x", "cluster": {"workers": 9}}, override, "here").cluster
        assert found == ClusterOptions(address="10.0.0.1:6379", workers=2, gpus_per_worker=0.5, allow_mixed=True)


@pytest.mark.parametrize(
    ("cluster", "said"),
    [
        ("dask", "cluster: must be ray, or its settings"),
        ({"address": "http://10.0.0.1:8265"}, "cluster.address: must be HOST:PORT"),
        ({"workers": 0}, "cluster.workers"),
        ({"gpus_per_worker": -1}, "cluster.gpus_per_worker"),
        ({"nodes": 3}, "cluster.nodes"),
    ],
)
def test_a_wrong_cluster_is_refused_in_one_line(cluster, said):
    with pytest.raises(InputError) as caught:
        make_config({"name": "x", "cluster": cluster}, [], "here")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_flags_of_a_cluster_require_cluster(instruct):
    code, _, error = instruct("generate", "--workers", "3")
    assert (code, error) == (2, "instruct: --workers requires --cluster ray; add it or drop --workers\n")


def test_a_judge_on_a_cluster_has_no_server(instruct):
    code, _, error = instruct(
        "judge", "--judge", "smollm2_score", "--cluster", "ray", "--base-url", "http://127.0.0.1:1/v1"
    )
    assert code == 2
    assert "--cluster loads the judge's model, --base-url asks a server that has it" in error


def test_where_a_run_computes_is_no_part_of_what_it_is():
    options = JudgeOptions(card="smollm2_score")
    assert "cluster" not in options.made_with()
    alone, on_a_cluster = (make_config({"name": "x", "cluster": cluster}, [], "here") for cluster in (None, "ray"))
    assert alone.answers.made_with() == on_a_cluster.answers.made_with()


def test_ray_that_is_not_installed_is_refused_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"Ray is not installed; run `pip install .*\[cluster\].*`"):
        connect(ClusterOptions())


MOUNTS = """/dev/root / ext4 rw 0 0
server:/home /home nfs4 rw 0 0
/dev/sdb /home/me/scratch xfs rw 0 0
me@server:/ /home/me/scratch/away fuse.sshfs rw 0 0
10.0.0.1@tcp:/fs /lustre\\040fs lustre rw 0 0
"""


@pytest.mark.slow
def test_a_network_file_system_is_recognized():
    found = {
        place: network_file_system(Path(place), MOUNTS)
        for place in ("/runs/a", "/home/me/a", "/home/me/scratch/a", "/home/me/scratch/away/a", "/lustre fs/runs/a")
    }
    assert list(found.values()) == [None, "nfs4", None, "fuse.sshfs", "lustre"]


def test_one_machine_never_imports_ray():
    """Neither the library's rooms nor the command need it."""
    code = """
import json, sys
import instruct.command.main, instruct.phases.experiment, instruct.phases.train
import instruct.generation.answers, instruct.judging.judge
import instruct.engines.rewards, instruct.engines.transformers, instruct.engines.vllm
from instruct.engines.base import Decoding, EngineOptions
from instruct.engines.start import make_engine
make_engine("transformers", EngineOptions("m", "m", Decoding(), 8))
print(json.dumps([name for name in sys.modules if name.split(".")[0] == "ray"]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert json.loads(done.stdout) == []


def test_a_machine_that_joins_later_must_be_like_the_others():
    here = {"address": "10.0.0.1", "host": "a", "identity": {"model": "m"}, "engine": "vllm 1 cuda"}
    first = here | {"device": "H100", "versions": versions()}
    for other, said in (
        (first, None),
        (first | {"device": "A100"}, "worker 10.0.0.1 (a): the GPU or processor is A100, on 10.0.0.1 H100; use equal"),
        (first | {"versions": versions() | {"torch": "0.1"}}, "worker 10.0.0.1 (a): torch is 0.1, on this machine "),
        (first | {"identity": {"model": "n"}}, "worker 10.0.0.1 (a): m is another model there than here; copy it"),
        (first | {"error": "m: no such folder"}, "worker 10.0.0.1 (a): m: no such folder"),
    ):
        for mixed in (False, True):
            allowed = said is None or (mixed and (" is A100" in said or " is 0.1" in said))
            with nullcontext() if allowed else pytest.raises(InputError, match=f"^{re.escape(said or '')}"):
                check_machines("m", {"model": "m"}, mixed, [first, other])
