"""What the tests of a cluster share."""

from __future__ import annotations

import importlib.util

import pytest

if importlib.util.find_spec("ray") is None:
    collect_ignore_glob = ["*_on_ray.py"]


@pytest.fixture(scope="session")
def cluster():
    from nodes import two_nodes

    with two_nodes() as started:
        yield started


@pytest.fixture
def batch_log(monkeypatch, tmp_path):
    """Where every batch that a worker is asked leaves a line; see `instrumented`."""
    import instrumented
    from ray import cloudpickle

    cloudpickle.register_pickle_by_value(instrumented)  # the workers do not have the tests' modules
    log = tmp_path / "batches.log"
    for room in ("generation.batches", "judging.asking"):
        monkeypatch.setattr(f"instruct.{room}.make_engine", instrumented.logged(log, seconds=0.3))
    return log
