"""How many of 805 pairs `judge --stop-when decided` needs, and whether its interval holds at every look.

    python -m benchmarks.early_stopping

Simulated, so it depends on no machine: for each true win rate over all pairs and each share of ties, the verdicts are
put in 2,000 random orders, with a look after every pair. `coverage`: the share of orders in which the confidence
sequence for these pairs contained their true rate at every look before the last. `judged`: pairs until a claim about
prompts like these may be made, or all of them. `wrong`: the share of orders in which it is for the wrong side.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from benchmarks.harness import write_results
from instruct.analysis.claims import ALPHA
from instruct.analysis.sequential import LEVEL, LOOKS_SHARE, capital

PAIRS, RUNS = 805, 2000
RATES, TIES = (52, 55, 58, 60, 65, 70, 75), (0.0, 0.3)
_REFUTED = 2 / (1 - LEVEL)
_DECIDED = 2 / (LOOKS_SHARE * ALPHA)


def simulated(rate: float, ties: float, runs: int, rng: np.random.Generator) -> dict[str, Any]:
    """One row: `rate` in percent, `ties` a share of the pairs."""
    tied = round(PAIRS * ties)
    won = round(PAIRS * rate / 100 - tied / 2)
    population = np.repeat([1.0, 0.5, 0.0], [won, tied, PAIRS - won - tied])
    mean = population.mean()
    judged, covered, wrong = [], 0, 0
    for _ in range(runs):
        scores = rng.permutation(population)
        above, below = (capital(given, 0.5) >= _DECIDED for given in (scores, 1 - scores))
        decided = np.flatnonzero(above | below)
        judged.append(int(decided[0]) + 1 if len(decided) else PAIRS)
        wrong += bool(len(decided) and below[decided[0]])
        # The capital falls as the mean grows: an end of the interval passes the true mean just if this is refuted.
        refuted = np.maximum(capital(scores, mean, PAIRS), capital(1 - scores, 1 - mean, PAIRS))[:-1] >= _REFUTED
        covered += not refuted.any()
    quartiles = np.percentile(judged, [25, 50, 75])
    return {
        "rate": round(100 * float(mean), 2),
        "ties": ties,
        "runs": runs,
        "coverage": covered / runs,
        "wrong": wrong / runs,
        "judged": quartiles[1],
        "judged_quartiles": [quartiles[0], quartiles[2]],
        "saved": PAIRS - quartiles[1],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=RUNS, help=f"orders per row (default: {RUNS})")
    parser.add_argument("--no-write", action="store_true", help="print only")
    arguments = parser.parse_args()
    rows = []
    for ties in TIES:
        for rate in RATES:
            row = simulated(rate, ties, arguments.runs, np.random.default_rng(0))
            rows.append(row)
            low, high = row["judged_quartiles"]
            print(
                f"rate {row['rate']:5.2f} %, ties {ties:.0%}: coverage {row['coverage']:.1%}, "
                f"judged {row['judged']:.0f} of {PAIRS} (quartiles {low:.0f} and {high:.0f}), wrong {row['wrong']:.2%}"
            )
    if not arguments.no_write:
        write_results("early-stopping", rows, pairs=PAIRS, level=LEVEL)


if __name__ == "__main__":
    main()
