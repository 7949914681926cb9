"""The loss inside the model's forward against the dense float64 reference: architectures, dtypes, heads, the family."""

from __future__ import annotations

import pytest
import tiny
import torch
from dense_reference import reference_token_loss
from family import relative_error
from torch import Tensor
from transformers import (
    AutoModelForCausalLM,
    CohereConfig,
    Gemma2Config,
    GPT2Config,
    GraniteConfig,
    LlamaConfig,
    PhiConfig,
    PreTrainedConfig,
    PreTrainedModel,
)
from trl import SFTTrainer

from instruct.objectives import EMO, MLE
from instruct.training.head import attach_objective

VOCABULARY = 131
SIZES = {**tiny.SIZES, "vocab_size": VOCABULARY, "max_position_embeddings": 64}
# Beside each: what multiplies its initial parameters, so that its logits have a standard deviation of 2 to 3, as
# trained models' have; and what it puts between its head and the softmax.
ARCHITECTURES: dict[str, tuple[PreTrainedConfig, float, dict[str, float]]] = {
    "llama": (LlamaConfig(**SIZES), 5, {}),
    "phi": (PhiConfig(**SIZES), 5, {}),  # a bias
    "gpt2": (
        GPT2Config(
            vocab_size=VOCABULARY, n_embd=32, n_layer=2, n_head=4, n_positions=64, bos_token_id=1, eos_token_id=2,
            resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
        ),
        5, {},
    ),
    "gemma2": (
        Gemma2Config(**SIZES, head_dim=8, sliding_window=64, final_logit_softcapping=5.0),
        20, {"softcap": 5.0},
    ),
    "granite": (GraniteConfig(**SIZES, logits_scaling=4.0), 10, {"logit_scale": 0.25}),
    "cohere": (CohereConfig(**SIZES, logit_scale=0.5), 7, {"logit_scale": 0.5}),
}  # fmt: skip


def batch() -> tuple[Tensor, Tensor]:
    """Token ids and labels; the responses are the later parts of two rows of different length."""
    input_ids = torch.randint(3, VOCABULARY, (2, 16), generator=torch.Generator().manual_seed(2))
    labels = input_ids.clone()
    labels[:, :5] = -100
    labels[1, 12:] = -100
    return input_ids, labels


def make_model(architecture: str, dtype: torch.dtype = torch.float32, tied: bool | None = None) -> PreTrainedModel:
    torch.manual_seed(0)
    config, spread, _ = ARCHITECTURES[architecture]
    if tied is not None:
        config = type(config).from_dict({**config.to_dict(), "tie_word_embeddings": tied})
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(spread)
        bias = getattr(model.get_output_embeddings(), "bias", None)
        if bias is not None:
            bias.normal_()
    return model.to(dtype)


@pytest.mark.parametrize("objective", [MLE(), EMO("official"), EMO("paper", "emo")], ids=str)
@pytest.mark.parametrize(("tied", "dtype"), [(True, torch.float32), (False, torch.float32), (False, torch.bfloat16)])
@pytest.mark.parametrize("architecture", list(ARCHITECTURES))
def test_every_parameters_gradient_equals_the_references(architecture, tied, dtype, objective):
    """Through the backbone, and, where embedding and head are one matrix, from both; in bfloat16 the head's alone."""
    model = make_model(architecture, dtype, tied)
    input_ids, labels = batch()
    head = model.get_output_embeddings()
    assert (head.weight is model.get_input_embeddings().weight) == tied
    parameters = list((model if dtype == torch.float32 else head).parameters())
    tolerance = {torch.float32: 1e-5, torch.bfloat16: 1e-2}[dtype]

    states = model.base_model(input_ids=input_ids).last_hidden_state[:, :-1]
    responses = labels[:, 1:] != -100
    expected = reference_token_loss(
        states[responses], head.weight, labels[:, 1:][responses], objective, bias=getattr(head, "bias", None),
        **ARCHITECTURES[architecture][2],
    ).mean()  # fmt: skip
    wanted = torch.autograd.grad(expected, parameters)

    attach_objective(model, objective, None)
    loss = model(input_ids=input_ids, labels=labels, objective_loss=True).loss
    found = torch.autograd.grad(loss, parameters)

    assert loss.item() == pytest.approx(expected.item(), rel=tolerance)
    assert {gradient.dtype for gradient in found} == {dtype}
    assert relative_error(*(torch.cat([grad.flatten() for grad in grads]) for grads in (found, wanted))) <= tolerance


def test_dft_equals_trls(tmp_path):
    """TRL's loss_type="dft", loss and gradients, through its trainer."""
    theirs = tiny.make_trainer(tmp_path / "trl", cls=SFTTrainer, loss_type="dft")
    ours = tiny.make_trainer(tmp_path / "ours", objective="dft")
    wanted, found = (tiny.captured_gradients(trainer) for trainer in (theirs, ours))
    tiny.assert_same_gradients(found, wanted, 1e-5)
    assert ours.state.log_history[0]["loss"] == pytest.approx(theirs.state.log_history[0]["loss"], rel=1e-6)
