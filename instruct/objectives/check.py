"""What an objective does to a known distribution: where its training ends, and what it does to single tokens.

With weights that are held constant, as in training, an objective need not be the gradient of any loss. What can be
said of every objective is where its descent ends on an exact truth, with infinite data and a model that can express it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from instruct.base.machine import one_thread
from instruct.objectives.built_in import MLE, Energy
from instruct.objectives.linear import linear_objective_loss
from instruct.objectives.objective import TERMS, LogitLoss, Objective, TokenStatistics, made_up_tokens
from instruct.objectives.transport import CosineCost, EnergyTable

Kind = Literal["proper", "calibrated", "not calibrated", "no interior optimum"]

# The truth that is built in: contexts that are nearly uniform to nearly certain, over a small vocabulary.
VOCABULARY, WIDTH = 40, 16
EXPONENTS = (0.3, 0.7, 1.0, 1.5, 2.5, 4.0)
# Ends of descents that differ by less are one end; a residual below the second imitates a temperature. In nats.
SAME, IMITATES = 1e-6, 1e-4
# A distribution with all but this much on one token is a vertex.
VERTEX = 1e-3
# A label's pull at these probabilities. It vanishes below the share of cross-entropy's.
PROBABILITIES = (0.0001, 0.001, 0.01, 0.1, 0.5, 0.9, 0.99)
VANISHES = 0.01


@dataclass(frozen=True)
class Behavior:
    """Where training ends, on the truth that is built in. Lists are by context, from flat to peaked; all in nats.

    Attributes:
        kind: `proper`: the truth is the optimum of a loss: constant weights of proper scores, or a function of the
            logits whose expectation no distribution that was tried makes smaller. `calibrated`: the truth is where
            training stays, and where it ends from other starts. `not calibrated`: it ends elsewhere. `no interior
            optimum`: it ends with all probability on one token, or in different places.
        one_end: training ends at one place from all three starts.
        truth_entropy, entropy: of the truth and of where training ends.
        distance: Jensen-Shannon divergence from the truth.
        temperature, residual: of the truth that is nearest, and the divergence that is left.
    """

    kind: Kind
    one_end: bool
    truth_entropy: list[float]
    entropy: list[float]
    distance: list[float]
    temperature: list[float]
    residual: list[float]

    @property
    def imitates(self) -> float | None:
        """The temperature of the truth that training ends at, if it is the same for all contexts."""
        same = max(self.temperature) - min(self.temperature) < 0.01 and max(self.residual) < IMITATES
        return sum(self.temperature) / len(self.temperature) if same and self.kind == "not calibrated" else None

    @property
    def words(self) -> str:
        """The class in words, and where training ends if that is not the truth."""
        if self.kind == "proper":
            stuck = (
                "" if self.one_end else ", but a model that is sure of other tokens hardly moves: its gradient vanishes"
            )
            return f"proper: the truth is the optimum of a loss{stuck}"
        if self.kind == "calibrated":
            return "calibrated: training ends at the truth from every start; no loss is known to have it as its optimum"
        if self.kind == "no interior optimum":
            return "no interior optimum: training ends with all probability on one token, or where the start leads it"
        if self.imitates:
            return f"not calibrated: training ends at the truth's temperature {self.imitates:.3f}"
        near = self.temperature
        below = [ours < truth for ours, truth in zip(self.entropy, self.truth_entropy, strict=True)]
        sharper = "sharper" if all(below) else "flatter" if not any(below) else "sharper or flatter, by context"
        return f"not calibrated: {sharper}, not a temperature (nearest, by context: {min(near):.2f} to {max(near):.2f})"


@dataclass(frozen=True)
class Pull:
    """How much a label's logit is pulled up, relative to cross-entropy, by the label's probability.

    Attributes:
        probability: of the label, see PROBABILITIES.
        spread: the rest is spread over all other tokens.
        conflict: the rest is on one other token, of which the model is sure.
    """

    probability: list[float]
    spread: list[float]
    conflict: list[float]

    @property
    def largest(self) -> float:
        """Of all."""
        return max(self.spread + self.conflict)

    @property
    def vanishes(self) -> bool:
        """Whether a label that the model finds all but impossible is hardly learned."""
        return min(abs(self.spread[0]), abs(self.conflict[0])) < VANISHES

    @property
    def repels(self) -> bool:
        """Whether a label is made less likely."""
        return min(self.spread + self.conflict) < -VANISHES


@dataclass(frozen=True)
class Checked:
    """All that `check` finds.

    Attributes:
        reads_base: the objective reads the model before training. Here that is the model itself, as when training
            begins; in `behavior` it is the truth.
        gradient: see `gradient_errors`.
    """

    reads_base: bool
    behavior: Behavior
    pull: Pull
    gradient: dict[str, float]

    def words(self) -> list[str]:
        """For people, a line a finding."""
        behavior, pull = self.behavior, self.pull
        lines = [f"class       {behavior.words}"]
        if self.reads_base:
            lines = [
                "class       no claim: it depends on the model before training",
                f"with the truth in its place, as in the line below: {behavior.words}",
            ]
        lines.append(
            f"entropy     {' '.join(f'{value:.2f}' for value in behavior.entropy)} nats where training ends, "
            f"{' '.join(f'{value:.2f}' for value in behavior.truth_entropy)} in truth (flat to peaked contexts)"
        )
        lines.append(f"pull on a label of probability p, relative to cross-entropy (at most {pull.largest:.2f} here):")
        for name, values in (("p", pull.probability), ("rest on all", pull.spread), ("rest on one", pull.conflict)):
            lines.append(f"  {name:<12}" + "".join(f" {value:>9.3g}" for value in values))
        if pull.repels:
            lines.append("  negative: there the objective makes the label less likely")
        if pull.vanishes:
            lines.append("  vanishes for labels that the model finds all but impossible: rare words are hardly learned")
        errors = ", ".join(f"{error:.0e} ({dtype})" for dtype, error in self.gradient.items())
        lines.append(f"gradient    relative error against float64: {errors}")
        return lines


def check(objective: Objective) -> Checked:
    """Where training ends on the built-in truth, what single tokens weigh, and how exact the gradient is.

    A claim about this truth alone: 6 contexts of 40 tokens, whose embeddings are drawn. Takes some two seconds.
    """
    reads_base = getattr(objective, "reference", None) is not None
    with one_thread():  # the tables are small: threads would wait for each other
        return Checked(reads_base, behavior(objective), pull(objective), gradient_errors(objective))


def built_in_truth() -> tuple[Tensor, Tensor]:
    """The truth, (contexts, vocabulary), and the tokens' embeddings, (vocabulary, width), float64."""
    generator = torch.Generator().manual_seed(0)
    ranks = torch.arange(1, VOCABULARY + 1, dtype=torch.float64)
    rows = []
    for exponent in EXPONENTS:
        shares = ranks**-exponent
        rows.append((shares / shares.sum())[torch.randperm(VOCABULARY, generator=generator)])
    centers = torch.randn(8, WIDTH, generator=generator, dtype=torch.float64)
    noise = torch.randn(VOCABULARY, WIDTH, generator=generator, dtype=torch.float64)
    return torch.stack(rows), centers.repeat_interleave(VOCABULARY // 8, dim=0) + 0.5 * noise


def jensen_shannon(first: Tensor, second: Tensor) -> Tensor:
    """Of log-probabilities, by row, in nats."""
    mean = torch.logaddexp(first, second) - math.log(2)
    return ((first.exp() * (first - mean)).sum(dim=-1) + (second.exp() * (second - mean)).sum(dim=-1)) / 2


def behavior(objective: Objective) -> Behavior:
    """Where training with `objective` ends. Takes some two seconds of one thread."""
    truth, vectors = built_in_truth()
    expectation, log_truth = Expectation(objective, vectors), truth.log()
    reads_base = getattr(objective, "reference", None) is not None
    reference = log_truth if reads_base else None
    # The largest entry of the gradient at the truth, relative to that of cross-entropy for a uniform model.
    unit = Expectation(MLE(), vectors).gradient(torch.zeros_like(truth), truth).abs().max()
    still = bool(expectation.gradient(log_truth, truth, reference).abs().max() < SAME * unit)
    permuted = log_truth[:, torch.randperm(VOCABULARY, generator=torch.Generator().manual_seed(1))]
    # One descent: each context takes its own steps.
    starts = torch.cat([torch.zeros_like(truth), log_truth, permuted])
    references = log_truth.repeat(3, 1) if reads_base else None
    ends = descend(expectation, truth.repeat(3, 1), starts, references).split(len(truth))
    end = ends[0]
    one_end = all(float(jensen_shannon(end, other).max()) < SAME for other in ends)
    vertex = bool(((end.exp().amax(dim=-1) > 1 - VERTEX) & (truth.amax(dim=-1) < 1 - VERTEX)).any())
    kind: Kind = "not calibrated"
    if isinstance(objective, LogitLoss) and still and _is_score(expectation, truth, ends, reference):
        kind = "proper"
    elif one_end and float(jensen_shannon(end, log_truth).max()) < SAME and still:
        kind = "calibrated"
        if not isinstance(objective, LogitLoss):  # proper: the same weights for all tokens, of proper scores alone
            terms = objective.weigh(made_up_tokens(objective)).terms
            scores = {"a", "b"} if isinstance(objective, Energy) else {"a"}
            if terms.keys() <= scores and all(bool((weight == weight[0]).all()) for weight in terms.values()):
                kind = "proper"
    elif vertex or not one_end:
        kind = "no interior optimum"
    entropy = -(end.exp() * end).sum(dim=-1)
    temperature, residual = _nearest_temperature(log_truth, end)
    return Behavior(
        kind=kind,
        one_end=one_end,
        truth_entropy=(-(truth * log_truth).sum(dim=-1)).tolist(),
        entropy=entropy.tolist(),
        distance=jensen_shannon(end, log_truth).clamp(min=0).tolist(),
        temperature=temperature.tolist(),
        residual=residual.clamp(min=0).tolist(),
    )


def _is_score(expectation: Expectation, truth: Tensor, ends: Sequence[Tensor], reference: Tensor | None) -> bool:
    """Whether a function of the logits is the loss of its own gradient, and least in expectation at the truth.

    Tried are where training ends, and mixtures of the truth with drawn distributions, from near to far.
    """
    generator = torch.Generator().manual_seed(3)
    logits, step = (torch.randn(truth.shape, generator=generator, dtype=torch.float64) for _ in range(2))
    gradient = expectation.gradient(logits, truth, reference)
    with torch.no_grad():
        ahead, behind = (expectation.loss(logits + side * 1e-5 * step, truth, reference) for side in (1, -1))
        slope = float((gradient * step).sum())
        if abs(float(ahead - behind) / 2e-5 - slope) > 1e-6 * max(1.0, abs(slope)):
            return False  # weights are detached: no loss has this gradient
        drawn = [
            torch.randn(truth.shape, generator=generator, dtype=torch.float64).mul(3).softmax(-1) for _ in range(50)
        ]
        mixed = [(1 - share) * truth + share * other for other in drawn for share in (0.01, 0.1, 0.5, 1.0)]
        tried = [*ends, *(distribution.log() for distribution in mixed)]
        least = float(expectation.loss(truth.log(), truth, reference))
        return all(float(expectation.loss(log_q, truth, reference)) >= least - SAME**2 for log_q in tried)


def pull(objective: Objective) -> Pull:
    """The gradient to the label's logit, relative to that of cross-entropy; the label is the first token."""
    _, vectors = built_in_truth()
    p = torch.tensor(PROBABILITIES, dtype=torch.float64)
    spread = torch.ones(len(p), VOCABULARY - 1, dtype=torch.float64)
    conflict = torch.full_like(spread, 1e-12)
    conflict[:, -1] = 1
    pulls = []
    for rest in (spread, conflict):
        others = (1 - p)[:, None] * rest / rest.sum(dim=-1, keepdim=True)
        logits = torch.cat([p[:, None], others.clamp(min=1e-300)], dim=-1).log()
        label = torch.zeros_like(logits)
        label[:, 0] = 1
        gradient = Expectation(objective, vectors).gradient(logits, label)
        pulls.append((-gradient[:, 0] / (1 - p)).tolist())
    return Pull(list(PROBABILITIES), *pulls)


def gradient_errors(objective: Objective) -> dict[str, float]:
    """The relative error, by dtype, of the gradient to the hidden states that training's kernels compute.

    It is compared with autograd in float64 through dense rows, with the weights held constant.
    """
    generator = torch.Generator().manual_seed(2)
    head = torch.randn(101, WIDTH, generator=generator, dtype=torch.float64)
    labels = torch.randint(0, len(head), (64,), generator=generator)
    lean = torch.linspace(-0.2, 0.6, len(labels), dtype=torch.float64)[:, None]
    states = 0.4 * torch.randn(64, WIDTH, generator=generator, dtype=torch.float64) + lean * head[labels]
    errors = {}
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        near, table = states.to(dtype).requires_grad_(), head.to(dtype)
        loss, _ = linear_objective_loss(near, table, labels, objective)
        (gradient,) = torch.autograd.grad(loss * 2**10, near)
        wide = near.detach().double().requires_grad_()
        logits = wide @ table.double().T
        shares = torch.nn.functional.one_hot(labels, len(head)).double() / len(labels)
        (expected,) = torch.autograd.grad(Expectation(objective, table.double()).loss(logits, shares), wide)
        name = str(dtype).removeprefix("torch.")
        errors[name] = float((gradient.double() / 2**10 - expected).norm() / expected.norm())
    return errors


def _nearest_temperature(log_truth: Tensor, end: Tensor) -> tuple[Tensor, Tensor]:
    """Of each context the truth's temperature that is nearest to `end`, and the divergence left.

    At a temperature, log-probabilities are the truth's divided by it, plus a constant: a line is fitted to them, in
    which each token's weight is its probability in `end`.
    """
    share = end.exp()
    centered = log_truth - (share * log_truth).sum(dim=-1, keepdim=True)
    temperature = (share * centered.square()).sum(dim=-1) / (share * centered * end).sum(dim=-1)
    return temperature, jensen_shannon((log_truth / temperature[:, None]).log_softmax(dim=-1), end)


STEPS, RATE = 3000, 0.3


class Expectation:
    """An objective's loss, in expectation over the next token instead of over samples.

    The weights are the objective's own; the terms of all (context, token) are a few products of tables, through which
    autograd goes with the weights held constant.

    Args:
        vectors: (vocabulary, width), the tokens' embeddings, for costs and energies.
    """

    def __init__(self, objective: Objective, vectors: Tensor) -> None:
        self.objective = objective
        self.embeddings = self.costs = None
        if isinstance(objective, Energy):
            self.embeddings = EnergyTable(vectors, objective.dim).embeddings
        elif "cost" in objective.needs:
            cost = CosineCost(vectors)
            self.costs = cost.rows(torch.arange(cost.vocabulary)).fill_diagonal_(0)

    def loss(self, logits: Tensor, shares: Tensor, reference: Tensor | None = None) -> Tensor:
        """The loss summed over all (context, token), with their `shares`; all (contexts, vocabulary).

        `reference`: logits of the base; None: the model's own.
        """
        if isinstance(self.objective, LogitLoss):
            count = logits.shape[1]
            labels = torch.arange(count, device=logits.device).repeat(len(logits))
            rows = logits.repeat_interleave(count, dim=0)
            seen = None if reference is None else reference.repeat_interleave(count, dim=0)
            return (shares.flatten() * self.objective.losses(rows, labels, seen)).sum()
        logs = torch.log_softmax(logits, dim=-1)
        q = logs.exp()
        seen = logs.detach() if reference is None else reference.log_softmax(dim=-1)
        optional: dict[str, Callable[[], Tensor]] = {
            "cost": lambda: self._cost(q),
            "error_norm": lambda: (q.square().sum(dim=-1, keepdim=True) - 2 * q + 1).clamp(min=0).sqrt(),
            "entropy": lambda: -(q * logs).sum(dim=-1, keepdim=True).expand_as(q),
            "squares": lambda: q.square().sum(dim=-1, keepdim=True).expand_as(q),
            "uniform": lambda: -logs.mean(dim=-1, keepdim=True).expand_as(q),
            "ref_ce": lambda: -seen,
            "ref_q_target": lambda: seen.exp(),
            "ref_entropy": lambda: torch.special.entr(seen.exp()).sum(dim=-1, keepdim=True).expand_as(q),
        }
        terms = {"ce": -logs, **{name: optional[name]() for name in self.objective.needs}}
        statistics = {name: term.detach() for name, term in terms.items()}
        weights = self.objective.weigh(TokenStatistics(q_target=q.detach(), **statistics)).terms
        return torch.stack([(shares * weight * terms[TERMS[name]]).sum() for name, weight in weights.items()]).sum()

    def gradient(self, logits: Tensor, shares: Tensor, reference: Tensor | None = None) -> Tensor:
        """The loss's, to the logits."""
        point = logits.clone().requires_grad_()
        return torch.autograd.grad(self.loss(point, shares, reference), point)[0]

    def _cost(self, q: Tensor) -> Tensor:
        """The expected cost, or the energy, of every token as the label."""
        if self.embeddings is None:
            assert self.costs is not None
            return q @ self.costs
        distances = torch.cdist(q @ self.embeddings, self.embeddings, compute_mode="donot_use_mm_for_euclid_dist")
        return distances.square() / 2


def descend(expectation: Expectation, shares: Tensor, start: Tensor, reference: Tensor | None = None) -> Tensor:
    """The log-probabilities at which Adam ends from the logits `start`."""
    logits = start.clone().requires_grad_()
    optimizer = torch.optim.Adam([logits], lr=RATE, betas=(0.9, 0.99))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    for _ in range(STEPS):
        optimizer.zero_grad()
        expectation.loss(logits, shares, reference).backward()
        optimizer.step()
        schedule.step()
    return torch.log_softmax(logits.detach(), dim=-1)
