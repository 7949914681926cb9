"""FrequentRows: the same rows, the frequent ones from memory."""

from __future__ import annotations

import pytest
import torch

from instruct.objectives import EMO, CosineCost, frequent_rows, linear_objective_loss
from instruct.objectives.frequent_rows import FrequentRows

VOCABULARY = 30


@pytest.fixture
def cost() -> CosineCost:
    return CosineCost(torch.randn(VOCABULARY, 8, generator=torch.Generator().manual_seed(0)))


@pytest.mark.parametrize("given", [True, False], ids=["in given memory", "in new memory"])
def test_rows_are_those_of_the_cost(cost, given):
    frequent = FrequentRows(cost, [3, 3, 3, 7, 7, 29])
    assert sorted(torch.nonzero(frequent.place >= 0)[:, 0].tolist()) == [3, 7, 29]
    for labels in ([3, 7, 29], [1, 2, 4], [0, 3, 5, 6, 7, 8, 28, 29], [7], [8]):
        labels = torch.tensor(labels)
        out = torch.full((len(labels), VOCABULARY), torch.nan) if given else None
        rows = frequent.rows(labels, out)
        assert torch.allclose(rows, cost.rows(labels), atol=1e-6)
        assert not given or rows is out


def test_the_most_frequent_are_kept_as_far_as_memory_goes(cost, monkeypatch):
    monkeypatch.setattr(frequent_rows, "KEPT_BYTES", 2 * VOCABULARY * 4 + 3)
    frequent = FrequentRows(cost, [1, 2, 2, 2, 5, 5, 9])
    assert torch.nonzero(frequent.place >= 0)[:, 0].tolist() == [2, 5]
    assert frequent.kept.shape == (2, VOCABULARY)


def test_the_loss_is_the_same(cost):
    generator = torch.Generator().manual_seed(1)
    hidden = torch.randn(50, 16, generator=generator, requires_grad=True)
    weight = torch.randn(VOCABULARY, 16, generator=generator)
    labels = torch.randint(0, VOCABULARY, (50,), generator=generator)
    plain, _ = linear_objective_loss(hidden, weight, labels, EMO(), cost)
    kept, _ = linear_objective_loss(hidden, weight, labels, EMO(), FrequentRows(cost, labels[:25].tolist()))
    assert torch.allclose(plain, kept)
    assert torch.allclose(*(torch.autograd.grad(loss, hidden)[0] for loss in (plain, kept)), atol=1e-6)
