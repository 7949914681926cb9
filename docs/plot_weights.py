"""Draw docs/objectives_weights.png: the weights a and b of every objective over the target's probability.

python docs/plot_weights.py
"""

from __future__ import annotations

import math
from pathlib import Path

import matplotlib
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from instruct.objectives import DFT, EMO, MLE, ErrorNormTruncation, MixCE, Objective, TaiLr
from instruct.objectives.objective import TokenStatistics, Weighting

# Okabe and Ito's palette, which people with color blindness can tell apart.
BLACK, ORANGE, SKY, GREEN, BLUE, RED, PURPLE = (
    "#000000",
    "#E69F00",
    "#56B4E9",
    "#009E73",
    "#0072B2",
    "#D55E00",
    "#CC79A7",
)


def weights(objective: Objective, q: torch.Tensor, mean_cost: float) -> Weighting:
    """The weights of tokens with target probability `q` if one other token, at that cost, has the rest."""
    return objective.weigh(
        TokenStatistics(ce=-q.log(), q_target=q, cost=(1 - q) * mean_cost, error_norm=math.sqrt(2) * (1 - q))
    )


def draw_a(axes: Axes, q: torch.Tensor) -> None:
    lines: list[tuple[str, Objective, str, str]] = [
        ("mle", MLE(), BLACK, "-"),
        ("mixce, γ 0.8", MixCE(0.8), ORANGE, "-"),
        ("tailr official, γ 0.8", TaiLr(0.8, "official"), GREEN, "--"),
        ("tailr paper, γ 0.8", TaiLr(0.8), GREEN, "-"),
        ("emo", EMO(), BLUE, "-"),
        ("dft", DFT(), RED, "-"),
        ("ent, threshold 1.3", ErrorNormTruncation(), PURPLE, ":"),
    ]
    for name, objective, color, style in lines:
        axes.plot(q, weights(objective, q, 1.0).a, style, color=color, label=name, linewidth=1.8)
    axes.set(title="a, the weight of cross-entropy", xlabel="probability of the target, $q_y$", ylim=(0, 1.05))
    axes.legend(loc="lower right", frameon=False, fontsize=8)


def draw_b(axes: Axes, q: torch.Tensor) -> None:
    for variant, color in (("paper", SKY), ("official", ORANGE)):
        for mean_cost, style in ((0.4, "--"), (0.9, "-")):
            b = weights(EMO(variant), q, mean_cost).b  # type: ignore[arg-type]
            assert b is not None
            axes.plot(q, b, style, color=color, label=f"emo {variant}, mean cost {mean_cost}", linewidth=1.8)
    axes.set(title="b, the weight of the transport cost", xlabel="probability of the target, $q_y$", ylim=(0, 4))
    axes.legend(loc="upper right", frameon=False, fontsize=8)


def main() -> None:
    q = torch.linspace(0.001, 0.999, 999, dtype=torch.float64)
    with matplotlib.rc_context({"font.family": "DejaVu Sans", "font.size": 9}):
        figure = Figure(figsize=(9, 3.8), layout="constrained")
        left, right = figure.subplots(1, 2)
        draw_a(left, q)
        draw_b(right, q)
        for axes in (left, right):
            axes.set_xlim(0, 1)
            axes.spines[["top", "right"]].set_visible(False)
        figure.savefig(Path(__file__).with_name("objectives_weights.png"), dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    main()
