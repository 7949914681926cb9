"""What an objective is: a per-token weighting of cross-entropy, expected transport cost and two more terms.

    ce_t      = -log q(y_t)
    cost_t    = sum over j != y of q_j * C[y, j]       the DEMD upper bound of the EMO paper, Eq. 14
    entropy_t = -sum over j of q_j log q_j
    uniform_t = -1/V sum over j of log q_j             cross-entropy to the uniform distribution over V tokens

    grad loss_t = a_t * grad ce_t + b_t * grad cost_t + h_t * grad entropy_t + u_t * grad uniform_t

The weights are detached. An objective turns a token's detached statistics into its weights and into the value that is
reported as its loss; built_in.py and logit_losses.py have those that come with the package.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor


@dataclass(frozen=True)
class TokenStatistics:
    """Detached statistics of some tokens, each (tokens,) float32, or float64 for float64 operands.

    All but the first two are None unless the objective's `needs` names them: `cost`; `error_norm`,
    ||q - onehot(y)||_2; `entropy` in nats; `squares`, the sum of q_j^2; `uniform`, -1/V sum log q_j; and `ref_ce`,
    `ref_q_target` and `ref_entropy`, the same of the base, for an objective whose `reference` is `base`.
    """

    ce: Tensor
    q_target: Tensor
    cost: Any = None
    error_norm: Any = None
    entropy: Any = None
    squares: Any = None
    uniform: Any = None
    ref_ce: Any = None
    ref_q_target: Any = None
    ref_entropy: Any = None


# The statistics that are computed only if an objective needs them.
OPTIONAL = ("cost", "error_norm", "entropy", "squares", "uniform")
# Those of a reference model.
OF_REFERENCE = ("ref_ce", "ref_q_target", "ref_entropy")
# The weights of a gradient's terms, and the statistic that each term is.
TERMS = {"a": "ce", "b": "cost", "h": "entropy", "u": "uniform"}

# The largest entry of a token's gradient in float16, whose numbers reach from 6e-8 to 65504.
FLOAT16_SIZE = 256.0


@dataclass(frozen=True)
class Weighting:
    """The gradient's weights and the reported value, each (tokens,) in the dtype of the statistics.

    `a`, `b`, `h` and `u` weigh cross-entropy, cost, entropy and uniform; None means 0. The latter three need the
    statistic of their term. `ratio` and `clamped` are logged.
    """

    a: Tensor
    value: Tensor
    b: Tensor | None = None
    h: Tensor | None = None
    u: Tensor | None = None
    ratio: Tensor | None = None
    clamped: Tensor | None = None

    @property
    def terms(self) -> dict[str, Tensor]:
        """The weights that are not None, by their names."""
        return {name: part for name in TERMS if (part := getattr(self, name)) is not None}

    def float16_unit(self, others: Tensor, spread: Any, entropy: Any) -> Tensor:
        """(tokens,): what a token's gradient to the logits is divided by, to lie in the middle of float16's range.

        A confident token's gradient is smaller than the smallest float16 number. The loss scale that would lift it
        arrives in the backward, after it has been rounded.

        Args:
            others: 1 - q_target, the largest entry of cross-entropy's gradient.
            spread: the same for the cost; None without one.
            entropy: the statistic, a bound for its own gradient.
        """
        largest = self.a.abs() * others
        if self.b is not None:
            largest = largest + self.b.abs() * spread
        if self.h is not None:
            largest = largest + self.h.abs() * entropy
        if self.u is not None:
            largest = largest + self.u.abs()
        return largest.clamp(min=1e-30) / FLOAT16_SIZE


# The reference of an objective that takes the model before training.
BASE = "base"


class LogitLoss:
    """The slower door, for a loss that no token statistic describes: a function of the logits.

    Its gradient is autograd's, a block of tokens at a time. It needs several buffers of the block's logits, runs
    without Triton, and rounds the gradient of a confident token where the weights of statistics do not.

    Args:
        function: of logits, (tokens, vocabulary), float32, or float64 for float64 operands, and of labels, (tokens,)
            int64; if it has an argument `reference`, also of the logits of the model before training, which is the one
            under the adapter. It returns the loss of each token, (tokens,), of its own row alone, and detaches what is
            not to be trained.
        arguments: its others.

    Raises:
        TypeError: it has other arguments, or is no function.
    """

    needs: Collection[str] = ()

    def __init__(self, function: Callable[..., Tensor], **arguments: Any) -> None:
        signature = inspect.signature(function)
        self.reference = BASE if "reference" in signature.parameters else None
        signature.bind(None, None, **arguments, **({"reference": None} if self.reference else {}))
        self.function, self.arguments = function, arguments

    def __repr__(self) -> str:
        parameters = inspect.signature(self.function).parameters.values()
        options = {one.name: one.default for one in parameters if one.default is not one.empty} | self.arguments
        named = ", ".join(f"{name}={value!r}" for name, value in options.items())
        return f"{getattr(self.function, '__name__', self.function)}({named})"

    def losses(self, logits: Tensor, labels: Tensor, reference: Tensor | None = None) -> Tensor:
        """The loss of each token; without a reference it is the model itself, as when training begins."""
        if not self.reference:
            return self.function(logits, labels, **self.arguments)
        seen = logits.detach() if reference is None else reference
        return self.function(logits, labels, reference=seen, **self.arguments)

    def weigh(self, token: TokenStatistics) -> Weighting:
        """It has no weights."""
        raise NotImplementedError


class Objective(Protocol):
    """A token-level objective. `needs` names the statistics that have to be computed, of OPTIONAL and OF_REFERENCE.

    With the latter it has an attribute `reference`: "base".
    """

    @property
    def needs(self) -> Collection[str]: ...

    def weigh(self, token: TokenStatistics) -> Weighting: ...


# How many tokens are made up.
PROBED = 64


def made_up_tokens(objective: Objective) -> TokenStatistics:
    """Likely and unlikely tokens, float32, with a probability of 0 or 1 at the ends."""
    ce = torch.linspace(0, 120, PROBED, dtype=torch.float32, device="cpu")
    q_target = torch.exp(-ce)
    others = 1 - q_target
    made_up = {
        "cost": others * 0.8,
        "error_norm": others * 1.2,
        "entropy": others * 4,
        "squares": q_target**2 + others**2 / 5,
        "uniform": 8 + q_target,
        "ref_ce": ce.flip(0),
        "ref_q_target": q_target.flip(0),
        "ref_entropy": others.flip(0) * 3,
    }
    return TokenStatistics(ce, q_target, **{name: made_up[name] for name in objective.needs})
