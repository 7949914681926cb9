"""Does a report claim more than it may, and do its intervals hold?

    python -m benchmarks.claims [--small]

For every headline that a report can make: the share of false claims, the coverage of its 95 % interval, and the power,
in the worst cell of a grid. Counted verdicts are enumerated: every outcome of n pairs with its probability, for the
rates and shares of ties that can go together (ties <= 2 (1 - rate)). The rest is simulated with a fixed seed. The
functions are those that a report calls; `whole_way` checks that on samples, from annotations.json to report.json. A
panel's majority and verdicts in both orders are counted verdicts with more ties.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import write_results
from instruct.analysis.claims import ALPHA, agreeing_interval, finding_of
from instruct.analysis.holm import holm
from instruct.analysis.inference import score_interval, sign_test
from instruct.analysis.prediction_powered import prediction_powered
from instruct.analysis.ranking import standings
from instruct.analysis.results import Sequential
from instruct.analysis.seeds import seed_spread
from instruct.analysis.sequential import anytime_p, capital, claim_p, confidence_interval
from instruct.analysis.statistics import Tally

SIZES, SMALL_SIZES = (3, 5, 8, 12, 20, 35, 50, 100, 200, 805), (3, 8, 20, 50)
RATES = (0.5, 0.52, 0.55, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98)
TIES = (0.0, 0.1, 0.3, 0.6, 0.9)
Row = dict[str, Any]


def counted(n: int) -> Iterator[Row]:
    """Exact coverage, false claims and power in each feasible cell of n counted pairs."""
    wins, ties = np.array([(win, tie) for win in range(n + 1) for tie in range(n + 1 - win)]).T
    losses = n - wins - ties
    shown = [Tally(*map(int, each)) for each in zip(wins, ties, losses, strict=True)]
    found = [each.finding for each in shown]
    ends = np.array([agreeing_interval(each.interval, claim) for each, claim in zip(shown, found, strict=True)])
    claimed = np.array([claim in ("candidate", "baseline") for claim in found])
    tested = np.array([each.win + each.loss > 0 and (sign_test(each.win, each.loss) or 1) <= ALPHA for each in shown])
    ways = np.array([math.lgamma(n + 1) - sum(math.lgamma(k + 1) for k in (e.win, e.tie, e.loss)) for e in shown])
    for rate in RATES:
        for tied in TIES:
            chances = (rate - tied / 2, tied, 1 - rate - tied / 2)
            if min(chances) < -1e-12:
                continue
            chance = np.exp(ways + sum(_log(p, k) for p, k in zip(chances, (wins, ties, losses), strict=True)))
            covered = (ends[:, 0] <= 100 * rate + 1e-6) & (100 * rate - 1e-6 <= ends[:, 1])
            yield {
                "headline": "counted",
                "n": n,
                "rate": rate,
                "ties": tied,
                "coverage": float(chance @ covered),
                "claimed": float(chance @ claimed),
                "sign_test": float(chance @ tested),
            }


def _log(chance: float, count: NDArray[np.int64]) -> NDArray[np.float64]:
    return count * math.log(chance) if chance > 1e-12 else np.where(count > 0, -np.inf, 0.0)


def weighted(n: int, rng: np.random.Generator, runs: int) -> Iterator[Row]:
    """Graded preferences: symmetric about a half, and skewed ones."""
    for name, a, b in (("uniform", 1.0, 1.0), ("extreme", 0.2, 0.2), ("skewed", 2.0, 0.4), ("mostly won", 0.9, 0.05)):
        covered = claimed = 0
        for _ in range(runs):
            scores = np.clip(rng.beta(a, b, size=n), 0.0, 1.0)
            wins = int((scores > 0.5).sum())
            counts = Tally(win=wins, loss=n - wins, scores=tuple(scores.tolist()))
            low, high = agreeing_interval(counts.interval, counts.finding) or (0.0, 100.0)
            covered += low <= 100 * a / (a + b) <= high
            claimed += counts.finding in ("candidate", "baseline")
        yield _simulated("weighted", runs, n=n, cell=name, rate=a / (a + b), coverage=covered, claimed=claimed)


def _simulated(headline: str, runs: int, coverage: int | None = None, claimed: int | None = None, **cell: Any) -> Row:
    shares = {"coverage": coverage, "claimed": claimed}
    return {"headline": headline, **cell} | {name: k / runs for name, k in shares.items() if k is not None}


def stopped(n: int, rate: float, rng: np.random.Generator, runs: int) -> Row:
    """Judging until it is decided; the rate shown where that was before the end."""
    claimed, covered, shown, judged = 0, 0, [], []
    for _ in range(runs):
        scores = (rng.random(n) < rate).astype(float)
        at = _stop(scores)
        seen = scores[:at].tolist()
        looked = Sequential(
            rule="decided", seed=0, pairs=n, judged=at, met=at < n, looks=[], p=anytime_p(seen),
            interval=confidence_interval(seen, seen),
        )  # fmt: skip
        wins = int(scores[:at].sum())
        counts = Tally(win=wins, loss=at - wins)
        finding = finding_of(claim_p(looked, counts.p), counts.win_rate)
        low, high = agreeing_interval(looked.interval if at < n else counts.interval, finding) or (0.0, 100.0)
        claimed += finding in ("candidate", "baseline")
        covered += low <= 100 * rate <= high
        judged.append(at)
        shown += [wins / at] if at < n else []
    biased = {"judged": float(np.median(judged)), "shown_at_a_stop": float(np.mean(shown)) if shown else None}
    return _simulated("stopped early", runs, n=n, rate=rate, coverage=covered, claimed=claimed) | biased


def _stop(scores: NDArray[np.float64]) -> int:
    """After how many pairs judging stops."""
    decided = np.flatnonzero(np.maximum(capital(scores, 0.5), capital(1 - scores, 0.5)) >= 200)
    return int(decided[0]) + 1 if len(decided) else len(scores)


def ranking(n: int, rates: tuple[float, ...], rng: np.random.Generator, runs: int) -> Row:
    """All simultaneous intervals at once, and ranks."""
    covered = wrong = 0
    for _ in range(runs):
        drawn = {str(k): dict(enumerate((rng.random(n) < rate).astype(float))) for k, rate in enumerate(rates)}
        found = {int(each.name): each for each in standings({k: _named(v) for k, v in drawn.items()})}
        covered += all(found[k].interval[0] <= 100 * rate <= found[k].interval[1] for k, rate in enumerate(rates))
        # Equal systems share all the ranks between them; an interval must hold one of these.
        wrong += any(
            not (
                found[k].rank_interval[0] <= 1 + sum(r > rate for r in rates)
                and found[k].rank_interval[1] >= sum(r >= rate for r in rates)
            )
            for k, rate in enumerate(rates)
        )
    return _simulated("ranking", runs, n=n, cell=str(rates), coverage=covered, claimed=wrong) | {"rate": 0.5}


def _named(scores: dict[int, float]) -> dict[str, float | None]:
    return {str(prompt): score for prompt, score in scores.items()}


def several(systems: int, n: int, rng: np.random.Generator, runs: int) -> Row:
    """Systems that all equal their baseline: whether one is said to be better."""
    wins = rng.binomial(n, 0.5, size=(runs, systems))
    claimed = sum(
        any(p is not None and p <= ALPHA for p in holm([sign_test(int(w), n - int(w)) for w in row])) for row in wins
    )
    return _simulated("several systems", runs, n=n, cell=f"{systems} systems", rate=0.5, claimed=claimed)


def seeds(deviation: float, rate: float, rng: np.random.Generator, runs: int) -> Row:
    """Three trainings, 805 prompts; `deviation` of the seeds' true rates in points."""
    claimed = covered = 0
    for _ in range(runs):
        shift, easy = rng.normal(0, deviation / 100, size=(3, 1)), rng.normal(0, 0.15, size=805)
        matrix = (rng.random((3, 805)) < rate + shift + easy - easy.mean()).astype(float)
        spread = seed_spread((100 * matrix.mean(axis=1)).tolist(), [_named(dict(enumerate(row))) for row in matrix])
        finding = finding_of(spread.p, spread.mean)
        low, high = agreeing_interval(spread.interval_both, finding) or (0.0, 100.0)
        claimed += finding in ("candidate", "baseline")
        covered += low <= 100 * rate <= high
    cell = f"3 seeds, SD {deviation:g}"
    return _simulated("seeds", runs, n=805, cell=cell, rate=rate, coverage=covered, claimed=claimed)


def labels(count: int, rate: float, accuracy: float, rng: np.random.Generator, runs: int) -> Row:
    """People's labels on some of 805 pairs, and a judge of some accuracy on all."""
    covered = 0
    for _ in range(runs):
        people = (rng.random(805) < rate).astype(float)
        judge = np.where(rng.random(805) < accuracy, people, 1 - people)
        low, high = prediction_powered(people[:count], judge[:count], judge[count:]).interval
        covered += low <= 100 * rate <= high
    return _simulated("labels", runs, n=count, cell=f"judge right {accuracy:.0%}", rate=rate, coverage=covered)


def whole_way(folder: Path, rng: np.random.Generator, runs: int) -> int:
    """How many of some random comparisons went from annotations.json to the same finding in report.json."""
    from instruct.judging.interchange.exchange import import_into_run
    from instruct.reporting.report import write_report

    same = 0
    for number in range(runs):
        n = int(rng.integers(3, 120))
        graded = bool(number % 2)
        scores = rng.beta(1, 0.7, size=n) if graded else rng.choice([0.0, 0.5, 1.0], size=n, p=[0.3, 0.2, 0.5])
        rows = [
            {"instruction": f"prompt {i}", "output_1": f"b {i}", "output_2": f"a {i}", "generator_1": "base",
             "generator_2": "new", "annotator": "judge", "dataset": "d", "preference": 1 + float(score)}
            for i, score in enumerate(scores)
        ]  # fmt: skip
        file = folder / f"{number}.json"
        file.write_text(json.dumps(rows), encoding="utf-8")
        written = write_report(import_into_run(file, folder / f"run{number}").folder).path.with_suffix(".json")
        (judge,) = json.loads(written.read_text(encoding="utf-8"))["judges"]
        figures = judge["comparisons"][0]["policies"]["single"]
        wins, ties = int((scores > 0.5).sum()), int((scores == 0.5).sum())
        counts = Tally(wins, ties, n - wins - ties, scores=tuple(scores.tolist()) if graded else None)
        interval = agreeing_interval(score_interval(scores), counts.finding) or []
        same += figures["finding"] == counts.finding and np.allclose(figures["interval"], interval, atol=2e-6)
    return same


def rows(small: bool) -> Iterator[Row]:
    """Every cell of the grid."""
    rng, runs = np.random.default_rng(0), 100 if small else 400
    for n in SMALL_SIZES if small else SIZES:
        yield from counted(n)
    for n in (20,) if small else (20, 50, 100):
        yield from weighted(n, rng, runs)
    for n, rate in ((100, 0.5),) if small else ((100, 0.5), (805, 0.5), (805, 0.52), (805, 0.55), (805, 0.65)):
        yield stopped(n, rate, rng, runs if n > 100 else 4 * runs)
    grid = ((20, (0.5, 0.7, 0.9)), (20, (0.98,) * 3), (50, (0.95,) * 5), (50, (0.8, 0.8, 0.85, 0.9, 0.9)))
    for n, rates in grid[: 2 if small else 4]:
        yield ranking(n, rates, rng, runs)
    for systems in (2, 6, 12):
        yield several(systems, 100, rng, 20 * runs)
    for deviation, rate in ((0, 0.5), (1.5, 0.5), (3, 0.5), (0, 0.55), (1.5, 0.55), (3, 0.55))[: 1 if small else 6]:
        yield seeds(deviation, rate, rng, runs)
    for count in (30,) if small else (20, 30, 100):
        for rate in (0.5, 0.9, 0.98):
            yield labels(count, rate, 0.7, rng, 5 * runs)


def worst(found: list[Row]) -> list[Row]:
    """For each headline: the lowest coverage, the most false claims (at a rate of 50), and their cells."""
    lines = []
    for headline in dict.fromkeys(row["headline"] for row in found):
        every = [row for row in found if row["headline"] == headline]
        for part, inside in (("n < 20", [r for r in every if r["n"] < 20]), ("", [r for r in every if r["n"] >= 20])):
            least = min((r for r in inside if "coverage" in r), key=lambda r: r["coverage"], default=None)
            wrong = [r for r in inside if "claimed" in r and r["rate"] == 0.5]
            most = max(wrong, key=lambda r: r["claimed"], default=None)
            if least or most:
                lines.append({"headline": f"{headline} {part}".strip(), "coverage": least, "false": most})
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="the grid of the slow tests")
    parser.add_argument("--no-write", action="store_true", help="print only")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        runs = 6 if arguments.small else 20
        print(f"whole way: {whole_way(Path(folder), np.random.default_rng(1), runs)} of {runs} reports agree")
    found = list(rows(arguments.small))
    for row in found:
        if row["headline"] != "counted":
            print({name: round(value, 4) if isinstance(value, float) else value for name, value in row.items()})
    for line in worst(found):
        for figure, row in (("coverage", line["coverage"]), ("false", line["false"])):
            if row:
                share = row["coverage" if figure == "coverage" else "claimed"]
                cell = {name: row[name] for name in ("n", "rate", "ties", "cell") if name in row}
                print(f"{line['headline']}: worst {figure} {share:.1%} at {cell}")
    exact = [row for row in found if row["headline"] == "counted"]
    lost = max(exact, key=lambda row: row["sign_test"] - row["claimed"])
    mean = np.mean([row["coverage"] for row in exact])
    print(f"counted: mean coverage {mean:.1%}; power below the sign test's: {lost['sign_test'] - lost['claimed']:.1%}")
    if not arguments.no_write:
        write_results("claims", found)


if __name__ == "__main__":
    main()
