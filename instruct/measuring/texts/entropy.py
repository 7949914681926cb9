"""How sharp next-token distributions are, and the temperature that makes one model as sharp as another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from instruct.engines.forward import ForwardModel
from instruct.measuring.texts.held_out import HeldOut, Window
from instruct.run.measurements import Number, numbers

# Where temperatures are looked for, and how near the entropies have to be, in nats.
COLDEST, HOTTEST, TOLERANCE = 0.05, 10.0, 1e-3
_FIRST = (0.6, 0.8, 0.9, 1.0, 1.15, 1.4)
_PASSES = 30


@dataclass(frozen=True)
class Entropies:
    """Sums over the scored tokens of each text.

    Attributes:
        nats: −Σ p ln p of the distributions at each temperature, summed; float64, [temperatures, texts].
        tokens: [texts].
    """

    nats: np.ndarray
    tokens: np.ndarray

    @property
    def means(self) -> list[float]:
        """Mean entropy per token at each temperature."""
        return [float(value) for value in self.nats.sum(1) / self.tokens.sum()]


def entropies(
    model: ForwardModel, held_out: HeldOut, found: Sequence[Window], temperatures: Sequence[float]
) -> Entropies:
    """The entropies of a model's next-token distributions on texts, teacher-forced, at several temperatures, in one
    pass. A temperature T makes p of softmax(logits / T), as in sampling; 0 makes it certain."""
    count = len(held_out.texts)
    nats, tokens = np.zeros((len(temperatures), count)), np.zeros(count, int)
    for number, logs in model.distributions([each.row for each in found]):
        place = found[number].place
        tokens[place] += len(logs)
        for i, temperature in enumerate(temperatures):
            if temperature > 0:
                scaled = logs if temperature == 1 else (logs / temperature).log_softmax(-1)
                nats[i, place] -= float((scaled.exp() * scaled).sum(-1).double().sum())
    return Entropies(nats, tokens)


def entropy(values: Entropies, index: int, temperature: float) -> list[Number]:
    """The mean of one of the temperatures, in nats per token."""
    tokens, texts = int(values.tokens.sum()), int((values.tokens > 0).sum())
    return numbers({"entropy": values.means[index]}, texts, temperature=temperature, tokens=tokens)


def matching_temperatures(
    measure: Callable[[list[float]], list[float]], targets: dict[str, float]
) -> dict[str, tuple[float, float]]:
    """The temperature at which a model's mean entropy is each target, and that entropy; no entry where none is.

    Entropy grows with temperature. Brackets are narrowed by interpolation, guarded by bisection, with all targets in
    one pass over the texts at a time, until the entropies are within TOLERANCE.

    Args:
        measure: mean entropies at temperatures between COLDEST and HOTTEST, which it measures in one pass.
        targets: nats per token, by system.
    """
    known = dict(zip(_FIRST, measure(list(_FIRST)), strict=True))
    if any(not min(known.values()) <= target <= max(known.values()) for target in targets.values()):
        ends = [COLDEST, HOTTEST]
        known |= zip(ends, measure(ends), strict=True)
    least, most = min(known.values()) - TOLERANCE, max(known.values()) + TOLERANCE
    targets = {name: target for name, target in targets.items() if least <= target <= most}
    for number in range(_PASSES):
        guesses = {
            name: _between(known, target, bisect=number % 3 == 2)
            for name, target in targets.items()
            if abs(known[nearest(known, target)] - target) > TOLERANCE
        }
        if not guesses:
            break
        asked = sorted(set(guesses.values()))
        known |= zip(asked, measure(asked), strict=True)
    return {name: (nearest(known, target), known[nearest(known, target)]) for name, target in targets.items()}


def nearest(known: dict[float, float], target: float) -> float:
    """The temperature whose entropy is nearest to `target`; of several, that nearest to 1."""
    return min(known, key=lambda temperature: (abs(known[temperature] - target), abs(temperature - 1)))


def _between(known: dict[float, float], target: float, bisect: bool) -> float:
    """A temperature between the two whose entropies are around `target`."""
    low = max((t for t in known if known[t] <= target), default=min(known))
    high = min((t for t in known if t > low), default=max(known))
    share = 0.5 if bisect or known[high] == known[low] else (target - known[low]) / (known[high] - known[low])
    return low + min(max(share, 0.01), 0.99) * (high - low)
