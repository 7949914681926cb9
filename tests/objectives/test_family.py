"""Every member of the family against the dense float64 reference, frozen finite differences, and the edges."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator

import pytest
import torch
from dense_reference import reference_token_loss
from family import FAMILY, FROZEN, LOGIT_LOSSES, EveryTerm, every_term_dense, relative_error
from torch import Tensor

from instruct.objectives import (
    ASFT,
    DFT,
    EAFT,
    EMO,
    GEM,
    GIFT,
    MLE,
    CosineCost,
    Energy,
    EnergyTable,
    ErrorNormTruncation,
    Frozen,
    LogitLoss,
    MixCE,
    Objective,
    TaiLr,
    TargetSFT,
    TopEAFT,
    linear_objective_loss,
)
from instruct.objectives.objective import TERMS, TokenStatistics, Weighting
from instruct.objectives.torch_kernels import Head, Reference

ENGINE = [  # the same objectives as far as the engine can tell them apart: what they ask for, and whether b is there
    MLE(),
    EMO("official"),
    ErrorNormTruncation(1.0),
]
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
    ("with_bias", "logit_scale", "softcap"),
    [(False, 1.0, None), (True, 0.5, None), (False, 1.0, 4.0), (True, 2.0, 6.0)],
    ids=["plain", "bias-scale", "softcap", "all"],
)
def test_every_member_equals_the_dense_reference(objective, dtype, tolerance, with_bias, logit_scale, softcap):
    hidden, weight, labels = example(dtype=dtype)
    bias = torch.linspace(-1, 1, VOCABULARY, dtype=dtype).requires_grad_() if with_bias else None
    assert_equals_the_reference(
        hidden, weight, labels, objective, tolerance, bias=bias, logit_scale=logit_scale, softcap=softcap
    )


class FrozenWeights:
    """An objective whose weights stay those of its first evaluation: its loss is smooth, a weighted sum of terms.

    The engine calls `weigh` on blocks of tokens in an order that depends on the labels alone, so a replay in the same
    order gives each token its own weights.
    """

    def __init__(self, objective: Objective) -> None:
        self.objective = objective
        self.recorded: list[Weighting] = []
        self.replay: Iterator[Weighting] | None = None

    @property
    def needs(self) -> Collection[str]:
        return self.objective.needs

    def weigh(self, token: TokenStatistics) -> Weighting:
        if self.replay is None:
            weighting = self.objective.weigh(token)
            self.recorded.append(weighting)
        else:
            weighting = next(self.replay)
        terms = weighting.terms
        value = sum(weight * getattr(token, TERMS[name]) for name, weight in terms.items())
        return Weighting(value=value, **terms)

    def loss(self, hidden: Tensor, weight: Tensor, labels: Tensor, bias: Tensor, **shape) -> Tensor:
        if self.recorded:
            self.replay = iter(self.recorded)
        loss, _ = linear_objective_loss(hidden, weight, labels, self, bias=bias, **shape)
        return loss


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, EXACT), (torch.float32, 2e-6), (torch.float16, 3e-3)])
def test_every_term_and_statistic_equals_a_dense_computation(dtype, tolerance):
    hidden, weight, labels = (values.to(dtype) if values.is_floating_point() else values for values in example())
    inputs = [hidden.detach().requires_grad_(), weight.detach().requires_grad_()]
    found, _ = linear_objective_loss(*inputs, labels, EveryTerm())
    wide = [values.detach().double().requires_grad_() for values in inputs]
    expected = every_term_dense(wide[0] @ wide[1].T, wide[1], labels).mean()
    assert relative_error(found.detach(), expected.detach()) <= tolerance
    for gradient, wanted in zip(torch.autograd.grad(found, inputs), torch.autograd.grad(expected, wide), strict=True):
        assert relative_error(gradient, wanted) <= tolerance


@pytest.mark.parametrize("objective", FAMILY, ids=str)
def test_gradients_equal_finite_differences_of_the_loss_with_frozen_weights(objective):
    """The cost table is a constant: the head is detached there."""
    hidden, weight, labels = example(tokens=5, vocabulary=7)
    bias = torch.linspace(-1, 1, 7, dtype=torch.float64).requires_grad_()
    frozen, shape = FrozenWeights(objective), {"logit_scale": 0.8, "softcap": 6.0}
    if "cost" in objective.needs:
        table = weight.detach().clone()
        shape["cost"] = EnergyTable(table, dim=5) if isinstance(objective, Energy) else CosineCost(table)
    frozen.loss(hidden, weight, labels, bias, **shape)
    assert any(bool((weight != 0).any()) for weight in frozen.recorded[0].terms.values())
    assert torch.autograd.gradcheck(
        lambda *point: frozen.loss(*point[:2], labels, point[2], **shape), (hidden, weight, bias)
    )


@pytest.mark.parametrize("objective", ENGINE, ids=str)
@pytest.mark.parametrize("vocabulary", [2, 7, 97, 1031])
def test_odd_vocabulary_sizes_equal_the_reference(objective, vocabulary):
    hidden, weight, labels = example(vocabulary=vocabulary)
    assert_equals_the_reference(hidden, weight, labels, objective, EXACT)


@pytest.mark.parametrize("objective", [*FAMILY, *LOGIT_LOSSES, *FROZEN], ids=str)
@pytest.mark.parametrize(
    "labels",
    [[5], [0], [VOCABULARY - 1], [5] * 9, [0] * 4 + [VOCABULARY - 1] * 4, [VOCABULARY - 1, 3, 0, 3, VOCABULARY - 1]],
    ids=["one", "first", "last", "one-distinct", "first-and-last", "mixed"],
)
def test_few_tokens_and_labels_at_the_ends_of_the_vocabulary_equal_the_reference(objective, labels):
    hidden, weight, _ = example(tokens=len(labels))
    assert_equals_the_reference(hidden, weight, torch.tensor(labels), objective, EXACT)


@pytest.mark.parametrize("objective", [*FAMILY, *LOGIT_LOSSES, *FROZEN], ids=str)
def test_a_batch_without_response_tokens_is_zero_and_connected(objective):
    _, weight, _ = example()
    hidden = torch.zeros(0, HIDDEN, dtype=torch.float64, requires_grad=True)
    loss, statistics = linear_objective_loss(hidden, weight, torch.zeros(0, dtype=torch.long), objective)
    loss.backward()
    assert loss == 0
    assert hidden.grad.shape == hidden.shape
    assert torch.equal(weight.grad, torch.zeros_like(weight))
    assert all(total == 0 for total in vars(statistics).values())


@pytest.mark.parametrize("objective", [*FAMILY, *LOGIT_LOSSES, *FROZEN], ids=str)
def test_zero_rows_in_the_head_equal_the_reference(objective):
    """Vocabulary padding, as a distractor and as the target itself."""
    hidden, weight, labels = example()
    padded = weight.detach().clone()
    padded[[1, 50, VOCABULARY - 1]] = 0
    labels[:3] = torch.tensor([1, 50, VOCABULARY - 1])
    assert_equals_the_reference(hidden, padded.requires_grad_(), labels, objective, EXACT)


@pytest.mark.parametrize("objective", [*FAMILY, *LOGIT_LOSSES, *FROZEN], ids=str)
def test_a_confident_and_a_hopeless_token_stay_finite(objective):
    """q_y rounds to 1, and to 0, in float32: the weights must not become 0 / 0, nor the values infinite."""
    weight = torch.tensor([[60.0, 0.0], [0.0, 1.0], [0.0, -1.0]], requires_grad=True)
    hidden = torch.tensor([[3.0, 0.1]] * 2, requires_grad=True)
    loss, _ = linear_objective_loss(hidden, weight, torch.tensor([0, 1]), objective)
    assert torch.isfinite(loss)
    assert all(torch.isfinite(grad).all() for grad in torch.autograd.grad(loss, [hidden, weight]))


def test_the_cross_entropy_family_has_the_weights_of_its_formulas():
    """From the formulae with q_y = 0.5 and 0.01, by hand."""
    q = torch.tensor([0.5, 0.01], dtype=torch.float64)
    token = TokenStatistics(ce=-q.log(), q_target=q, error_norm=torch.tensor([0.6, 1.35], dtype=torch.float64))
    expected = {
        MLE(): [1, 1],
        MixCE(0.8): [0.8 + 0.2 * 0.5, 0.8 + 0.2 * 0.01],
        TaiLr(0.8): [0.5 / 0.9, 0.01 / 0.802],
        # Gamma reversed, floor 0.2: 0.5 / (0.2 + 0.4) = 0.8333; 0.01 / 0.208 = 0.048, raised to 0.2.
        TaiLr(0.8, "official"): [0.8 + 0.2 * 0.5 / 0.6, 0.8 + 0.2 * 0.2],
        DFT(): [0.5, 0.01],
        ErrorNormTruncation(): [1, 0],
    }
    for objective, a in expected.items():
        weighting = objective.weigh(token)
        assert weighting.b is None
        assert weighting.a.tolist() == pytest.approx(a, rel=1e-12), objective
        assert torch.allclose(weighting.value, weighting.a * token.ce)


def test_gamma_0_and_1_give_the_limiting_objectives():
    q = torch.tensor([1.0, 0.3, 1e-30, 0.0])
    token = TokenStatistics(ce=torch.tensor([0.0, 1.2, 69.0, 200.0]), q_target=q)
    one = torch.ones(4)
    assert torch.equal(MixCE(1.0).weigh(token).a, one)
    assert torch.equal(TaiLr(1.0, "official").weigh(token).a, one)
    assert torch.equal(TaiLr(0.0).weigh(token).a[:3], one[:3])
    assert torch.equal(TaiLr(1.0).weigh(token).a, q)
    assert torch.equal(TaiLr(0.0, "official").weigh(token).a, q.clamp(min=0.2))


def test_error_norm_truncation_drops_confident_errors_and_keeps_uncertain_tokens():
    """Both targets have the same probability, and so the same cross-entropy; only the other tokens' shares differ."""
    wrong = torch.full((101,), 0.009 / 99, dtype=torch.float64)
    wrong[:2] = torch.tensor([0.001, 0.99])
    uncertain = torch.full((101,), 0.999 / 100, dtype=torch.float64)
    uncertain[0] = 0.001
    head = torch.eye(101, dtype=torch.float64)
    hidden = torch.stack([wrong, uncertain]).log().requires_grad_()
    labels = torch.tensor([0, 0])

    loss, statistics = linear_objective_loss(hidden, head, labels, ErrorNormTruncation(1.3))
    loss.backward()

    assert statistics.clamped == 1
    assert torch.equal(hidden.grad[0], torch.zeros(101, dtype=torch.float64))
    # Divided by both tokens, not only by the remaining one.
    assert loss.item() == pytest.approx(-math.log(0.001) / 2, rel=1e-9)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: EMO("papers"), "unknown EMO variant 'papers'"),
        (lambda: EMO("paper", "both"), "unknown EMO emphasis 'both'"),
        (lambda: MixCE(1.5), "gamma is 1.5"),
        (lambda: TaiLr(-0.1), "gamma is -0.1"),
        (lambda: TaiLr(0.5, "author"), "unknown TaiLr variant 'author'; use paper or official"),
        (lambda: TaiLr(1.1, "official"), "gamma is 1.1"),
        (lambda: ErrorNormTruncation(0.0), "threshold is 0.0"),
        (lambda: ErrorNormTruncation(2.0), "threshold is 2.0"),
        (lambda: ErrorNormTruncation(math.nan), "threshold is nan"),
        (lambda: Energy(-1.0), "energy_weight is -1.0; it must be a number of at least 0"),
        (lambda: Energy(math.inf), "energy_weight is inf"),
        (lambda: Energy(dim=0), "energy_dim is 0"),
        (lambda: EnergyTable(torch.ones(3, 2), 0), "energy_dim is 0"),
    ],
)
def test_an_invalid_option_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


class Squares(LogitLoss):
    """A smooth function of a row without any detached part: the sum of (q_j - [j = y])^2."""

    def losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        wrong = logits.softmax(dim=-1) - torch.nn.functional.one_hot(labels, logits.shape[-1])
        return wrong.square().sum(dim=-1)


def test_a_function_of_logits_has_the_gradient_of_finite_differences():
    hidden, weight, labels = example(tokens=5, vocabulary=7)
    bias = torch.linspace(-1, 1, 7, dtype=torch.float64).requires_grad_()
    shape = {"logit_scale": 0.8, "softcap": 6.0}
    assert torch.autograd.gradcheck(
        lambda *point: linear_objective_loss(*point[:2], labels, Squares(), bias=point[2], **shape)[0],
        (hidden, weight, bias),
    )


def test_blocks_of_a_function_of_logits_are_as_one(monkeypatch):
    hidden, weight, labels = example()
    whole = torch.autograd.grad(linear_objective_loss(hidden, weight, labels, GEM())[0], hidden)[0]
    monkeypatch.setattr("instruct.objectives.torch_kernels.LOGIT_NUMBERS", 3 * VOCABULARY)
    parts = torch.autograd.grad(linear_objective_loss(hidden, weight, labels, GEM(), chunk_rows=8)[0], hidden)[0]
    torch.testing.assert_close(parts, whole)


@pytest.mark.parametrize("h", ["linear", "logsigmoid"])
def test_gem_is_that_of_the_authors_code(h):
    """By the gradient of their formula: c - sum(c) e_y; at beta 1 and `linear` that of cross-entropy."""
    hidden, weight, labels = example()
    logits = (hidden @ weight.T).detach()
    c = (logits / 0.7).softmax(dim=-1)
    if h == "logsigmoid":
        c = c * torch.sigmoid(0.01 * (logits - logits.gather(1, labels[:, None])))
    wanted = c - c.sum(dim=-1, keepdim=True) * torch.nn.functional.one_hot(labels, VOCABULARY)
    loss, _ = linear_objective_loss(hidden, weight.detach(), labels, GEM(0.7, h))
    (found,) = torch.autograd.grad(loss * len(labels), hidden)
    assert relative_error(found, wanted @ weight.detach()) < 1e-12
    one, mle = (linear_objective_loss(hidden, weight.detach(), labels, each)[0] for each in (GEM(1.0), MLE()))
    gradients = [torch.autograd.grad(loss, hidden)[0] for loss in (one, mle)]
    assert relative_error(*gradients) < 1e-12


def test_the_entropy_of_the_likeliest_tokens_is_exact_where_there_are_no_others():
    hidden, weight, labels = example(vocabulary=20)
    top, exact = (linear_objective_loss(hidden, weight, labels, each)[0] for each in (TopEAFT(0.7), EAFT(0.7)))
    assert relative_error(top.detach(), exact.detach()) < 1e-12


def dense_loss(objective, log_q, log_base, labels):
    """Each token's loss with a reference model, by the equations of the papers and their authors' code."""
    onehot = torch.nn.functional.one_hot(labels, log_q.shape[1])
    ce, base_ce = -(onehot * log_q).sum(-1), -(onehot * log_base).sum(-1)
    match objective:
        case ASFT():  # DFT's detached weight, plus kl_weight times KL(reference || model)
            divergence = torch.nn.functional.kl_div(log_q, log_base, reduction="none", log_target=True).sum(-1)
            return torch.exp(-ce).detach() * ce + objective.weight * divergence
        case Frozen(rule="dft"):
            return torch.exp(-base_ce) * ce
        case Frozen(rule="eaft"):
            return (torch.special.entr(log_base.exp()).sum(-1) / 3) ** objective.args["alpha"] * ce
        case Frozen(rule="tailr"):
            gamma, p = objective.args["gamma"], torch.exp(-base_ce)
            return p / (gamma + (1 - gamma) * p) * ce
        case TargetSFT():
            guided = log_q.detach().exp() ** (1 - objective.eta) * log_base.exp() ** objective.eta
            trust = torch.exp(-ce).detach()[:, None]
            target = trust * onehot + (1 - trust) * guided / guided.sum(-1, keepdim=True)
            return -(target * log_q).sum(-1)
        case GIFT():
            tilted = log_base.exp() * torch.exp(objective.beta * onehot)
            return -(tilted / tilted.sum(-1, keepdim=True) * log_q).sum(-1)


@pytest.mark.parametrize("objective", [ASFT(0.1), *FROZEN, GIFT(2.0), GIFT(), TargetSFT(), TargetSFT(1.0)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("chunk_rows", [None, 8])
def test_an_objective_with_a_reference_model_equals_the_dense_one(objective, dtype, chunk_rows):
    generator = torch.Generator().manual_seed(5)
    hidden, base = (torch.randn(23, 12, generator=generator, dtype=dtype) for _ in range(2))
    weight, own = (torch.randn(31, 12, generator=generator, dtype=dtype) for _ in range(2))
    labels = torch.randint(0, 31, (23,), generator=generator)
    labels[::5] = -100
    reference = Reference(base, Head(own, None, 1.0, None))
    states = hidden.clone().requires_grad_()
    loss, _ = linear_objective_loss(states, weight, labels, objective, chunk_rows=chunk_rows, reference=reference)
    (found,) = torch.autograd.grad(loss, states)
    wide = hidden.double().requires_grad_()
    kept = labels != -100
    log_q = (wide @ weight.double().T)[kept].log_softmax(-1)
    log_base = (base.double() @ own.double().T)[kept].log_softmax(-1)
    expected = dense_loss(objective, log_q, log_base, labels[kept]).mean()
    (gradient,) = torch.autograd.grad(expected, wide)
    close = {"rtol": 1e-8, "atol": 1e-8} if dtype == torch.float64 else {"rtol": 1e-5, "atol": 1e-5}
    assert torch.allclose(loss.double(), expected, **close)
    assert torch.allclose(found.double(), gradient, **close)


def test_little_of_the_reference_is_left_with_gifts_published_beta():
    """Beta 20 leaves at most .0021 of the target to other tokens, for every token that the reference gives 1e-6."""
    for p in (1e-6, 1e-3, 0.5):
        logits = torch.tensor([[p, 1 - p]], dtype=torch.float64).log().requires_grad_()
        loss = GIFT().losses(logits, torch.tensor([0]), logits.detach())
        (gradient,) = torch.autograd.grad(loss.sum(), logits)
        assert p - gradient[0, 0] > 0.9979  # the target's share of the label


@pytest.mark.parametrize(
    ("rule", "message"),
    [("emo", "unknown rule 'emo'; use one of mixce, tailr, dft, focal, power, eaft, idft"), ("eaft", "alpha is -1")],
)
def test_a_frozen_rule_weighs_cross_entropy_alone(rule, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        Frozen(rule, {"alpha": -1})
