"""What may be claimed of counted verdicts, in every case: coverage, false claims and power, enumerated.

    python -m benchmarks.claims [--small]

Every outcome of n pairs with its probability, for the rates and shares of ties that can go together (ties <= 2 (1 -
rate)): of one judge, and of verdicts in both orders. Random experiments also go the whole way,
from files of verdicts to report.json, and must end in the same claim and interval. Exits with 1 if a target is missed.
benchmarks/report_claims.py simulates the rest of a report.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import write_results
from instruct.analysis.claims import ALPHA, settle
from instruct.analysis.inference import sign_test
from instruct.analysis.results import Claim
from instruct.analysis.statistics import Tally, win_rate_claim

SIZES, SMALL_SIZES = (3, 5, 8, 12, 20, 35, 50, 100, 200, 805), (3, 8, 20, 50)
RATES = (0.5, 0.52, 0.55, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98)
TIES = (0.0, 0.1, 0.3, 0.6, 0.9)
# The least coverage from 20 pairs on and below, the largest share of false claims, and the mean coverage over the cells
# of one judge. The power is that of the sign test of all pairs, within POWER.
COVERAGE, COVERAGE_OF_FEW, FALSE = 0.92, 0.9, 0.05
POWER = {"counted": 0.03, "both orders": 0.03}
MEAN = (0.94, 0.97)
Row = dict[str, Any]
Chances = tuple[float, float, float]
Scores = NDArray[np.float64]


def claims_of(*tallies: Tally) -> list[Claim]:
    """The claims of counted verdicts, corrected together."""
    claims = [win_rate_claim(counts, candidate="new", baseline="base", family="verdicts") for counts in tallies]
    settle(claims)
    return claims


@lru_cache(maxsize=1)
def _outcomes(n: int) -> tuple[NDArray[Any], ...]:
    """Every outcome of n pairs: wins, ties, losses, how many ways, interval, whether a claim is made, and tested."""
    wins, ties = np.array([(win, tie) for win in range(n + 1) for tie in range(n + 1 - win)]).T
    losses = n - wins - ties
    shown = [Tally(int(w), int(t), int(x)) for w, t, x in zip(wins, ties, losses, strict=True)]
    made = [claims_of(each)[0] for each in shown]
    ends = np.array([claim.interval for claim in made])
    claimed = np.array([claim.finding in ("candidate", "baseline") for claim in made])
    tested = np.array([each.win + each.loss > 0 and (sign_test(each.win, each.loss) or 1) <= ALPHA for each in shown])
    ways = np.array([math.lgamma(n + 1) - sum(math.lgamma(k + 1) for k in (e.win, e.tie, e.loss)) for e in shown])
    return wins, ties, losses, ways, ends, claimed, tested


def enumerated(headline: str, n: int, cells: Iterator[tuple[str, Chances]]) -> Iterator[Row]:
    """Exact coverage, false claims and power of n pairs; a cell has the chances of a win, a tie and a loss."""
    wins, ties, losses, ways, ends, claimed, tested = _outcomes(n)
    for name, chances in cells:
        chance = np.exp(ways + sum(_log(p, k) for p, k in zip(chances, (wins, ties, losses), strict=True)))
        rate = chances[0] + chances[1] / 2
        covered = (ends[:, 0] <= 100 * rate + 1e-6) & (100 * rate - 1e-6 <= ends[:, 1])
        yield {
            "headline": headline, "n": n, "rate": rate, "ties": chances[1], "cell": name,
            "coverage": float(chance @ covered), "claimed": float(chance @ claimed), "tested": float(chance @ tested),
        }  # fmt: skip


def _log(chance: float, count: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.where(count > 0, -np.inf, 0.0) if chance <= 1e-12 else np.asarray(count * math.log(chance))


def counted_cells() -> Iterator[tuple[str, Chances]]:
    """The feasible ones of one judge."""
    for rate, tied in itertools.product(RATES, TIES):
        chances = (rate - tied / 2, tied, 1 - rate - tied / 2)
        if min(chances) >= -1e-12:
            yield f"{rate:.0%}, ties {tied:.0%}", chances


def both_orders_cells() -> Iterator[tuple[str, Chances]]:
    """A judge that names the answer shown first in a share of the pairs: the two orders contradict, which is a tie."""
    for bias in (0.2, 0.5, 0.8):
        for name, (win, tie, loss) in counted_cells():
            yield f"{name}, bias {bias:.0%}", ((1 - bias) * win, bias + (1 - bias) * tie, (1 - bias) * loss)


CELLS = {"counted": counted_cells, "both orders": both_orders_cells}


def missed(found: list[Row]) -> list[str]:
    """The cells that miss a target."""
    problems = []
    for row in found:
        least = COVERAGE if row["n"] >= 20 else COVERAGE_OF_FEW
        cell = {name: row[name] for name in ("n", "rate", "cell")}
        if row["coverage"] < least - 1e-9:
            problems.append(f"{row['headline']}: coverage {row['coverage']:.1%} < {least:.0%} at {cell}")
        if math.isclose(row["rate"], 0.5) and row["claimed"] > FALSE + 1e-9:
            problems.append(f"{row['headline']}: false claims {row['claimed']:.1%} > {FALSE:.0%} at {cell}")
        if row["tested"] - row["claimed"] > POWER.get(row["headline"], 1) + 1e-9:
            problems.append(f"{row['headline']}: power {row['claimed']:.1%}, sign test {row['tested']:.1%} at {cell}")
    every = [row["coverage"] for row in found if row["headline"] == "counted" and row["n"] >= 20]
    if every and not MEAN[0] <= np.mean(every) <= MEAN[1]:
        problems.append(f"counted: mean coverage {np.mean(every):.1%} of the cells with n >= 20")
    return problems


def worst(found: list[Row]) -> Iterator[str]:
    """For each headline: the lowest coverage, the most false claims (at a rate of 50), the most power lost."""
    for headline, few in itertools.product(CELLS, (True, False)):
        rows = [row for row in found if row["headline"] == headline and (row["n"] < 20) == few]
        named = f"{headline}, {'n < 20' if few else 'n >= 20'}"
        mean = np.mean([row["coverage"] for row in rows])
        yield f"{named}: {_at(min(rows, key=lambda row: row['coverage']), 'coverage')}; mean {mean:.1%}"
        false = [row for row in rows if math.isclose(row["rate"], 0.5)]
        yield f"{named}: {_at(max(false, key=lambda row: row['claimed']), 'claimed')}"
        lost = [row | {"power lost": row["tested"] - row["claimed"]} for row in rows]
        yield f"{named}: {_at(max(lost, key=lambda row: row['power lost']), 'power lost')}"


def _at(row: Row, figure: str) -> str:
    return f"{figure} {row[figure]:.1%} at n = {row['n']}, {row['cell']}"


def whole_way(headline: str, folder: Path, rng: np.random.Generator) -> bool:
    """Whether a random experiment of this headline, by way of its files, has the same claim in report.json."""
    n, tied = int(rng.integers(3, 60)), rng.uniform(0, 0.5)
    drawn = rng.choice([1.0, 0.0, 0.5], size=(1, n), p=[*(rng.dirichlet([1.5, 1]) * (1 - tied)), tied])
    tallies = [Tally(int((row == 1).sum()), int((row == 0.5).sum()), int((row == 0).sum())) for row in drawn]
    report = _report(folder, drawn, both=headline == "both orders")
    (claim,), (comparison,) = claims_of(*tallies), report["judges"][0]["comparisons"]
    reported = comparison["policies"][comparison["leading"]]["claim"]
    assert claim.interval is not None
    return bool(claim.finding == reported["finding"] and np.allclose(reported["interval"], claim.interval, atol=2e-6))


def _report(folder: Path, verdicts: Scores, *, both: bool) -> dict[str, Any]:
    """report.json of verdicts: from AlpacaEval's annotations, or from a run's store for verdicts in both orders.

    Args:
        verdicts: the candidate's scores, (judges, pairs); 1/2 in both orders: the answer shown first wins in each.
    """
    from instruct.judging.interchange.exchange import import_into_run
    from instruct.judging.store import Judgment, JudgmentStore
    from instruct.reporting.report import build_report
    from instruct.run.directory import RunDirectory

    run = RunDirectory(folder / "run")
    if both:
        run.start({"name": "run"})
    for number, scores in enumerate(verdicts):
        judge, names = f"judge{number}", ("new", "base")
        if both:
            other = {"first": "second", "second": "first"}
            said = {1.0: {place: place for place in other}, 0.0: other, 0.5: dict.fromkeys(other, "first")}
            with JudgmentStore(run.store) as store:
                store.add_judgments(
                    Judgment(judge, *names, pair, f"prompt {pair}", "d", place, "", said[float(score)][place])
                    for pair, score in enumerate(scores)
                    for place in other
                )
            continue
        about = {"annotator": judge, "generator_1": "base", "generator_2": "new", "dataset": "d"}
        rows = [
            about | {"instruction": f"prompt {n}", "preference": 1 + float(score)} for n, score in enumerate(scores)
        ]
        file = folder / f"{number}.json"
        file.write_text(json.dumps(rows), encoding="utf-8")
        import_into_run(file, run.folder)
    return dict(json.loads(build_report(run.folder).to_json()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="the grid of the slow tests")
    parser.add_argument("--no-write", action="store_true", help="print only")
    arguments = parser.parse_args()
    started, rng = time.perf_counter(), np.random.default_rng(1)
    problems = []
    for headline in CELLS:
        same, runs = 0, 2 if arguments.small else 20
        for _ in range(runs):
            with tempfile.TemporaryDirectory() as folder:
                same += whole_way(headline, Path(folder), rng)
        print(f"{headline}: {same} of {runs} experiments have the same claim and interval in report.json")
        if same != runs:
            problems.append(f"{headline}: another claim in report.json")
    sizes = SMALL_SIZES if arguments.small else SIZES
    found = [row for n in sizes for headline, cells in CELLS.items() for row in enumerated(headline, n, cells())]
    print("\n".join(worst(found)))
    problems += missed(found)
    print("\n".join(f"MISSED: {problem}" for problem in problems) or "every target is reached")
    print(f"{time.perf_counter() - started:.0f} seconds")
    if not arguments.no_write:
        write_results("claims", found)
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
