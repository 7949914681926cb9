"""How long MAUVE takes from features, compared with mauve-text, and how its standard error behaves.

    python -m benchmarks.mauve

Speed: features like those of 2,000 human and 2,000 sampled texts (GPT-2 large's width, 1,280). `ours` averages over
five k-means seeds and leaves out forty groups of texts for each; `ours, one seed` does what mauve-text does, which runs
one k-means seed and no error estimate. Seconds are of CPU time in all
threads, since the machine may be shared, and contenders alternate. The values must agree
within the noise of k-means' seeds.

Errors: for many samples of 300 pairs of texts, MAUVE's actual standard deviation and the means of two estimates of it,
both within the clusters found: the delete-a-group jackknife, which is used, and the bootstrap.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

from benchmarks.harness import alternate, ratio, write_results
from instruct.analysis.jackknife import text_variance
from instruct.measuring.texts import mauve as ours

AIM_SECONDS = 5.0


def features(n: int, width: int, shift: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Human and sampled features that share half of their variance, as texts with the same prefix do."""
    rng = np.random.default_rng(seed)
    inner = min(width, 200)
    basis = np.random.default_rng(0).normal(size=(inner, width)) if width > inner else np.eye(width)
    scale = np.geomspace(3, 0.2, inner)
    shared = rng.normal(size=(n, inner)) * 0.5
    human = (shared + rng.normal(size=(n, inner))) * scale + 1
    sampled = (shared + rng.normal(size=(n, inner)) + shift) * scale + 1
    return human @ basis, sampled @ basis


def speed(n: int, width: int, rounds: int) -> dict[str, Any]:
    """Seconds of a call, and the ratio to mauve-text."""
    import mauve

    human, sampled = features(n, width, 0.2, 0)
    values: dict[str, list[float]] = {"ours": [], "ours, one seed": [], "mauve-text": []}
    one_seed, theirs = values["ours, one seed"], values["mauve-text"]
    contenders = {
        "ours": lambda: values["ours"].append(ours.mauve(human, sampled).value),
        "ours, one seed": lambda: one_seed.append(ours.mauve(human, sampled, [len(one_seed)]).value),
        "mauve-text": lambda: theirs.append(
            mauve.compute_mauve(p_features=human, q_features=sampled, seed=len(theirs)).mauve
        ),
    }
    seconds = alternate(contenders, rounds, time.process_time)
    return {
        "texts": n,
        "width": width,
        "seconds": {name: float(np.median(each)) for name, each in seconds.items()},
        "mauve-text/ours": ratio(seconds, "mauve-text", "ours"),
        "mauve-text/ours, one seed": ratio(seconds, "mauve-text", "ours, one seed"),
        "values": values,
        "aim_seconds": AIM_SECONDS,
    }


def errors(n: int, repetitions: int) -> list[dict[str, float]]:
    """The actual standard deviation of MAUVE and its estimates, for three distances."""
    found = []
    for shift in (0.0, 0.3, 0.8):
        values, jackknife, bootstrap, resampled = [], [], [], []
        for repetition in range(repetitions):
            one = ours.mauve(*features(n, 16, shift, repetition), [0])
            values.append(one.value)
            jackknife.append(np.sqrt(text_variance(one.without)))
            means, deviation = _bootstrap(*features(n, 16, shift, repetition))
            resampled.append(means)
            bootstrap.append(deviation)
        found.append(
            {
                "shift": shift,
                "mauve": float(np.mean(values)),
                "standard_deviation": float(np.std(values, ddof=1)),
                "jackknife": float(np.mean(jackknife)),
                "bootstrap": float(np.mean(bootstrap)),
                "mean_of_resamples": float(np.mean(resampled)),
            }
        )
    return found


def _bootstrap(human: np.ndarray, sampled: np.ndarray, resamples: int = 200) -> tuple[float, float]:
    """Mean and standard deviation of MAUVE over resampled pairs, within the clusters of all."""
    clusters = ours.cluster_count(len(human), len(sampled))
    labels = ours.quantize(ours.reduce_features([human, sampled]), clusters, 0)
    rng = np.random.default_rng(0)
    found = []
    for _ in range(resamples):
        drawn = rng.integers(len(human), size=len(human))
        p, q = (ours.histogram(np.bincount(each[drawn], minlength=clusters)) for each in labels)
        found.append(ours.mauve_of(p, q))
    return float(np.mean(found)), float(np.std(found, ddof=1))


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--texts", type=int, default=2000)
    parser.add_argument("--width", type=int, default=1280)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--repetitions", type=int, default=60)
    parser.add_argument("--no-write", action="store_true")
    arguments = parser.parse_args()
    found: dict[str, Any] = {"speed": speed(arguments.texts, arguments.width, arguments.rounds)}
    for name, seconds in found["speed"]["seconds"].items():
        print(f"{name}: {seconds:.2f} CPU seconds for {arguments.texts} x 2 texts")
    print("mauve-text/ours", found["speed"]["mauve-text/ours"])
    found["errors"] = errors(300, arguments.repetitions)
    for each in found["errors"]:
        print(", ".join(f"{name} {value:.3f}" for name, value in each.items()))
    if not arguments.no_write:
        write_results("mauve", [found])


if __name__ == "__main__":
    main()
