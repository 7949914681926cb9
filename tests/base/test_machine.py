"""A machine with an NVIDIA GPU that PyTorch cannot use: an error, not a training on the CPU."""

from __future__ import annotations

import pytest
import torch

from instruct import EMOConfig
from instruct.base import machine as devices
from instruct.base.errors import InputError

needs_no_cuda = pytest.mark.skipif(torch.cuda.is_available(), reason="this machine's GPU works")


@pytest.fixture
def unusable(monkeypatch, tmp_path) -> None:
    """This machine, with the device file of an NVIDIA GPU; PyTorch is its own CPU build."""
    device = tmp_path / "nvidia0"
    device.touch()
    monkeypatch.setattr(devices, "NVIDIA_DEVICES", (device,))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.chdir(tmp_path)


@needs_no_cuda
def test_emo_config_does_not_fall_back_to_the_cpu_of_a_machine_with_a_gpu(unusable, monkeypatch):
    with pytest.raises(InputError, match="an NVIDIA GPU that PyTorch cannot use"):
        EMOConfig("out")
    assert EMOConfig("out", use_cpu=True).use_cpu
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert EMOConfig("out").use_cpu
