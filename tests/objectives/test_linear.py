"""linear_objective_loss against the dense float64 reference and the authors' package."""

from __future__ import annotations

import pytest
import torch
from dense_reference import reference_token_loss
from emo import EMOLoss
from family import FAMILY, relative_error
from torch import Tensor

from instruct.objectives import (
    EMO,
    MLE,
    CosineCost,
    linear,
    linear_objective_loss,
    torch_kernels,
)
from instruct.objectives.built_in import OBJECTIVES

TOKENS, HIDDEN, VOCABULARY = 37, 16, 101


def example(dtype: torch.dtype = torch.float32, scale: float = 1.0) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    hidden = torch.randn(TOKENS, HIDDEN, generator=generator).mul(scale).to(dtype).requires_grad_()
    weight = torch.randn(VOCABULARY, HIDDEN, generator=generator).to(dtype).requires_grad_()
    return hidden, weight, torch.randint(0, VOCABULARY, (TOKENS,), generator=generator)


@pytest.mark.parametrize(
    ("objective", "mode", "scale", "vocabulary"),
    [
        (EMO("paper", "emo"), 2, 0.2, VOCABULARY),
        (EMO("paper", "emo"), 2, 1.0, VOCABULARY),
        (
            EMO("paper"),
            1,
            0.02,
            12,
        ),  # cross-entropy near log 12 = 2.5, cost 1: their clamp of the ratio at 3 is inactive
    ],
    ids=str,
)
def test_emo_equals_the_authors_package(objective, mode, scale, vocabulary):
    """EMOLoss works on (batch, length, vocabulary) logits and shifts; a padded first position makes ours line up."""
    hidden, weight, labels = example(scale=scale)
    head, few = weight[:vocabulary], labels % vocabulary
    table = (
        torch.randn(vocabulary, 8, generator=torch.Generator().manual_seed(5)) if mode == 2 else torch.eye(vocabulary)
    )
    shifted_labels = torch.cat([torch.tensor([-100]), few])[None]
    logits = torch.cat([hidden @ head.T, torch.zeros(1, vocabulary)])[None]

    loss, _ = linear_objective_loss(hidden, head, few, objective, CosineCost(table))
    theirs = EMOLoss(logits, shifted_labels, table, mode=mode)

    assert relative_error(loss.detach(), theirs.detach()) <= 1e-5
    grads = (torch.autograd.grad(each, [hidden, weight]) for each in (loss, theirs))
    assert all(relative_error(found, wanted) <= 1e-5 for found, wanted in zip(*grads, strict=True))


@pytest.mark.parametrize("distinct", [2, 7])
@pytest.mark.parametrize("chunk", [1, 5])
@pytest.mark.parametrize("block", [3 * VOCABULARY, 2**20])
def test_a_label_may_end_anywhere_in_a_chunk_and_a_block(distinct, chunk, block, monkeypatch):
    """Tokens of one label fall into several chunks, and cost rows and tokens end at different places."""
    hidden, weight, labels = example()
    labels = labels % distinct
    monkeypatch.setattr(linear, "CPU_CHUNK_ROWS", chunk)
    monkeypatch.setattr(torch_kernels, "BLOCK_NUMBERS", block)
    loss, statistics = linear_objective_loss(hidden, weight, labels, EMO())
    expected = reference_token_loss(hidden, weight, labels, EMO()).mean()
    for found, wanted in zip(*(torch.autograd.grad(each, [hidden, weight]) for each in (loss, expected)), strict=True):
        assert relative_error(found, wanted) <= 1e-5
    assert statistics.tokens == TOKENS


def test_cost_of_a_confident_token_does_not_cancel():
    """1 - sum(q * cosine) rounds to 0 or below for a confident token; the sum over the others stays right."""
    logit = 14.0
    weight = torch.tensor([[logit, 0.0], [0.0, 1.0], [0.0, -1.0]], dtype=torch.bfloat16)
    hidden = torch.tensor([[1.0, 0.0]], dtype=torch.bfloat16)
    _, statistics = linear_objective_loss(hidden, weight, torch.tensor([0]), EMO("paper"))
    others = torch.exp(torch.tensor(-logit, dtype=torch.float64))
    expected = 2 * others / (1 + 2 * others)  # both others are orthogonal to the target: cost 1 each
    assert float(statistics.cost) == pytest.approx(float(expected), rel=1e-4)
    assert float(statistics.ratio) == pytest.approx(1.0, rel=1e-2)


@pytest.mark.parametrize("objective", [*FAMILY, OBJECTIVES["gem"]()], ids=str)
@pytest.mark.parametrize("margin", [12.0, 24.0])
def test_gradients_below_float16_survive_until_the_loss_scale(objective, margin):
    """From a margin of 20, gradients to logits are below 6e-8: rounded to float16 in the forward, they would be 0."""
    generator = torch.Generator().manual_seed(7)
    labels = torch.arange(TOKENS) % 5
    weight = torch.randn(VOCABULARY, HIDDEN, generator=generator) / 8
    weight[:5] = torch.eye(5, HIDDEN) * 4
    hidden = (torch.eye(5, HIDDEN)[labels] * margin / 4 + torch.randn(TOKENS, HIDDEN, generator=generator) / 8).half()
    hidden.requires_grad_()
    weight = weight.half().float().requires_grad_()  # as under autocast
    bias = torch.linspace(-1, 1, VOCABULARY).half().float().requires_grad_()
    inputs = [hidden, weight, bias]
    wide = [value.detach().double().requires_grad_() for value in inputs]
    expected = reference_token_loss(wide[0], wide[1], labels, objective, bias=wide[2]).mean()
    wanted = torch.autograd.grad(expected, wide)
    largest = wanted[0].abs().amax(dim=1)
    scale = 2.0 ** (10 - largest.max().log2().ceil())  # as a loss scale that grows until something overflows

    loss, _ = linear_objective_loss(hidden, weight, labels, objective, bias=bias)
    found = torch.autograd.grad(loss * scale, inputs)
    for grad, right in zip(found, wanted, strict=True):
        # The head's is a sum over tokens, with one unit for all.
        if grad is not found[1] or (margin < 20 and right.abs().max() > 1e-7):
            assert relative_error(grad, right * scale) <= 1e-2
    rows = (found[0].double() - wanted[0] * scale).norm(dim=1) / (wanted[0] * scale).norm(dim=1)
    assert float(rows[largest * scale > 1e-3].max()) <= 2e-2


def test_a_label_outside_the_vocabulary_is_refused_in_one_line():
    hidden, weight, labels = example()
    labels[5] = VOCABULARY
    with pytest.raises(ValueError, match=r"^label 101 at position 5 is not a token of the vocabulary of 101; .*$"):
        linear_objective_loss(hidden, weight, labels, MLE())


@pytest.mark.parametrize("objective", [MLE(), EMO()], ids=str)
def test_float32_states_under_autocast_are_computed_in_float32(objective):
    hidden, weight, labels = example()
    expected, _ = linear_objective_loss(hidden, weight, labels, objective)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss, _ = linear_objective_loss(hidden, weight, labels, objective)
    assert torch.equal(loss, expected)
    for grad, wanted in zip(*(torch.autograd.grad(each, [hidden, weight]) for each in (loss, expected)), strict=True):
        assert torch.equal(grad, wanted)
