"""Does a report claim more than it may, and do its intervals hold?

    python -m benchmarks.claims [--small] [--headline NAME]

For every headline that a report can make: the share of false claims, the coverage of its 95 % interval, and the power,
in the worst cell of a grid. Counted verdicts, those in both orders and a panel's majority are enumerated: every outcome
of n pairs with its probability, for the rates and shares of ties that can go together (ties <= 2 (1 - rate)). The rest
is simulated with a fixed seed. Random experiments of each headline also go the whole way, from annotations.json to
report.json, and must end in the same claim and interval. Exits with 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.claims_files import (
    of_counts,
    of_ranking,
    of_scores,
    of_seeds,
    of_stop,
    of_systems,
    whole_way,
)
from benchmarks.harness import write_results
from instruct.analysis.claims import ALPHA
from instruct.analysis.inference import paired_difference, sign_flip_test, sign_test
from instruct.analysis.lengths import length_term
from instruct.analysis.prediction_powered import prediction_powered
from instruct.analysis.sequential import capital
from instruct.analysis.statistics import Tally
from instruct.analysis.style import Scored, equal_style

SIZES, SMALL_SIZES = (3, 5, 8, 12, 20, 35, 50, 100, 200, 805), (3, 8, 20, 50)
RATES = (0.5, 0.52, 0.55, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98)
TIES = (0.0, 0.1, 0.3, 0.6, 0.9)
# The shapes of Beta distributions of grades; the first three are symmetric, so that no answer is preferred.
GRADES = {
    "uniform": (1, 1), "extreme": (0.2, 0.2), "near ties": (8, 8), "skewed": (2, 0.4), "mostly won": (0.9, 0.05),
    "slightly better": (6, 4),
}  # fmt: skip
# Grades that are a little above 1/2, but for a share that is far below it: small wins, few large losses, a mean of 1/2.
SKEWED = {"10 % far below": (0.1, 0.05), "5 % far below": (0.05, 0.02), "2 % far below": (0.02, 0.01)}
# For each headline the least coverage and the largest share of false claims; coverage below 20 counted pairs: 90 %.
TARGETS = {
    "counted": (0.92, 0.05), "missing": (0.92, 0.05), "both orders": (0.92, 0.05), "panel": (0.92, 0.05),
    "weighted": (0.92, 0.05), "stopped early": (0.92, 0.05), "several systems": (0.92, 0.05),
    "ranking": (0.93, 0.05), "seeds": (0.93, 0.05), "labels": (0.93, 0.05),
    "paired rows": (0.93, 0.05), "equal length": (0.93, 0.05),
}  # fmt: skip
# How far the power may be below that of the sign test of all pairs.
POWER = {"counted": 0.03, "both orders": 0.03, "panel": 0.03, "stopped early": 0.05}
MEAN = (0.94, 0.97)
Row = dict[str, Any]
Chances = tuple[float, float, float]


@lru_cache(maxsize=1)
def _outcomes(n: int) -> tuple[NDArray[Any], ...]:
    """Every outcome of n pairs: wins, ties, losses, how many ways, interval, whether a claim is made, and tested."""
    wins, ties = np.array([(win, tie) for win in range(n + 1) for tie in range(n + 1 - win)]).T
    losses = n - wins - ties
    shown = [Tally(int(w), int(t), int(x)) for w, t, x in zip(wins, ties, losses, strict=True)]
    made = [of_counts(each) for each in shown]
    ends = np.array([interval for _, interval in made])
    claimed = np.array([finding in ("candidate", "baseline") for finding, _ in made])
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


def panel_cells() -> Iterator[tuple[str, Chances]]:
    """Three judges that decide independently, or two that always agree and a third."""
    votes = np.array(list(itertools.product((1.0, 0.5, 0.0), repeat=3)))
    for (name, chances), together in itertools.product(counted_cells(), (False, True)):
        of_vote = dict(zip((1.0, 0.5, 0.0), chances, strict=True))
        sums = {1.0: 0.0, 0.5: 0.0, 0.0: 0.0}
        for cast in votes:
            chance = math.prod(of_vote[v] for v in (cast[1:] if together else cast)) * (
                not together or cast[0] == cast[1]
            )
            most = next((v for v in sums if (cast == v).sum() > 1), 0.5)
            sums[most] += chance
        yield f"{name}, {'two alike' if together else 'independent'}", (sums[1.0], sums[0.5], sums[0.0])


def counted(n: int) -> Iterator[Row]:
    """The cells of one judge."""
    return enumerated("counted", n, counted_cells())


def _drawn(rng: np.random.Generator, shape: tuple[int, ...], rate: float, tied: float) -> NDArray[np.float64]:
    return rng.choice([1.0, 0.5, 0.0], size=shape, p=[rate - tied / 2, tied, 1 - rate - tied / 2])


def _simulated(headline: str, runs: int, once: Callable[[], Row], **cell: Any) -> Row:
    """The means of what `once` measures in each run; the rate of a cell is the candidate's true one."""
    every = [once() for _ in range(runs)]
    means = {name: np.mean([row[name] for row in every if row[name] is not None]).item() for name in every[0]}
    return {"headline": headline, "runs": runs, **cell, **means}


def _of_claim(claim: tuple[str, list[float] | None], rate: float) -> Row:
    low, high = claim[1] or (0.0, 100.0)
    return {"claimed": claim[0] in ("candidate", "baseline"), "coverage": low <= 100 * rate <= high}


def missing(n: int, rate: float, least: bool, share: float, rng: np.random.Generator, runs: int) -> Row:
    """A judge that gives no verdict on a share of the pairs, at random, or on as many that are lost."""

    def once() -> Row:
        wins = int(rng.binomial(n, rate))
        left_out = int(rng.binomial(n, share))
        won = 0 if least else int(rng.hypergeometric(wins, n - wins, left_out))
        lost = min(n - wins, left_out - won)
        return _of_claim(of_counts(Tally(wins - won, 0, n - wins - lost, failed=won + lost)), rate)

    cell = f"{rate:.0%}, {share:.0%} missing, {'losses' if least else 'at random'}"
    return _simulated("missing", runs, once, n=n, cell=cell, rate=rate)


def weighted(n: int, rng: np.random.Generator, runs: int) -> Iterator[Row]:
    """Graded preferences; `tested`: how often the sign-flip test alone would claim."""

    def beta(a: float, b: float) -> NDArray[np.float64]:
        return np.clip(rng.beta(a, b, size=n), 0.0, 1.0)

    def skewed(share: float, above: float) -> NDArray[np.float64]:
        return np.where(rng.random(n) < share, 0.5 - above * (1 - share) / share, 0.5 + above)

    cells = [(name, a / (a + b), partial(beta, a, b)) for name, (a, b) in GRADES.items()]
    cells += [(name, 0.5, partial(skewed, *shape)) for name, shape in SKEWED.items()]
    for name, rate, drawn in cells:

        def once(drawn: Callable[[], NDArray[np.float64]] = drawn, rate: float = rate) -> Row:
            scores = drawn()
            tested = (sign_flip_test(scores - 0.5)[0] or 1) <= ALPHA
            return _of_claim(of_scores(scores), rate) | {"tested": tested}

        yield _simulated("weighted", runs, once, n=n, cell=name, rate=rate)


def stopped(n: int, rate: float, tied: float, rng: np.random.Generator, runs: int) -> Row:
    """Judging until it is decided; the rate shown where that was before the end."""

    def once() -> Row:
        scores = _drawn(rng, (n,), rate, tied)
        decided = np.flatnonzero(np.maximum(capital(scores, 0.5), capital(1 - scores, 0.5)) >= 200)
        at = int(decided[0]) + 1 if len(decided) else n
        p = sign_test(int((scores == 1).sum()), int((scores == 0).sum()))
        shown = 100 * float(scores[:at].mean()) if at < n else None
        return _of_claim(of_stop(scores[:at], n), rate) | {"judged": at, "tested": (p or 1) <= ALPHA, "shown": shown}

    return _simulated("stopped early", runs, once, n=n, cell=f"{rate:.0%}, ties {tied:.0%}", rate=rate, ties=tied)


def ranking(n: int, rates: tuple[float, ...], tied: float, rng: np.random.Generator, runs: int) -> Row:
    """All simultaneous intervals at once, and ranks: equal systems share the ranks between them."""

    def once() -> Row:
        drawn = np.stack([_drawn(rng, (n,), rate, min(tied, 2 * (1 - rate))) for rate in rates])
        each = list(zip(of_ranking(drawn), rates, strict=True))
        wrong = any(
            s.rank_interval[0] > 1 + sum(r > rate for r in rates) or s.rank_interval[1] < sum(r >= rate for r in rates)
            for s, rate in each
        )
        return {"coverage": all(s.interval[0] <= 100 * r <= s.interval[1] for s, r in each), "claimed": wrong}

    return _simulated("ranking", runs, once, n=n, cell=f"{rates}, ties {tied:.0%}", rate=0.5)


def several(systems: int, n: int, tied: float, rng: np.random.Generator, runs: int) -> Row:
    """Systems that all equal their baseline: whether one is said to be better."""

    def once() -> Row:
        claims = of_systems(_drawn(rng, (systems, n), 0.5, tied))
        return {"claimed": any(claim in ("candidate", "baseline") for claim, _ in claims)}

    return _simulated("several systems", runs, once, n=n, cell=f"{systems} systems, ties {tied:.0%}", rate=0.5)


def seeds(n: int, deviation: float, easy: float, rate: float, rng: np.random.Generator, runs: int) -> Row:
    """Three trainings; the deviations of the seeds' and of the prompts' true rates, in points."""

    def once() -> Row:
        prompts = rng.normal(0, easy / 100, size=n)
        chances = rate + rng.normal(0, deviation / 100, size=(3, 1)) + prompts - prompts.mean()
        return _of_claim(of_seeds((rng.random((3, n)) < chances).astype(float)), rate)

    return _simulated("seeds", runs, once, n=n, cell=f"SD {deviation:g}, prompts' SD {easy:g}", rate=rate)


def labels(count: int, rate: float, accuracy: float, rng: np.random.Generator, runs: int) -> Row:
    """People's labels on some of 805 pairs, and a judge of some accuracy on all."""

    def once() -> Row:
        people = (rng.random(805) < rate).astype(float)
        judge = np.where(rng.random(805) < accuracy, people, 1 - people)
        low, high = prediction_powered(people[:count], judge[:count], judge[count:]).interval
        return {"coverage": low <= 100 * rate <= high, "width": high - low}

    return _simulated("labels", runs, once, n=count, cell=f"judge right in {accuracy:.0%}", rate=rate)


def paired_rows(n: int, differ: float, share: float, rng: np.random.Generator, runs: int) -> Row:
    """Rows on which one of two systems alone is right, in a share of those the first; the rate is that share."""

    def once() -> Row:
        signs = rng.choice([1.0, -1.0, 0.0], size=n, p=[differ * share, differ * (1 - share), 1 - differ])
        scores = dict(enumerate((1 + signs) / 2))
        _, _, interval, p = paired_difference(scores, {row: 1 - score for row, score in scores.items()})
        truth, (low, high) = 100 * differ * (2 * share - 1), interval or (None, None)
        if low is None or high is None:
            return {"claimed": False, "coverage": None, "width": None}
        covered = low - 1e-9 <= truth <= high + 1e-9
        return {"claimed": p is not None and p <= ALPHA, "coverage": covered, "width": high - low}

    return _simulated("paired rows", runs, once, n=n, cell=f"{differ:.0%} differ", rate=share)


def equal_length(n: int, rate: float, kind: str, rng: np.random.Generator, runs: int) -> Row:
    """A judge that likes longer answers, which the candidate's are; the rate is that at equal length."""

    def once() -> Row:
        difference = rng.normal(150, 400, size=n).astype(np.int64)
        chance = 1 / (1 + np.exp(-(math.log(rate / (1 - rate)) + 1.5 * np.tanh(difference / 400))))
        scores = np.where(rng.random(n) < chance, 1.0, 0.0)
        if kind == "graded":
            scores = np.asarray(rng.beta(chance / 2, (1 - chance) / 2))
        low, high = equal_style(Scored(scores), length_term(difference), ["length"])[0].interval or (None, None)
        if low is None or high is None:
            return {"coverage": None, "width": None}
        return {"coverage": low <= 100 * rate <= high, "width": high - low}

    return _simulated("equal length", runs, once, n=n, cell=kind, rate=rate)


def rows(small: bool, only: str | None = None) -> Iterator[Row]:
    """Every cell of the grid."""
    rng, factor = np.random.default_rng(0), 1 if small else 8
    sizes = SMALL_SIZES if small else SIZES
    exact = {"counted": counted_cells, "both orders": both_orders_cells, "panel": panel_cells}
    for n in sizes:
        for headline, cells in exact.items():
            if only in (None, headline):
                yield from enumerated(headline, n, cells())
    if only in (None, "missing"):
        kinds = itertools.product((50, 805), (0.5, 0.6), (True, False), (0.1,) if small else (0.02, 0.1, 0.3))
        for n, rate, least, share_missing in kinds:
            yield missing(n, rate, least, share_missing, rng, 250 * factor)
    if only in (None, "weighted"):
        for n, runs in ((8, 50), (20, 50)) if small else ((3, 1000), (8, 1000), (20, 1000), (50, 1000), (805, 1000)):
            yield from weighted(n, rng, runs)
    if only in (None, "stopped early"):
        early = itertools.product((50, 805), (0.5, 0.52, 0.55, 0.65), (0.0, 0.3))
        for n, rate, tied in [(50, 0.5, 0.0)] if small else early:
            yield stopped(n, rate, tied, rng, 100 * factor)
    if only in (None, "ranking"):
        systems = ((0.5, 0.7, 0.9), (0.98,) * 3, (0.95,) * 5, (0.8, 0.8, 0.85, 0.9, 0.9), (0.5,) * 6)
        for n, rates, tied in itertools.product(
            (20,) if small else (5, 20, 50, 200), systems[: 2 * factor], (0.0, 0.3)
        ):
            yield ranking(n, rates, tied, rng, 50 * factor)
    if only in (None, "several systems"):
        for count, n, tied in itertools.product((2, 6), (50,) if small else (12, 50, 200), (0.0, 0.3)):
            yield several(count, n, tied, rng, 250 * factor)
    if only in (None, "seeds"):
        every = itertools.product((100, 805), (0, 1.5, 3, 4.5, 6, 10), (5, 15), (0.5, 0.55))
        for n, deviation, easy, rate in [(100, 0, 15, 0.5)] if small else every:
            yield seeds(n, deviation, easy, rate, rng, 100 * factor if rate > 0.5 else 250 * factor)
    if only in (None, "labels"):
        for count, rate, accuracy in itertools.product((30,) if small else (20, 30, 100), RATES[::2], (0.7, 0.9)):
            yield labels(count, rate, accuracy, rng, 125 * factor)
    if only in (None, "paired rows"):
        for n, differ in itertools.product((20,) if small else (20, 50, 200), (0.02, 0.05, 0.1, 0.3)):
            for share in (0.5, 0.7, 0.9, 1.0):
                yield paired_rows(n, differ, share, rng, 50 * factor)
    if only in (None, "equal length"):
        for n, rate in itertools.product((20,) if small else (20, 50, 200), (0.5, 0.8, 0.95)):
            for kind in ("counted", "graded"):
                yield equal_length(n, rate, kind, rng, 50 * factor)


def missed(found: list[Row]) -> list[str]:
    """The cells that miss a target, by more than three standard errors where they are simulated."""
    problems = []
    for row in found:
        least, most = TARGETS[row["headline"]]
        if row["n"] < 20:
            least = min(least, 0.9)
        cell = {name: row[name] for name in ("n", "rate", "cell") if name in row}

        def doubt(share: float, row: Row = row) -> float:
            return 3 * math.sqrt(share * (1 - share) / row["runs"]) if "runs" in row else 1e-9

        if row.get("coverage", 1.0) < least - doubt(least):
            problems.append(f"{row['headline']}: coverage {row['coverage']:.1%} < {least:.0%} at {cell}")
        if math.isclose(row["rate"], 0.5) and row.get("claimed", 0.0) > most + doubt(most):
            problems.append(f"{row['headline']}: false claims {row['claimed']:.1%} > {most:.0%} at {cell}")
        if (allowed := POWER.get(row["headline"])) and row["tested"] - row["claimed"] > allowed + doubt(allowed):
            problems.append(f"{row['headline']}: power {row['claimed']:.1%}, sign test {row['tested']:.1%} at {cell}")
    every = [row["coverage"] for row in found if row["headline"] == "counted" and row["n"] >= 20]
    if every and not MEAN[0] <= np.mean(every) <= MEAN[1]:
        problems.append(f"counted: mean coverage {np.mean(every):.1%} of the cells with n >= 20")
    return problems


def worst(found: list[Row]) -> Iterator[str]:
    """For each headline: the lowest coverage, the most false claims (at a rate of 50), the most power lost."""
    for headline in dict.fromkeys(row["headline"] for row in found):
        for part, fewer in (("n < 20", True), ("n >= 20", False)):
            every = [row for row in found if row["headline"] == headline and (row["n"] < 20) == fewer]
            covered = [row for row in every if "coverage" in row]
            wrong = [row for row in every if "claimed" in row and math.isclose(row["rate"], 0.5)]
            lost = [row | {"lost": row["tested"] - row["claimed"]} for row in every if "tested" in row]
            if covered:
                mean = np.mean([row["coverage"] for row in covered])
                least = _at(min(covered, key=lambda row: row["coverage"]), "coverage")
                yield f"{headline}, {part}: least {least}; mean {mean:.1%}"
            if wrong:
                yield f"{headline}, {part}: most {_at(max(wrong, key=lambda row: row['claimed']), 'claimed')}"
            if lost:
                yield f"{headline}, {part}: power {_at(max(lost, key=lambda row: row['lost']), 'lost')}"


def _at(row: Row, figure: str) -> str:
    runs = f", {row['runs']} runs" if "runs" in row else ""
    return f"{figure} {row[figure]:.1%} at n = {row['n']}, {row['cell']}{runs}"


def files_agree(headline: str, runs: int) -> bool:
    """Whether random experiments go the whole way to the same claim."""
    rng, same = np.random.default_rng(1), 0
    for _ in range(runs):
        with tempfile.TemporaryDirectory() as folder:
            same += whole_way(headline, Path(folder), rng)
    print(f"{headline}: {same} of {runs} experiments have the same claim and interval in report.json")
    return same == runs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="the grid of the slow tests")
    parser.add_argument("--headline", choices=TARGETS, help="this one only")
    parser.add_argument("--no-write", action="store_true", help="print only")
    arguments = parser.parse_args()
    started = time.perf_counter()
    headlines = [arguments.headline] if arguments.headline else list(TARGETS)
    problems = [
        f"{headline}: another claim in report.json"
        for headline in headlines
        if not files_agree(headline, 2 if arguments.small else 20)
    ]
    found = list(rows(arguments.small, arguments.headline))
    for row in found:
        if "runs" in row:
            print({name: round(value, 4) if isinstance(value, float) else value for name, value in row.items()})
    print("\n".join(worst(found)))
    problems += missed(found)
    print("\n".join(f"MISSED: {problem}" for problem in problems) or "every target is reached")
    print(f"{time.perf_counter() - started:.0f} seconds")
    if not arguments.no_write:
        write_results("claims", found)
    if problems:
        sys.exit(1)


if __name__ == "__main__":
    main()
