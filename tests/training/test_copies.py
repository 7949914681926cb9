"""A deep copy of a model that a trainer was made with computes with its own weights."""

from __future__ import annotations

import copy

import pytest
import torch
from accelerate.hooks import ModelHook, add_hook_to_module
from peft import LoraConfig
from population import tiny_network
from tiny import make_trainer, tiny_model
from torch.optim.swa_utils import AveragedModel

from instruct.objectives import EMO
from instruct.training.head import attach_objective

pytestmark = pytest.mark.filterwarnings("ignore:You are importing from 'trl.experimental'")

# Plain; a softcap; eyes over a recurrent text model; experts; state spaces; and one whose layers between backbone and
# head are those of its own forward.
KINDS = ["llama", "gpt2", "gemma2", "qwen3_5", "qwen3_moe", "granitemoehybrid", "bert"]
IDS = torch.arange(3, 13)[None]


def copies(model):
    """One after another, as the model is by then."""
    from trl.experimental.utils import create_reference_model

    for make in (copy.deepcopy, create_reference_model, AveragedModel):
        yield make(model)


def outputs(model) -> list[torch.Tensor]:
    """The logits, and the loss of the objective."""
    network = model.module if isinstance(model, AveragedModel) else model
    network.eval()
    with torch.no_grad():
        loss = network(input_ids=IDS, labels=IDS, objective_loss=True, use_cache=False).loss
        return [model(input_ids=IDS, use_cache=False).logits, loss]


def move(model) -> None:
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.1 * torch.randn_like(weight))


def assert_apart(model, copied) -> None:
    """What is done to one of two equal models changes the outputs of that one alone."""
    for moved, other in ((model, copied), (copied, model)):
        before, kept = outputs(moved), outputs(other)
        move(moved)
        assert all(map(torch.equal, outputs(other), kept))
        assert not any(map(torch.equal, outputs(moved), before))


@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_has_its_own_weights(tmp_path, kind):
    model = make_trainer(tmp_path, tiny_network(kind)).model
    for copied in copies(model):
        assert all(map(torch.equal, outputs(copied), outputs(model)))
        assert_apart(model, copied)


def test_so_has_a_copy_of_a_model_with_an_adapter(tmp_path):
    adapter = LoraConfig(r=2, target_modules="all-linear")
    model = make_trainer(tmp_path, tiny_model(), peft_config=adapter).model
    for copied in copies(model):
        assert_apart(model, copied)


def test_a_copy_keeps_the_hook_of_a_device_map():
    class Doubled(ModelHook):
        def post_forward(self, module, output):
            return type(output)(logits=2 * output.logits)

    network = tiny_model()
    before = network(IDS).logits
    add_hook_to_module(network, Doubled())
    attach_objective(network, EMO(), None)
    copied = copy.deepcopy(network)
    move(network)
    assert torch.equal(copied(IDS).logits, 2 * before)
