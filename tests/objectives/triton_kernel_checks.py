"""The Triton kernels against the dense float64 reference, run by test_triton_kernels.py in a process of its own:
interpreted on the CPU (TRITON_INTERPRET=1), compiled where there is a GPU.

The logits are the reference's hidden states and the identity its head, so that it sees them as they are, rounding
included, and its gradient to the states is the gradient to the logits.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection

import pytest
import torch
from dense_reference import reference_token_loss
from family import EMO_VARIANTS, EveryTerm, every_term_dense, relative_error
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from instruct.objectives import linear, triton_kernels
from instruct.objectives.built_in import EMO, MLE, LabelSmoothing, MixCE
from instruct.objectives.objective import OPTIONAL, Objective
from instruct.objectives.torch_kernels import Head
from instruct.objectives.transport import CosineCost, unit_rows
from instruct.objectives.triton_kernels import CostRows, RawStatistics, logit_gradient_, token_statistics

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
OBJECTIVES: list[Objective] = [
    MLE(),
    MixCE(0.7),
    LabelSmoothing(0.2),
    *EMO_VARIANTS,
]
TOKENS, VOCABULARY = 9, 101
# The interpreter uses numpy, which warns about the branch of tl.where that is not taken.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning:triton.runtime.interpreter")
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 1e-2, torch.float16: 1e-2}


def example(
    dtype: torch.dtype = torch.float32, tokens: int = TOKENS, vocabulary: int = VOCABULARY
) -> tuple[Tensor, Tensor]:
    """Logits of unsure and of confident tokens, and their labels, some repeated, the last the last of all."""
    generator = torch.Generator().manual_seed(tokens + vocabulary)
    logits = torch.randn(tokens, vocabulary, generator=generator) * torch.linspace(0.5, 5, tokens)[:, None]
    labels = torch.randint(0, vocabulary, (tokens,), generator=generator)
    labels[1::3] = labels[0]
    labels[-1] = vocabulary - 1
    return logits.to(DEVICE, dtype), labels.to(DEVICE)


def cost_table(vocabulary: int) -> Tensor:
    return torch.randn(vocabulary, 8, generator=torch.Generator().manual_seed(5), dtype=torch.float64).to(DEVICE)


def cost_rows(labels: Tensor, vocabulary: int, dtype: torch.dtype) -> CostRows:
    """Cosine costs of the distinct labels, with what must be ignored at the label itself, and each token's row."""
    table = cost_table(vocabulary)
    norm = table.norm(dim=1)
    distinct, row_of = labels.unique(return_inverse=True)
    rows = (table[distinct] / norm[distinct, None]) @ table.T
    return CostRows(rows.scatter(1, distinct[:, None], -7.0).to(dtype), row_of, (1 / norm).to(dtype))


def statistics_of(
    logits: Tensor, labels: Tensor, costs: CostRows | None = None, needs: Collection[str] = (), **head
) -> RawStatistics:
    """The statistics of a head whose form `head` has; a cost is one of them if `costs` are given."""
    found = RawStatistics.empty(len(logits), logits.device, {*needs} - {"cost"} | ({"cost"} if costs else set()))
    token_statistics(logits, labels, Head(logits, **head), found, costs)
    return found


def run_kernels(
    logits: Tensor, labels: Tensor, objective: Objective, dtype: torch.dtype | None = None, **head
) -> tuple[RawStatistics, Tensor]:
    """The statistics, and the gradient that the logits were overwritten by."""
    costs = cost_rows(labels, logits.shape[1], dtype or logits.dtype) if "cost" in objective.needs else None
    gradient = logits.clone()
    statistics = statistics_of(gradient, labels, costs, needs=objective.needs, **head)
    weighting = objective.weigh(statistics.of_tokens)
    assert torch.equal(gradient, logits)
    logit_gradient_(gradient, labels, Head(logits, **head), statistics, weighting.terms, costs)
    return statistics, gradient


def reference_gradient(logits: Tensor, labels: Tensor, objective: Objective, **head) -> Tensor:
    states = logits.double().requires_grad_()
    vocabulary = logits.shape[1]
    identity = torch.eye(vocabulary, dtype=torch.float64, device=DEVICE)
    loss = reference_token_loss(states, identity, labels, objective, cost_table(vocabulary), **head).sum()
    return torch.autograd.grad(loss, states)[0]


def as_on_a_gpu(monkeypatch) -> None:
    """linear.py takes its path for a GPU; on a CPU without torch.compile, which test_triton_kernels.py checks."""
    if DEVICE == "cpu":
        monkeypatch.setattr(linear, "_uses_triton", lambda hidden: True)
        monkeypatch.setattr(triton_kernels, "compiled", lambda function: function)


@pytest.mark.parametrize("in_flight", [256, 2**14], ids=["many blocks", "one block"])
def test_the_gradient_of_every_term_equals_a_dense_computation(in_flight, monkeypatch):
    monkeypatch.setattr(triton_kernels, "STATISTICS_BYTES", in_flight)
    logits, labels = example()
    _, gradient = run_kernels(logits, labels, EveryTerm())
    wide = logits.double().requires_grad_()
    loss = every_term_dense(wide, cost_table(VOCABULARY), labels).sum()
    assert relative_error(gradient, torch.autograd.grad(loss, wide)[0]) <= 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("objective", [MLE(), EMO()], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("vocabulary", [2, 128, 1001, 4097])
def test_any_vocabulary_size_and_a_target_in_any_block_equal_the_reference(objective, dtype, vocabulary, monkeypatch):
    monkeypatch.setattr(triton_kernels, "STATISTICS_BYTES", 1024)
    monkeypatch.setattr(triton_kernels, "GRADIENT_BLOCK", 128)
    logits, _ = example(dtype, tokens=5, vocabulary=vocabulary)
    labels = torch.tensor([0, 127, 128, vocabulary - 2, vocabulary - 1], device=DEVICE) % vocabulary
    statistics, gradient = run_kernels(logits, labels, objective)
    assert torch.equal(statistics.correct, logits.argmax(dim=-1) == labels)
    assert relative_error(gradient, reference_gradient(logits, labels, objective)) <= TOLERANCE[dtype]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_the_statistics_equal_their_definitions(dtype, monkeypatch):
    monkeypatch.setattr(triton_kernels, "STATISTICS_BYTES", 256)
    logits, labels = example(dtype, tokens=30)
    costs = cost_rows(labels, VOCABULARY, dtype)
    found = statistics_of(logits, labels, costs, logit_scale=0.5, softcap=8.0, needs=OPTIONAL)

    q = (8 * torch.tanh(0.5 * logits.double() / 8)).softmax(dim=-1)
    onehot = torch.nn.functional.one_hot(labels, VOCABULARY)
    q_target = (q * onehot).sum(dim=-1)
    assert None not in vars(found).values()
    of_distinct = (1 - costs.rows.double() * costs.inverse_norm.double()).clamp(min=0)
    for values, expected in [
        (found.ce, -q_target.log()),
        (found.q_target, q_target),
        (found.q_others, 1 - q_target),
        (found.cost, (q * of_distinct[costs.row_of] * (1 - onehot)).sum(dim=-1)),
        (found.error_norm, (q - onehot).norm(dim=-1)),
        (found.entropy, -(q * q.log()).sum(dim=-1)),
        (found.squares, q.square().sum(dim=-1)),
        (found.uniform, -q.log().mean(dim=-1)),
    ]:
        assert values.dtype == torch.float32
        assert relative_error(values, expected) <= 2e-6
    assert torch.equal(found.correct, logits.argmax(dim=-1) == labels)


@pytest.mark.parametrize("in_flight", [128, 2**14], ids=["many blocks", "one block"])
def test_the_first_of_equal_logits_is_the_prediction(in_flight, monkeypatch):
    monkeypatch.setattr(triton_kernels, "STATISTICS_BYTES", in_flight)
    logits = torch.zeros(5, VOCABULARY, device=DEVICE)
    logits[:, [40, 45, 100]] = 2.0
    correct = statistics_of(logits, torch.tensor([40, 45, 100, 2, 99], device=DEVICE)).correct
    assert correct.tolist() == [True, False, False, False, False]


@pytest.mark.slow
@pytest.mark.parametrize("objective", [MLE(), EMO("paper"), EMO("official", "emo")], ids=str)
@pytest.mark.parametrize("margin", [12.0, -15.0, -25.0, -60.0, -85.0, 0.0])
def test_a_target_far_above_or_below_the_others_equals_the_reference(objective, margin):
    """All logits are equal if the margin is 0."""
    labels = torch.tensor([70], device=DEVICE)
    logits = torch.full((1, VOCABULARY), 5.0, device=DEVICE)
    logits[0, 70] += margin
    _, gradient = run_kernels(logits, labels, objective)
    expected = reference_gradient(logits, labels, objective)
    assert relative_error(gradient, expected) <= 1e-5
    logits[0, 70] = -300.0 if margin < 0 else 300.0  # beyond the range of float32
    assert torch.isfinite(run_kernels(logits, labels, objective)[1]).all()


def test_a_confident_target_keeps_its_precision():
    """1 - q_y would lose precision even in float64: all three values are the sum over the others, about 4e-16."""
    labels = torch.tensor([70], device=DEVICE)
    logits = torch.zeros(1, VOCABULARY, device=DEVICE)
    logits[0, 70] = 40.0
    statistics, gradient = run_kernels(logits, labels, MLE())
    one = math.exp(-40)
    assert float(statistics.ce) == pytest.approx(100 * one, rel=1e-5)
    assert float(statistics.q_others) == pytest.approx(100 * one, rel=1e-5)
    assert float(gradient[0, 70]) == pytest.approx(-100 * one, rel=1e-5)
    assert float(gradient[0, 0]) == pytest.approx(one, rel=1e-5)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_nan_or_infinite_logit_gives_a_nan_loss(value):
    logits, labels = example()
    logits[0, 11] = value
    ce = statistics_of(logits, labels).ce
    assert torch.isnan(ce[0])
    assert torch.isfinite(ce[1:]).all()


def test_a_logit_of_minus_infinity_has_zero_probability():
    logits, labels = example()
    bias = torch.zeros(VOCABULARY, device=DEVICE)
    bias[20:40] = -float("inf")
    labels[(labels >= 20) & (labels < 40)] = 0
    costs = cost_rows(labels, VOCABULARY, torch.float32)
    gradient = logits.clone()
    found = statistics_of(gradient, labels, costs, bias=bias)
    logit_gradient_(gradient, labels, Head(logits, bias), found, {"a": found.q_target, "b": found.ce}, costs)
    kept = bias == 0
    expected = -logits[:, kept].double().log_softmax(-1).gather(1, (labels - 20 * (labels >= 40))[:, None])[:, 0]
    assert relative_error(found.ce, expected) <= 1e-6
    assert torch.isfinite(gradient).all()
    assert (gradient[:, ~kept] == 0).all()


def test_no_token_gives_empty_results():
    logits, labels = torch.zeros(0, VOCABULARY, device=DEVICE), torch.zeros(0, dtype=torch.long, device=DEVICE)
    statistics, gradient = run_kernels(logits, labels, EMO())
    assert statistics.ce.shape == (0,)
    assert gradient.shape == (0, VOCABULARY)


def test_nothing_beyond_the_chunk_is_written():
    logits, labels = example()
    buffer = torch.cat([logits, logits])
    statistics = statistics_of(buffer[:TOKENS], labels)
    logit_gradient_(buffer[:TOKENS], labels, Head(logits), statistics, {"a": torch.ones_like(statistics.ce)})
    assert torch.equal(buffer[TOKENS:], logits)
    assert relative_error(buffer[:TOKENS], reference_gradient(logits, labels, MLE())) <= 1e-5


@pytest.mark.skipif(DEVICE == "cpu", reason="2^31 numbers need a GPU")
def test_more_than_2_to_the_31_logits_are_supported():
    tokens, vocabulary = 2**15 + 9, 2**16
    logits = torch.randn(1, vocabulary, device=DEVICE, dtype=torch.bfloat16).repeat(tokens, 1)
    labels = torch.full((tokens,), 12345, device=DEVICE)
    statistics, gradient = run_kernels(logits, labels, MLE())
    assert (statistics.ce == statistics.ce[0]).all()
    assert torch.equal(gradient[-1], gradient[0])


@pytest.mark.parametrize("objective", OBJECTIVES, ids=str)
@pytest.mark.parametrize(
    ("with_bias", "logit_scale", "softcap", "weighted"),
    [(False, 1.0, None, False), (True, 0.25, None, True), (False, 1.0, 3.0, True), (True, 2.0, 5.0, False)],
)
def test_the_complete_loss_with_these_kernels_equals_the_reference(
    objective, with_bias, logit_scale, softcap, weighted, monkeypatch
):
    """linear_objective_loss as on a GPU, in chunks of several cost rows and tokens, with a head that trains."""
    as_on_a_gpu(monkeypatch)
    generator = torch.Generator().manual_seed(1)
    hidden, weight, bias = (
        torch.randn(*shape, generator=generator).to(DEVICE).requires_grad_()
        for shape in ((TOKENS, 8), (VOCABULARY, 8), (VOCABULARY,))
    )
    _, labels = example()
    head = {"bias": bias if with_bias else None, "logit_scale": logit_scale, "softcap": softcap}
    weights = torch.logspace(-2, 1, TOKENS, device=DEVICE) if weighted else None
    loss, statistics = linear.linear_objective_loss(
        hidden, weight, labels, objective, chunk_rows=4, token_weights=weights, **head
    )
    of_tokens = torch.ones(TOKENS, device=DEVICE) if weights is None else weights
    expected = (of_tokens * reference_token_loss(hidden, weight, labels, objective, **head)).sum() / of_tokens.sum()
    assert relative_error(loss.detach(), expected.detach()) <= 1e-5
    inputs = [hidden, weight, bias] if with_bias else [hidden, weight]
    for found, wanted in zip(torch.autograd.grad(loss, inputs), torch.autograd.grad(expected, inputs), strict=True):
        assert relative_error(found, wanted) <= 1e-5
    assert statistics.tokens.item() == pytest.approx(of_tokens.sum().item())


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("vocabulary", [64, 101, 1001])
def test_padding_is_never_used(dtype, vocabulary, monkeypatch):
    """Rows whose stride is a multiple of 64, their padding NaN, as the loss gives them."""
    monkeypatch.setattr(triton_kernels, "STATISTICS_BYTES", 1024)
    monkeypatch.setattr(triton_kernels, "GRADIENT_BLOCK", 128)
    contiguous, labels = example(dtype, vocabulary=vocabulary)
    stride = -(-vocabulary // 64) * 64

    def padded(rows: Tensor) -> Tensor:
        return rows.new_full((len(rows), stride), float("nan")).index_copy_(
            1, torch.arange(vocabulary, device=DEVICE), rows
        )[:, :vocabulary]

    table = cost_table(vocabulary).to(dtype)
    table[3] = 0
    cost = CosineCost(table)
    distinct, row_of = labels.unique(return_inverse=True)
    dots = unit_rows(table, cost.inverse_norm, distinct) @ table.T
    norms = torch.nn.functional.pad(cost.inverse_norm.to(dtype), (0, stride - vocabulary), value=float("nan"))
    costs = CostRows(padded(dots), row_of, norms)
    contiguous_costs = CostRows(dots, row_of, cost.inverse_norm.to(dtype))

    logits = padded(contiguous)
    statistics = statistics_of(logits, labels, costs, needs=OPTIONAL)
    expected = statistics_of(contiguous, labels, contiguous_costs, needs=OPTIONAL)
    for name, found in vars(statistics).items():
        # Lanes of another width sum in another order, which the entropy of a confident token shows most.
        assert torch.allclose(found, getattr(expected, name), rtol=1e-5 if name == "entropy" else 1e-6), name
    a, b = torch.rand(2, TOKENS, device=DEVICE)
    weights = {"a": a, "b": b}
    logit_gradient_(logits, labels, Head(logits), statistics, weights, costs)
    logit_gradient_(contiguous, labels, Head(logits), expected, weights, contiguous_costs)
    assert torch.allclose(logits, contiguous, rtol=2 * torch.finfo(dtype).eps, atol=1e-6)


class Launches(TorchDispatchMode):
    """Counts what would be a kernel launch on a GPU, and names what would make the host wait for it.

    A launch: an operator that torch dispatches, other than views and allocations; a Triton kernel; a compiled function,
    which test_triton_kernels.py shows to be one kernel each. A product counts as one launch.
    """

    WAITS = ("_local_scalar_dense", "nonzero", "masked_select", "_unique2", "unique_consecutive", "unique_dim")

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.paused = False

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.overloadpacket.__name__
        if not (self.paused or function.is_view or "empty" in name or name in ("detach", "_reshape_alias")):
            indices = args[1] if name in ("index", "index_put", "index_put_") else []
            if any(index is not None and index.dtype == torch.bool for index in indices):
                self.names.append("nonzero")
            self.names.append(name)
        return function(*args, **(kwargs or {}))

    def once(self, name, run):
        """`run`, counted as one launch whatever it does."""

        def counted(*args, **kwargs):
            self.names.append(name)
            self.paused = True
            try:
                return run(*args, **kwargs)
            finally:
                self.paused = False

        return counted

    @property
    def waits(self) -> list[str]:
        return [name for name in self.names if name in self.WAITS]


class Launcher:
    """A Triton kernel whose launches are counted."""

    def __init__(self, kernel, launches: Launches) -> None:
        self.kernel, self.launches = kernel, launches

    def __getitem__(self, grid):
        return self.launches.once(self.kernel.fn.__name__, self.kernel[grid])


def launches_of(chunks: int, objective: Objective, head_trains: bool, monkeypatch) -> Launches:
    """Of a loss and its gradient in chunks of 4 tokens, each with a label of its own: no two chunks share cost rows."""
    launches = Launches()
    with monkeypatch.context() as patched:
        patched.setattr(linear, "_uses_triton", lambda hidden: True)
        patched.setattr(triton_kernels, "compiled", lambda function: launches.once(function.__name__, function))
        # On a GPU machine the labels are on the CPU, too, and so is all that the plan does.
        patched.setattr(linear, "plan_tokens", launches.once("plan", linear.plan_tokens))
        # On CUDA one torch.addmm with `out_dtype`, which a CPU does not have.
        patched.setattr(linear, "_add_product_", launches.once("addmm", linear._add_product_))
        for name in ("_statistics_kernel", "_gradient_kernel"):
            patched.setattr(triton_kernels, name, Launcher(getattr(triton_kernels, name), launches))
        hidden = torch.randn(4 * chunks, 8, dtype=torch.bfloat16, requires_grad=True)
        weight = torch.randn(VOCABULARY, 8, dtype=torch.bfloat16, requires_grad=head_trains)
        labels = torch.randperm(VOCABULARY)[: 4 * chunks]
        with launches:
            loss, _ = linear.linear_objective_loss(hidden, weight, labels, objective, chunk_rows=4)
            loss.backward()
    return launches


KERNELS = ["mm", "_statistics_kernel", "weights", "_gradient_kernel", "mm"]


@pytest.mark.skipif(DEVICE == "cuda", reason="counted on the CPU")
@pytest.mark.parametrize(
    ("objective", "head_trains", "expected", "most"),
    [
        (MLE(), False, KERNELS, 6),
        (MLE(), True, [*KERNELS, "addmm"], 6),
        (EMO(), False, ["unit_rows", "mm", *KERNELS], 9),
        (EMO(), True, ["unit_rows", "mm", *KERNELS, "addmm"], 9),
    ],
    ids=str,
)
def test_a_chunk_needs_few_launches_and_the_host_never_waits(objective, head_trains, expected, most, monkeypatch):
    """One more chunk launches these kernels more, cost rows included, and nothing makes the host wait for the GPU."""
    fewer, more = (launches_of(chunks, objective, head_trains, monkeypatch) for chunks in (2, 3))
    assert Counter(more.names) - Counter(fewer.names) == Counter(expected)
    assert len(expected) <= most
    assert more.waits == []
