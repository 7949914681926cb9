"""The energy score: its table and its projection, properness, precision, chunks, and tokens without a label."""

from __future__ import annotations

import pytest
import torch
from dense_reference import dense_unit_rows, reference_token_loss
from family import relative_error
from torch import Tensor

from instruct.objectives import MLE, Energy, EnergyTable, linear_objective_loss
from instruct.objectives.transport import projection

TOKENS, HIDDEN, VOCABULARY, WIDTH = 37, 16, 101, 24
OBJECTIVE = Energy(6.0)


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def example(dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
    hidden, weight = random(TOKENS, HIDDEN, seed=1), random(VOCABULARY, HIDDEN, seed=2)
    labels = torch.randint(0, VOCABULARY, (TOKENS,), generator=torch.Generator().manual_seed(3))
    hidden = 0.3 * hidden + torch.linspace(-0.1, 0.6, TOKENS)[:, None] * weight[labels]  # q_y lies all over [0, 1]
    return hidden.to(dtype).requires_grad_(), weight.to(dtype).requires_grad_(), labels


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-7), (torch.float32, 1e-5), (torch.bfloat16, 1e-2)], ids=str
)
@pytest.mark.parametrize("dim", [7, WIDTH])
def test_loss_and_gradients_in_a_projected_table_equal_the_dense_energy_score(dtype, tolerance, dim):
    hidden, weight, labels = example(dtype)
    table = random(VOCABULARY, WIDTH, seed=4).double()
    table[5] = 0
    bias = torch.linspace(-1, 1, VOCABULARY, dtype=dtype).requires_grad_()
    shape = {"bias": bias, "logit_scale": 0.5, "softcap": 8.0}
    loss, statistics = linear_objective_loss(hidden, weight, labels, OBJECTIVE, EnergyTable(table, dim), **shape)
    embeddings = dense_unit_rows(table) @ (projection(WIDTH, dim) if dim < WIDTH else torch.eye(WIDTH).double())
    dense = reference_token_loss(hidden, weight, labels, OBJECTIVE, embeddings, **shape).mean()
    assert relative_error(loss.detach(), dense.detach()) <= tolerance
    inputs = [hidden, weight, bias]
    for found, wanted in zip(torch.autograd.grad(loss, inputs), torch.autograd.grad(dense, inputs), strict=True):
        assert relative_error(found, wanted) <= 2 * tolerance
    ce = reference_token_loss(hidden, weight, labels, MLE(), **shape).mean()
    wanted = (dense - ce / 2).item() / (OBJECTIVE.weight / 2)
    assert statistics.cost.item() / TOKENS == pytest.approx(wanted, rel=max(tolerance, 1e-6))
