"""What a folder of weights contains, and whether its hash detects a change."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from instruct.base.errors import InputError
from instruct.engines.weights import adapter_identity, check_model, model_identity


def test_a_model_without_config_or_weights_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"no config\.json"):
        check_model(str(tmp_path))
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(InputError, match="no weights"):
        check_model(str(tmp_path))


def test_a_hub_model_is_identified_by_its_commit(tmp_path):
    commits = {"main": "0123456789abcdef0123456789abcdef01234567", "v2": "89abcdef0123456789abcdef0123456789abcdef"}
    repository = tmp_path / "hub" / "models--someone--something"
    (repository / "refs").mkdir(parents=True)
    for revision, commit in commits.items():
        (repository / "refs" / revision).write_text(commit)
        (repository / "snapshots" / commit).mkdir(parents=True)
        (repository / "snapshots" / commit / "config.json").write_text("{}")
    code = f"""
from instruct.engines.weights import check_model, model_identity
for revision in (None, "v2", {commits["v2"]!r}):
    print(model_identity("someone/something", check_model("someone/something", revision)))
check_model("someone/something", "v3")
"""
    environment = {**os.environ, "HF_HOME": str(tmp_path), "HF_HUB_CACHE": str(tmp_path / "hub"), "HF_HUB_OFFLINE": "1"}
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert result.stdout.split() == [f"someone/something@{commits[name]}" for name in ("main", "v2", "v2")]
    assert "InputError: model someone/something: no such folder, and the hub" in result.stderr.splitlines()[-1]


def test_the_hash_changes_with_any_byte_of_a_small_file_and_any_matrix_of_a_large_one(tmp_path):
    def identity(data: bytes) -> str:
        (tmp_path / "model.safetensors").write_bytes(data)
        return model_identity(str(tmp_path), None)

    def changed(data: bytes, start: int, length: int) -> bytes:
        return data[:start] + b"\1" * length + data[start + length :]

    small, large = bytes(range(256)) * 64, bytes(24 << 20)
    (tmp_path / "config.json").write_text("{}")
    assert identity(changed(small, 9999, 1)) != identity(small)
    first = identity(large)
    assert identity(large) == first
    for start in range(0, len(large), 5_000_001):
        assert identity(changed(large, start, 1 << 18)) != first
    (tmp_path / "config.json").write_text("{} ")
    assert identity(large) != first


def test_an_adapters_hash_covers_both_files(tmp_path):
    (tmp_path / "adapter_config.json").write_text("{}")
    (tmp_path / "adapter_model.safetensors").write_bytes(b"weights")
    first = adapter_identity(tmp_path)
    (tmp_path / "adapter_config.json").write_text("{ }")
    second = adapter_identity(tmp_path)
    (tmp_path / "adapter_model.safetensors").write_bytes(b"Weights")
    assert len({first, second, adapter_identity(tmp_path)}) == 3
