import shutil

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM


@pytest.fixture(autouse=True)
def _short_waits(short_waits):
    """Waits for a faulty server take milliseconds."""


@pytest.fixture
def wide_heads(tiny_model, tmp_path):
    """The tiny model with heads as wide as vLLM's attention on a CPU needs."""
    model = tmp_path / "model"
    shutil.copytree(tiny_model, model)
    config = LlamaConfig.from_pretrained(tiny_model)
    config.update({"hidden_size": 64, "head_dim": 32})
    torch.manual_seed(0)
    LlamaForCausalLM(config).save_pretrained(model)
    return model
