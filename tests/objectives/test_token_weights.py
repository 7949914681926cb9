"""Weights of tokens: the loss is the weighted mean, with every objective, against the dense float64 reference."""

from __future__ import annotations

import pytest
import torch
from dense_reference import reference_token_loss
from family import FAMILY, FROZEN, LOGIT_LOSSES, EveryTerm, every_term_dense, relative_error
from test_family import EXACT, VOCABULARY, example

from instruct.objectives import linear_objective_loss

EVERY = [*FAMILY, *LOGIT_LOSSES, *FROZEN]


def weights_of(labels: torch.Tensor) -> torch.Tensor:
    """From a thousandth to a hundred."""
    return torch.logspace(-3, 2, len(labels))[torch.randperm(len(labels), generator=torch.Generator().manual_seed(1))]


def gradients_of(objective, tensors, labels, **more):
    inputs = [tensor.detach().clone().requires_grad_() for tensor in tensors]
    bias = inputs[2] if len(inputs) == 3 else None
    loss, statistics = linear_objective_loss(*inputs[:2], labels, objective, bias=bias, **more)
    return loss.detach(), torch.autograd.grad(loss, inputs), statistics


@pytest.mark.parametrize("objective", EVERY, ids=str)
def test_every_objective_is_the_weighted_mean_of_its_tokens(objective):
    hidden, weight, labels = example()
    bias = torch.linspace(-1, 1, VOCABULARY, dtype=torch.float64).requires_grad_()
    weights = weights_of(labels).double()
    loss, gradients, statistics = gradients_of(
        objective, [hidden, weight, bias], labels, token_weights=weights, chunk_rows=8
    )
    losses = reference_token_loss(hidden, weight, labels, objective, bias=bias)
    expected = (weights * losses).sum() / weights.sum()
    assert relative_error(loss, expected.detach()) <= EXACT
    for found, wanted in zip(gradients, torch.autograd.grad(expected, [hidden, weight, bias]), strict=True):
        assert relative_error(found, wanted) <= EXACT
    ce = torch.nn.functional.cross_entropy(hidden @ weight.T + bias, labels, reduction="none")
    assert statistics.tokens.item() == pytest.approx(weights.sum().item())
    assert statistics.ce.item() == pytest.approx((weights * ce).sum().item())


@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [(torch.float32, 3e-6), (torch.float16, 4e-3), (torch.bfloat16, 3e-2)],
)
def test_every_term_is_weighted_in_every_precision(dtype, tolerance):
    hidden, weight, labels = example(dtype=dtype)
    weights = weights_of(labels)
    found, gradients, _ = gradients_of(EveryTerm(), [hidden, weight], labels, token_weights=weights)
    wide = [tensor.detach().double().requires_grad_() for tensor in (hidden, weight)]
    losses = every_term_dense(wide[0] @ wide[1].T, wide[1], labels)
    expected = (weights * losses).sum() / weights.sum()
    for one, wanted in zip((found, *gradients), (expected, *torch.autograd.grad(expected, wide)), strict=True):
        assert relative_error(one, wanted.detach()) <= tolerance
