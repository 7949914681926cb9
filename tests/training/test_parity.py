"""The loss inside the model's forward against the dense float64 reference: architectures, dtypes, heads, the family."""

from __future__ import annotations

import functools

import pytest
import tiny
import torch
from datasets import Dataset
from dense_reference import reference_token_loss
from family import FAMILY, relative_error
from torch import Tensor
from transformers import (
    AutoModelForCausalLM,
    CohereConfig,
    Gemma2Config,
    GPT2Config,
    GraniteConfig,
    LlamaConfig,
    MistralConfig,
    PhiConfig,
    PreTrainedConfig,
    PreTrainedModel,
    Qwen2Config,
)
from trl import SFTConfig, SFTTrainer

from instruct.objectives import DFT, EMO, MLE
from instruct.training.head import attach_objective

VOCABULARY = 131
SIZES = {**tiny.SIZES, "vocab_size": VOCABULARY, "max_position_embeddings": 64}
# Beside each: what multiplies its initial parameters, so that its logits have a standard deviation of 2 to 3, as
# trained models' have; and what it puts between its head and the softmax.
ARCHITECTURES: dict[str, tuple[PreTrainedConfig, float, dict[str, float]]] = {
    "llama": (LlamaConfig(**SIZES), 5, {}),
    "qwen2": (Qwen2Config(**SIZES), 5, {}),
    "mistral": (MistralConfig(**SIZES, sliding_window=None), 5, {}),
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
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 1e-2}


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


@functools.cache
def model_states_labels(architecture: str, dtype: torch.dtype) -> tuple[PreTrainedModel, Tensor, Tensor]:
    """A model, the hidden states that its backbone makes of the batch, and labels, once for all tests.

    Every other label is what the model finds likeliest, so that q_y lies all over [0, 1].
    """
    model = make_model(architecture, dtype)
    input_ids, labels = batch()
    with torch.no_grad():
        likeliest = model(input_ids=input_ids).logits.argmax(-1)
        states = model.base_model(input_ids=input_ids).last_hidden_state
    labels[:, 6::2] = torch.where(labels[:, 6::2] == -100, -100, likeliest[:, 5:-1:2])
    return model, states, labels


# Every objective on one architecture and every architecture with three objectives; the full grid before a release.
THREE = (MLE(), EMO("official"), EMO("paper", "emo"))
GRID = [
    pytest.param(
        architecture, objective, marks=[] if architecture == "llama" or objective in THREE else pytest.mark.full
    )
    for architecture in ARCHITECTURES
    for objective in FAMILY
]


@pytest.mark.parametrize(("architecture", "objective"), GRID, ids=str)
@pytest.mark.parametrize("head_trains", [True, False], ids=["trainable", "frozen"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_gradients_to_states_and_head_equal_the_reference(architecture, dtype, head_trains, objective):
    """The reference is computed in float64 from the same states and head."""
    model, states, labels = model_states_labels(architecture, dtype)
    head = model.get_output_embeddings()
    inputs = {"states": states.clone().requires_grad_(), "weight": head.weight}
    if getattr(head, "bias", None) is not None:
        inputs["bias"] = head.bias
    for name, leaf in inputs.items():
        leaf.requires_grad_(head_trains or name == "states").grad = None

    responses = labels[:, 1:] != -100
    expected = reference_token_loss(
        inputs["states"][:, :-1][responses], inputs["weight"], labels[:, 1:][responses], objective,
        bias=inputs.get("bias"), **ARCHITECTURES[architecture][2],
    ).mean()  # fmt: skip
    wanted = {name: leaf for name, leaf in inputs.items() if leaf.requires_grad}
    wanted_grads = torch.autograd.grad(expected, list(wanted.values()))

    forward = model.forward
    attach_objective(model, objective, None)
    hook = model.base_model.register_forward_hook(
        lambda module, arguments, output: type(output)(last_hidden_state=inputs["states"])
    )
    try:
        loss = model(input_ids=batch()[0], labels=labels, objective_loss=True).loss
        grads = torch.autograd.grad(loss, list(wanted.values()))
    finally:
        hook.remove()
        model.forward = forward

    assert loss.item() == pytest.approx(expected.item(), rel=TOLERANCE[dtype])
    for name, grad, expected_grad in zip(wanted, grads, wanted_grads, strict=True):
        assert grad.dtype == dtype
        assert relative_error(grad, expected_grad) <= TOLERANCE[dtype], name


@pytest.mark.parametrize("architecture", list(ARCHITECTURES))
def test_mle_equals_the_models_own_loss(architecture):
    """The models' own code says what stands between head and softmax."""
    model, _, labels = model_states_labels(architecture, torch.float32)
    input_ids, _ = batch()
    with torch.no_grad():
        own = model(input_ids=input_ids, labels=labels).loss
        forward = model.forward
        attach_objective(model, MLE(), None)
        ours = model(input_ids=input_ids, labels=labels, objective_loss=True).loss
        model.forward = forward
    assert ours.item() == pytest.approx(own.item(), rel=1e-5)


@pytest.mark.parametrize("objective", THREE, ids=str)
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
@pytest.mark.parametrize("architecture", list(ARCHITECTURES))
def test_every_parameters_gradient_equals_the_references(architecture, tied, objective):
    """Through the backbone, and, where embedding and head are one matrix, from both its uses."""
    model = make_model(architecture, tied=tied)
    input_ids, labels = batch()
    head = model.get_output_embeddings()
    assert (head.weight is model.get_input_embeddings().weight) == tied
    parameters = dict(model.named_parameters())

    states = model.base_model(input_ids=input_ids).last_hidden_state[:, :-1]
    responses = labels[:, 1:] != -100
    expected = reference_token_loss(
        states[responses], head.weight, labels[:, 1:][responses], objective, bias=getattr(head, "bias", None),
        **ARCHITECTURES[architecture][2],
    ).mean()  # fmt: skip
    wanted = torch.autograd.grad(expected, list(parameters.values()))

    attach_objective(model, objective, None)
    loss = model(input_ids=input_ids, labels=labels, objective_loss=True).loss
    found = torch.autograd.grad(loss, list(parameters.values()))

    assert relative_error(*(torch.cat([grad.flatten() for grad in grads]) for grads in (found, wanted))) <= 1e-5


def test_dft_equals_trls(tmp_path):
    """TRL's loss_type="dft", loss and gradients, through its trainer."""
    input_ids, labels = batch()
    rows = Dataset.from_list(
        [{"input_ids": ids, "labels": label} for ids, label in zip(input_ids.tolist(), labels.tolist(), strict=True)]
    )
    model = make_model("llama")
    config = SFTConfig(
        str(tmp_path), loss_type="dft", per_device_train_batch_size=2, report_to=[], use_cpu=True, bf16=False,
        gradient_checkpointing=False,
    )  # fmt: skip
    trainer = SFTTrainer(model, config, train_dataset=rows, processing_class=tiny.tiny_tokenizer())
    inputs = next(iter(trainer.get_train_dataloader()))
    theirs = trainer.compute_loss(model, inputs, num_items_in_batch=(inputs["labels"][:, 1:] != -100).sum())
    wanted = torch.autograd.grad(theirs, list(model.parameters()))

    fresh = make_model("llama")
    attach_objective(fresh, DFT(), None)
    ours = fresh(input_ids=inputs["input_ids"], labels=inputs["labels"], objective_loss=True).loss
    found = torch.autograd.grad(ours, list(fresh.parameters()))

    assert ours.item() == pytest.approx(theirs.item(), rel=1e-6)
    assert relative_error(*(torch.cat([grad.flatten() for grad in grads]) for grads in (found, wanted))) <= 1e-5
