"""Do the figures of `instruct validate` hold where pairs share instructions?

    python -m benchmarks.agreement [--runs N]

Labels, a judge and the longer answer as a yardstick are drawn from worlds whose truth is known: instructions with one
pair each, with as many as PandaLM's, or with very different numbers of pairs; on each instruction both raters have an
accuracy of their own. For each world: how often the 95 % intervals of accuracy, kappa and lead hold their true values,
and how often a lead is claimed; without a lead, that is false. Exits with 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import write_results
from instruct.data.prompts import EvalPrompt
from instruct.validation.agreement import measure_agreement
from instruct.validation.human_sets import HumanPair, HumanSet

# How many of PandaLM's instructions have so many pairs.
PANDALM = np.repeat([7, 6, 4, 10, 5, 8, 3, 9, 1, 2], [26, 25, 24, 20, 17, 14, 13, 12, 11, 8])
LEAST_COVERAGE, MOST_FALSE = 0.92, 0.05
LABELS = np.array(["first", "second"])


def sizes(kind: str, instructions: int, rng: np.random.Generator) -> np.ndarray:
    """Pairs of each instruction."""
    if kind == "one each":
        return np.ones(instructions, dtype=int)
    if kind == "as PandaLM's":
        return rng.choice(PANDALM, instructions)
    return np.where(rng.random(instructions) < 0.1, 20, rng.integers(1, 3, instructions))


def accuracies(mean: float, alike: float, instructions: int, rng: np.random.Generator) -> np.ndarray:
    """Of a rater on each instruction; `alike`: the correlation of two pairs of one instruction."""
    if not alike:
        return np.full(instructions, mean)
    return rng.beta(mean * (1 - alike) / alike, (1 - mean) * (1 - alike) / alike, instructions)


def experiment(kind: str, instructions: int, judge: float, yardstick: float, alike: float, seed: int) -> dict[str, Any]:
    """Which intervals hold, and whether a lead is claimed."""
    rng = np.random.default_rng(seed)
    of = np.repeat(np.arange(instructions), sizes(kind, instructions, rng))
    label = rng.integers(0, 2, len(of))
    said = np.where(rng.random(len(of)) < accuracies(judge, alike, instructions, rng)[of], label, 1 - label)
    longer = np.where(rng.random(len(of)) < accuracies(yardstick, alike, instructions, rng)[of], label, 1 - label)
    pairs = [
        HumanPair(n, EvalPrompt(f"{of[n]}", ""), "ab"[: 2 - longer[n]], "ab"[: 1 + longer[n]], (LABELS[label[n]],))
        for n in range(len(of))
    ]
    found = measure_agreement(HumanSet("drawn", pairs, ("label",), Path(), ""), LABELS[said].tolist())
    claim = found.claim()
    states = {
        "accuracy": (found.measurements["listed", "accuracy", ""].interval, 100 * judge),
        "kappa": (found.measurements["listed", "kappa", ""].interval, 2 * judge - 1),
        "lead": (claim.interval, 100 * (judge - yardstick)),
    }
    holds = {name: bool(ends and ends[0] <= truth <= ends[1]) for name, (ends, truth) in states.items()}
    return {**holds, "claimed": claim.finding in ("candidate", "baseline")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=400, help="experiments of each world")
    parser.add_argument("--no-write", action="store_true", help="print only")
    arguments = parser.parse_args()
    rows, missed = [], 0
    print("| pairs of an instruction | alike | instructions | judge, longer | accuracy | kappa | lead | claimed |")
    print("|---|---|---|---|---|---|---|---|")
    kinds = (("one each", 0.0), ("as PandaLM's", 0.1), ("as PandaLM's", 0.5), ("very different", 0.3))
    raters = ((0.65, 0.65), (0.7, 0.6), (0.95, 0.9))
    for (kind, alike), instructions, (judge, yardstick) in itertools.product(kinds, (20, 50, 170), raters):
        world = (kind, instructions, judge, yardstick, alike)
        every = [experiment(*world, seed) for seed in range(arguments.runs)]
        means = {name: float(np.mean([each[name] for each in every])) for name in every[0]}
        doubt = 3 * 0.22 / arguments.runs**0.5
        covered = min(means[name] for name in ("accuracy", "kappa", "lead"))
        bad = covered < LEAST_COVERAGE - doubt or (judge == yardstick and means["claimed"] > MOST_FALSE + doubt)
        missed += bad and kind != "very different"
        rows.append(dict(zip(("pairs", "instructions", "judge", "longer", "alike"), world, strict=True)) | means)
        shares = " | ".join(f"{100 * share:.1f} %" for share in means.values())
        print(f"| {kind} | {alike} | {instructions} | {judge:.0%}, {yardstick:.0%} | {shares} |", flush=True)
    if not arguments.no_write:
        write_results("agreement", rows)
    sys.exit(missed > 0)


if __name__ == "__main__":
    main()
