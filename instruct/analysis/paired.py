"""Two systems judged on the same prompts: the difference of their win rates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from instruct.analysis.inference import bootstrap_interval, sign_flip_test


@dataclass(frozen=True)
class Difference:
    """The first system's win rate minus the second's, in points, over the `n` prompts with a verdict on both.

    `interval` is the bootstrap's (95 %), `p` the paired permutation test's; None where they are not defined.
    Differences that are all the same, such as those of ties, have no interval: resampling them says nothing about other
    prompts.
    """

    n: int
    points: float | None
    interval: list[float] | None
    p: float | None


def paired_difference(first: Mapping[str, float | None], second: Mapping[str, float | None]) -> Difference:
    """Compare two systems prompt by prompt.

    A prompt that is easy for one system is easy for the other too, so the difference of paired scores is more certain
    than two separate intervals suggest.

    Args:
        first, second: score (0 to 1) by prompt, None without a verdict.
    """
    differences = np.array(
        [ours - theirs for prompt, ours in first.items() if ours is not None
         and (theirs := second.get(prompt)) is not None]
    )  # fmt: skip
    if not len(differences):
        return Difference(0, None, None, None)
    return Difference(
        n=len(differences),
        points=100 * float(differences.mean()),
        interval=bootstrap_interval(differences) if np.ptp(differences) else None,
        p=sign_flip_test(differences)[0],
    )
