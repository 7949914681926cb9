"""Could Liger compute the statistics of objectives? Its values and tensor operations, beside this project's.

    pip install --no-deps liger-kernel==0.8.5 && python -m benchmarks.liger_statistics

Liger's fused linear scaled cross-entropy gives each token's negative log-likelihood and entropy, and lets gradients
through both. Objectives that need `ce`, `q_target` or `entropy` alone could be written on it. On a CPU this is Liger's
fallback in torch, as on every GPU but a Hopper one (compute capability 9.0), whose own kernels are not measured here.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from instruct.objectives import MLE, Objective, linear_objective_loss
from instruct.objectives.built_in import DFT, EAFT

TOKENS, VOCABULARY, HIDDEN = 2048, 16384, 256
Loss = Callable[[Tensor, Tensor, Tensor], Tensor]


def liger_loss(rule: Callable[[Tensor, Tensor], Tensor]) -> Loss:
    """The mean of a rule of each token's negative log-likelihood and entropy, both from Liger."""
    from liger_kernel.ops.fused_linear_scaled_cross_entropy import LigerFusedLinearScaledCrossEntropyFunction

    def loss(hidden: Tensor, weight: Tensor, labels: Tensor) -> Tensor:
        outputs = LigerFusedLinearScaledCrossEntropyFunction.apply(hidden, weight, labels, return_entropy=True)
        return rule(*outputs).mean()

    return loss


def own_loss(objective: Objective) -> Loss:
    """This project's fused loss."""
    return lambda hidden, weight, labels: linear_objective_loss(hidden, weight, labels, objective)[0]


RULES: dict[str, tuple[Objective, Callable[[Tensor, Tensor], Tensor]]] = {
    "mle": (MLE(), lambda ce, entropy: ce),
    "dft": (DFT(), lambda ce, entropy: torch.exp(-ce).detach() * ce),
    "eaft": (EAFT(), lambda ce, entropy: (entropy / 3).detach() * ce),
}


def step(loss: Loss) -> tuple[list[Tensor], int]:
    """The value of a loss with a frozen head and its gradient, and the operations of its matrix products."""
    torch.manual_seed(0)
    hidden = torch.randn(TOKENS, HIDDEN).requires_grad_()
    weight = torch.randn(VOCABULARY, HIDDEN) * 3 / HIDDEN**0.5
    labels = torch.randint(VOCABULARY, (TOKENS,))
    with FlopCounterMode(display=False) as counter:
        value = loss(hidden, weight, labels)
        value.backward()
    assert hidden.grad is not None
    return [value.detach(), hidden.grad], counter.get_total_flops()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    product = 2 * TOKENS * VOCABULARY * HIDDEN
    print(f"float32, {TOKENS:,} tokens, vocabulary {VOCABULARY:,}, hidden {HIDDEN}; products: of tokens x vocabulary")
    for name, (objective, rule) in RULES.items():
        ours, our_flops = step(own_loss(objective))
        theirs, their_flops = step(liger_loss(rule))
        apart = max(
            float((one - other).abs().max() / other.abs().max()) for one, other in zip(ours, theirs, strict=True)
        )
        print(
            f"{name}: largest relative difference {apart:.1e}; products: ours {our_flops / product:.2f}, "
            f"Liger's fallback {their_flops / product:.2f}"
        )


if __name__ == "__main__":
    main()
