"""Every member of the family against the dense float64 reference, and the edges."""

from __future__ import annotations

import pytest
import torch
from dense_reference import reference_token_loss
from family import FAMILY, FROZEN, LOGIT_LOSSES, relative_error
from torch import Tensor

from instruct.objectives import (
    Objective,
    linear_objective_loss,
)
from instruct.objectives.built_in import OBJECTIVES
from instruct.objectives.torch_kernels import Head, Reference

TOKENS, HIDDEN, VOCABULARY = 29, 12, 97
# In float64: not closer, since the released code, and so EMO here, adds 1e-10 to its denominators.
EXACT = 1e-7


def example(
    tokens: int = TOKENS, vocabulary: int = VOCABULARY, dtype: torch.dtype = torch.float64
) -> tuple[Tensor, Tensor, Tensor]:
    """Hidden states, head and labels; half the tokens lean towards their label, so that q_y lies all over [0, 1]."""
    generator = torch.Generator().manual_seed(7)
    weight = torch.randn(vocabulary, HIDDEN, generator=generator, dtype=torch.float64)
    labels = torch.randint(0, vocabulary, (tokens,), generator=generator)
    lean = torch.linspace(-0.2, 0.8, tokens, dtype=torch.float64)[:, None]
    hidden = 0.4 * torch.randn(tokens, HIDDEN, generator=generator, dtype=torch.float64) + lean * weight[labels]
    return hidden.to(dtype).requires_grad_(), weight.to(dtype).requires_grad_(), labels


def assert_equals_the_reference(
    hidden: Tensor, weight: Tensor, labels: Tensor, objective: Objective, tolerance: float, **shape
) -> None:
    inputs = [hidden, weight] + ([shape["bias"]] if shape.get("bias") is not None else [])
    loss, statistics = linear_objective_loss(hidden, weight, labels, objective, **shape)
    expected = reference_token_loss(hidden, weight, labels, objective, **shape).mean()
    assert statistics.tokens == len(labels)
    assert relative_error(loss.detach(), expected.detach()) <= tolerance
    for found, wanted in zip(torch.autograd.grad(loss, inputs), torch.autograd.grad(expected, inputs), strict=True):
        assert relative_error(found, wanted) <= tolerance


@pytest.mark.parametrize("objective", [*FAMILY, *LOGIT_LOSSES, *FROZEN], ids=str)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, EXACT), (torch.float32, 1e-5)], ids=str)
@pytest.mark.parametrize(
    ("with_bias", "logit_scale", "softcap"), [(False, 1.0, None), (True, 2.0, 6.0)], ids=["plain", "all"]
)
def test_every_member_equals_the_dense_reference(objective, dtype, tolerance, with_bias, logit_scale, softcap):
    hidden, weight, labels = example(dtype=dtype)
    bias = torch.linspace(-1, 1, VOCABULARY, dtype=dtype).requires_grad_() if with_bias else None
    assert_equals_the_reference(
        hidden, weight, labels, objective, tolerance, bias=bias, logit_scale=logit_scale, softcap=softcap
    )


@pytest.mark.parametrize("objective", [*FAMILY, *LOGIT_LOSSES, *FROZEN], ids=str)
@pytest.mark.parametrize("labels", [[5], [VOCABULARY - 1, 3, 0, 3, VOCABULARY - 1]], ids=["one", "mixed"])
def test_few_tokens_and_labels_at_the_ends_of_the_vocabulary_equal_the_reference(objective, labels):
    """Also with rows of zeros, as padding of the vocabulary has, as distractors and as the target itself."""
    hidden, weight, _ = example(tokens=len(labels))
    weight = weight.detach().clone()
    weight[[1, 5, VOCABULARY - 1]] = 0
    weight.requires_grad_()
    assert_equals_the_reference(hidden, weight, torch.tensor(labels), objective, EXACT)


@pytest.mark.parametrize("objective", [*FAMILY, *LOGIT_LOSSES, *FROZEN], ids=str)
def test_a_batch_without_response_tokens_is_zero_and_connected(objective):
    hidden, weight, labels = example()
    loss, statistics = linear_objective_loss(hidden, weight, torch.full_like(labels, -100), objective)
    loss.backward()
    assert loss == 0
    assert torch.equal(hidden.grad, torch.zeros_like(hidden))
    assert torch.equal(weight.grad, torch.zeros_like(weight))
    assert all(total == 0 for total in vars(statistics).values())


@pytest.mark.parametrize("objective", [*FAMILY, *LOGIT_LOSSES, *FROZEN], ids=str)
def test_a_confident_and_a_hopeless_token_stay_finite(objective):
    """q_y rounds to 1, and to 0, in float32: the weights must not become 0 / 0, nor the values infinite."""
    weight = torch.tensor([[60.0, 0.0], [0.0, 1.0], [0.0, -1.0]], requires_grad=True)
    hidden = torch.tensor([[3.0, 0.1]] * 2, requires_grad=True)
    loss, _ = linear_objective_loss(hidden, weight, torch.tensor([0, 1]), objective)
    assert torch.isfinite(loss)
    assert all(torch.isfinite(grad).all() for grad in torch.autograd.grad(loss, [hidden, weight]))


@pytest.mark.parametrize(
    "objective",
    [*FROZEN, *(OBJECTIVES[name]() for name in ("asft", "gift", "target_sft"))],
    ids=str,
)
def test_an_objective_with_a_reference_model_equals_the_dense_one(objective):
    hidden, weight, labels = example()
    base, own = hidden.detach().roll(1, 0), weight.detach().roll(1, 0)
    labels[::5] = -100
    kept = labels != -100
    loss, _ = linear_objective_loss(
        hidden, weight, labels, objective, chunk_rows=8, reference=Reference(base, Head(own, None, 1.0, None))
    )
    expected = reference_token_loss(
        hidden[kept], weight, labels[kept], objective, base=base[kept].double() @ own.double().T
    ).mean()
    assert relative_error(loss.detach(), expected.detach()) <= EXACT
    found, wanted = (torch.autograd.grad(each, hidden)[0] for each in (loss, expected))
    assert relative_error(found, wanted) <= EXACT
