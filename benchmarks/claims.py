"""Does every interval, p-value and finding hold, of report.json and of `instruct compare`?

    python -m benchmarks.claims [--small] [--world NAME] [--runs N]

**Enumerated:** every outcome of n counted verdicts with its probability, in every cell of rates and shares of ties that
go together (ties <= 2 (1 - rate)), of one judge, and of a judge that names the answer shown first in a share of the
pairs, asked in both orders. Coverage, false claims and power are exact.

**Simulated:** an experiment draws verdicts, answers, labels, values of texts or logs from a world whose truth is known
(benchmarks/worlds.py), and walks the report of them: every node that states uncertainty is found by its name and scored
against the truth that TARGETS names for its path, such as `judges[].comparisons[].length.term.interval`. A path without
a target fails, so that no figure enters the report unsimulated. Intervals have to cover the truth in 93 % of the
experiments; of p-values of true null hypotheses at most 5 % may be 0.05 or less; of the corrected ones and the findings
of a family, the same holds for any of them, and for sentences that infer something (SENTENCES). A standard error may be
at most a tenth below the error that is made. A cell that misses is run again with other seeds and ten times the runs,
which decide.

Exits with 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import itertools
import math
import re
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

from benchmarks.harness import write_results
from benchmarks.worlds import LOGS, RUNS, Made, Node, Rng, Truth, constant, label
from instruct.analysis.outcomes import POINTS, PairResult
from instruct.analysis.results import WIN_RATE, Claim
from instruct.scores.claims import ALPHA, claim_of, settle
from instruct.scores.samples import match

LEAST_COVERAGE, MOST_FALSE = 0.93, 0.05
LEAST_RATIO = 0.9  # of a standard error to the error that is made
PROMISED = 0.81  # 80 % of power, or 3 points more or less than this
# Names of values that state uncertainty.
STATES = re.compile(r"(.*_)?(interval(_seeds|_prompts)?|p)|finding|standard_error|bounds|excluding|simultaneous")
CLAIMED = ("candidate", "baseline")
# Names of sentences that infer or warn, and what these are about: the truth that must not be a null hypothesis where
# one is printed, or None for those that state what was counted.
SAYS = ("text", "note")
SENTENCES = {
    r"the verdicts follow length: ": "slope",
    r"people's labels contradict ": "contradiction",
    r"\d+ of [\d,]+ pairs have no verdict |\d+ verdicts? for one of two identical ": None,
    r"[\d.]+ % power, |all verdicts are the same|not estimable: |too few pairs differ in |too few: \d+ pairs? ": None,
    r"no length-controlled rate: |the answers of \S+ are \d+ % longer than those of |every pair |no pair ": None,
    r"only [\d.]+ of \d+ labels for |\S+ has no matched-temperature control: |PARTIAL: |fewer than \d+ ": None,
    r"\S+ against \S+ seed \d+ has a win rate of ": None,
}

# What each path is about: the name of a truth of the world. A path under `claims` or `measurements` is of their family
# or part; `{}` stands for a name, such as a policy's; `main` are the claims of `instruct compare`.
TARGETS = {
    "judges[].comparisons[].claim": "verdicts",
    "judges[].comparisons[].claim.standard_error": "pairs with a verdict",
    "judges[].comparisons[].claim.counts.bounds": "all verdicts",
    "judges[].comparisons[].strict": "verdicts",
    "judges[].comparisons[].strict.standard_error": "pairs with a verdict",
    "judges[].comparisons[].strict.counts.bounds": "all verdicts",
    "judges[].comparisons[].length.term": "slope of a term",
    "judges[].comparisons[].style.score_interval": "mean style",
    "judges[].comparisons[].style.terms[]": "slope of a term",
    "judges[].comparisons[].parts[].interval": "pairs with a verdict",
    "judges[].comparisons[].with_labels.claim": "people",
    "judges[].comparisons[].with_labels.labels_only_interval": "people",
    "judges[].human_agreement{}.accuracy_interval": "accuracy",
    "judges[].human_agreement{}.kappa_interval": "kappa",
    "claims[verdicts]": "verdicts",
    "claims[verdicts].interval_seeds": "verdicts of these prompts",
    "claims[verdicts].interval_prompts": "verdicts of these seeds",
    "claims[through]": "difference of verdicts",
    "claims[texts]": "texts",
    "claims[objectives]": "objectives",
    "measurements[texts].interval": "mean of texts",
    "main[]": "difference of logs",
    "main[].standard_error": "difference of rows or of clusters of equal size",
}
# What is not simulated here, and why.
ELSEWHERE = {
    "judges[].comparisons[].with_labels.claim.counts.bounds": "not there: the counts are the comparison's",
    "judges[].comparisons[].with_labels.claim.standard_error": "that of the estimate, whose interval is simulated",
    "judges[].human_agreement{}.yardstick_p": "of a judge's card: `instruct validate` measured it",
}


# -------------------------------------------------------------------------------------------------------- simulated


def walk(node: Node, path: str = "", above: Sequence[Node] = ()) -> Iterator[tuple[str, str, Any, list[Node]]]:
    """Everything in a report that states uncertainty: its path, its name, its value and the nodes that it is in."""
    nodes = [*above, node]
    for name, value in node.items():
        place = f"{path}.{name}" if path else name
        if STATES.fullmatch(name) or name in SAYS:
            if value is not None:
                yield path, name, value, nodes
        elif isinstance(value, list):
            for element in value:
                if isinstance(element, dict):
                    kind = _kind(element) if name in ("claims", "measurements") else ""
                    yield from walk(element, f"{place}[{kind}]", nodes)
        elif isinstance(value, dict):
            if name == "human_agreement":  # by names that are not of the schema
                for element in value.values():
                    if isinstance(element, dict):
                        yield from walk(element, f"{place}{{}}", nodes)
            else:
                yield from walk(value, place, nodes)


def _kind(element: Node) -> str:
    """The family of a claim without the judge that it names, or the part of a measurement; of texts with the metric."""
    kind = re.split(r" of |/", str(element.get("family", element.get("part", ""))))[0]
    return f"{kind}:{element.get('metric', element.get('measure'))}" if kind == "texts" else kind


def target(path: str, name: str) -> str | None:
    """The truth that a value is about; a claim's interval, p and finding are about the same."""
    path = re.sub(r"\.(params|details)\b|:\w+", "", path)
    return TARGETS.get(f"{path}.{name}", TARGETS.get(path))


@dataclass
class Cell:
    """What came of the experiments of one world at one path: of each experiment, the share that holds, or the squares
    of a standard error and of the error that was made."""

    shares: list[float] = field(default_factory=list)
    made: list[float] = field(default_factory=list)

    @property
    def share(self) -> float:
        """The mean over experiments."""
        return float(np.mean(self.shares))

    @property
    def ratio(self) -> float:
        """A standard error, in root mean square over experiments, as a share of the errors that were made."""
        made = float(np.mean(self.made))
        return math.sqrt(self.share / made) if made else 1.0

    @property
    def error(self) -> float:
        """The Monte Carlo standard error of the mean, at least that of a share at the target."""
        return max(float(np.std(self.shares)), 0.2) / math.sqrt(len(self.shares))


Cells = dict[tuple[str, str], Cell]  # by path and what is counted


def score(report: Node, truths: Mapping[str, Truth]) -> dict[tuple[str, str], list[tuple[float, float]]]:
    """What a report states, by path and kind: whether it holds, and 0; or the squares of a standard error and of the
    error that was made.

    Raises:
        LookupError: a path without a target, or a world without that truth.
    """
    results: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    any_of = {("sentences", f"false: {about}"): False for about in SENTENCES.values() if about}
    for path, name, value, nodes in walk(report):
        if name in SAYS:
            about = about_sentence(value)
            if about and (truth := truths.get(about, constant(0.0))(nodes)) is not None:
                any_of["sentences", f"false: {about}"] = truth == 0.0
            continue
        about = target(path, name)
        if about is None:
            raise LookupError(f"{path}.{name}: no target")
        if about == "pairs with a verdict":  # those of all, unless verdicts are missing for a reason
            about = about if about in truths else "verdicts"
        if about not in truths:
            raise LookupError(f"{path}.{name}: this world has no truth about {about!r}")
        claim = next((node for node in reversed(nodes) if "test" in node), nodes[-1])
        truth = truths[about]([*nodes, claim] if path.endswith(".params") else nodes)
        if truth is None:
            continue
        place = f"{path}.{name}"
        gain = truth - _null(about)
        no_effect = abs(gain) < 1e-9
        if name == "p" and "excluding" in nodes[-1]:  # of all experiments: it is stated where no difference is shown
            beyond = max((abs(end - _null(about)) for end in nodes[-1]["excluding"] or ()), default=math.inf)
            key = (f"{path}.excluding", "false")
            any_of[key] = any_of.get(key, False) or abs(gain) > beyond + 1e-5
        if "interval" in name or name == "bounds":
            results[place, "covers"].append((_covers(value, truth), 0.0))
            results[place, "width"].append((value[1] - value[0], 0.0))
        elif name == "standard_error":
            results[place, "error"].append((value**2, (float(nodes[-1]["value"]) - truth) ** 2))
        elif name == "finding":
            better = gain if nodes[-1]["better"] == "higher" else -gain
            right = (better if value == "candidate" else -better) > 1e-9
            any_of[place, "false"] = any_of.get((place, "false"), False) or (value in CLAIMED and not right)
            if not no_effect:
                kind = "promised" if "promised" in truths else "found"
                any_of[place, kind] = any_of.get((place, kind), False) or (value in CLAIMED and right)
        elif name == "simultaneous":
            any_of[place, "false"] = any_of.get((place, "false"), False) or not _covers(value, truth)
        elif no_effect and name == "adjusted_p":
            any_of[place, "false"] = any_of.get((place, "false"), False) or value <= ALPHA
        elif no_effect and name != "excluding":
            results[place, "false"].append((value <= ALPHA, 0.0))
    for key, holds in any_of.items():
        results[key].append((holds, 0.0))
    return results


def _covers(interval: Sequence[float], truth: float) -> bool:
    return interval[0] - 1e-5 <= truth <= interval[1] + 1e-5


def about_sentence(sentence: str) -> str | None:
    """What a sentence infers; None: nothing.

    Raises:
        LookupError: SENTENCES does not have it.
    """
    for pattern, about in SENTENCES.items():
        if re.match(pattern, sentence):
            return about
    raise LookupError(f"a sentence that SENTENCES does not have: {sentence}")


def _null(about: str) -> float:
    is_rate = about == "people" or ("verdicts" in about and not about.startswith("difference"))
    return 50.0 if is_rate else 0.0


def run_cell(world: Callable[[Rng], Made], runs: int, seed: int) -> Cells:
    """Experiments of one world."""
    cells: Cells = defaultdict(Cell)
    rng = np.random.default_rng(seed)
    for _ in range(runs):
        made = world(rng)
        for key, scored in score(made.report(), made.truths).items():
            share, error = np.mean(scored, axis=0)
            cells[key].shares.append(float(share))
            cells[key].made.append(float(error))
    return cells


def misses(cells: Cells, tests: int) -> list[tuple[str, str]]:
    """The cells that miss their target by more than chance, at 5 % over all `tests`."""
    z = NormalDist().inv_cdf(1 - 0.05 / tests)
    missed = []
    for key, cell in cells.items():
        if key[1] == "error":
            by, error = LEAST_RATIO - cell.ratio, cell.ratio * math.sqrt(2 / len(cell.shares))
        elif key[1] == "promised":
            by, error = abs(cell.share - PROMISED) - 0.03, cell.error
        else:
            by = LEAST_COVERAGE - cell.share if key[1] == "covers" else cell.share - MOST_FALSE
            error = cell.error
        if key[1] not in ("found", "width") and by > z * error:
            missed.append(key)
    return missed


def simulated(name: str, world: Callable[[Rng], Made], runs: int, tests: int, *, again: bool) -> Iterator[Node]:
    """The rows of a world; `again`: what misses is decided by ten times the runs."""
    cells = run_cell(world, runs, 1)
    doubtful = misses(cells, tests)
    if doubtful and again:
        more = run_cell(world, 10 * runs, 2)
        cells |= {key: more[key] for key in doubtful if key in more}
        doubtful = misses({key: cells[key] for key in doubtful}, len(doubtful))
    for (path, kind), cell in cells.items():
        share = cell.ratio if kind == "error" else cell.share
        yield {
            "path": path, "kind": kind, "share": round(share, 4), "cell": f"{name}: {label(world)}",
            "runs": len(cell.shares), "missed": (path, kind) in doubtful,
        }  # fmt: skip


# ------------------------------------------------------------------------------------------------------- enumerated

SIZES = (3, 5, 8, 12, 20, 35, 50, 100)
RATES = (0.5, 0.52, 0.55, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98)
TIES = (0.0, 0.1, 0.3, 0.6, 0.9)
BIASES = (0.0, 0.2, 0.5, 0.8)  # shares of the pairs in which the two orders contradict, which is a tie


def counted_claim(*counts: int) -> Claim:
    """The claim of counted verdicts."""
    pairs = [
        PairResult(f"{outcome} {number}", "", outcome, POINTS[outcome])
        for outcome, count in zip(POINTS, counts, strict=True)
        for number in range(count)
    ]
    claim = claim_of(match(pairs), measure=WIN_RATE, candidate="new", baseline="base", family="verdicts")
    settle([claim])
    return claim


def enumerated(n: int) -> Iterator[Node]:
    """Exact coverage, false claims, and power that is lost against the sign test, of n pairs."""
    outcomes = [(win, tie, n - win - tie) for win in range(n + 1) for tie in range(n + 1 - win)]
    counts = np.array(outcomes).T
    made = [counted_claim(*each) for each in outcomes]
    ends = np.array([claim.interval for claim in made])
    claimed = np.array([claim.finding in CLAIMED for claim in made])
    tested = np.array([bool(win + loss) and binomtest(win, win + loss).pvalue <= ALPHA for win, _, loss in outcomes])
    ways = np.array([math.lgamma(n + 1) - sum(math.lgamma(k + 1) for k in each) for each in counts.T])
    for bias, rate, tied in itertools.product(BIASES, RATES, TIES):
        chances = [(1 - bias) * (rate - tied / 2), bias + (1 - bias) * tied, (1 - bias) * (1 - rate - tied / 2)]
        if min(chances) < -1e-12:
            continue
        chance = np.exp(ways + sum(_log(p, k) for p, k in zip(chances, counts, strict=True)))
        won = 100 * (chances[0] + chances[1] / 2)
        covered = (ends[:, 0] <= won + 1e-6) & (won - 1e-6 <= ends[:, 1])
        kinds = {"covers": covered, "lost": tested & ~claimed} | ({"false": claimed} if rate == 0.5 else {})
        limits = {"covers": -(0.92 if n >= 20 else 0.9), "lost": 0.0, "false": MOST_FALSE}
        for kind, counted in kinds.items():
            share = float(chance @ counted)
            yield {
                "path": f"{'both orders' if bias else 'counted'}, n = {n}", "kind": kind, "share": round(share, 4),
                "cell": f"rate {rate:.0%}, ties {tied:.0%}, bias {bias:.0%}", "runs": None,
                "missed": (-share if kind == "covers" else share) > limits[kind] + 1e-9,
            }  # fmt: skip


def _log(chance: float, count: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.where(count > 0, -np.inf, 0.0) if chance <= 1e-12 else np.asarray(count * math.log(chance))


# ------------------------------------------------------------------------------------------------------ the program


def table(rows: list[Node]) -> Iterator[str]:
    """By path, the lowest coverage and the most false claims over the cells, and where."""
    yield "| path | least coverage | mean | most false | power | least ratio |"
    yield "|---|---|---|---|---|---|"
    for path in dict.fromkeys(row["path"] for row in rows):
        found: dict[str, list[Node]] = defaultdict(list)
        for row in rows:
            if row["path"] == path:
                found[row["kind"].partition(":")[0]].append(row)
        covers, power = ([row["share"] for row in found[kind]] for kind in ("covers", "found"))
        cells = [
            _worst(found["covers"], min),
            f"{np.mean(covers):.1%}" if covers else "–",
            _worst(found["false"], max),
            f"{min(power):.0%} to {max(power):.0%}" if power else "–",
            _worst(found["error"], min),
        ]
        yield f"| `{path}` | {' | '.join(cells)} |"


def _worst(rows: list[Node], of: Callable[..., Node]) -> str:
    if not rows:
        return "–"
    row = of(rows, key=lambda row: row["share"])
    return f"{row['share']:.1%} ({row['cell']})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="few sizes, and few runs of some cells of every world")
    parser.add_argument("--world", choices=[*RUNS, *LOGS], help="simulate this one only")
    parser.add_argument("--runs", type=int, help="experiments of each cell")
    parser.add_argument("--no-write", action="store_true", help="print only")
    arguments = parser.parse_args()
    started = time.perf_counter()
    rows: list[Node] = []
    if not arguments.world:
        rows += [row for n in (SIZES[2:5:2] if arguments.small else SIZES) for row in enumerated(n)]
    step = 8 if arguments.small else 1
    families = {name: of[::step] for name, of in (RUNS | LOGS).items() if arguments.world in (None, name)}
    worlds = [(name, world) for name, of in families.items() for world in of]
    runs = arguments.runs or (20 if arguments.small else 300)
    for name, world in worlds:
        rows += simulated(name, world, runs, 40 * len(worlds), again=not arguments.small)
    missed = [row for row in rows if row["missed"]]
    print("\n".join(table(rows)))
    print("\n".join(f"MISSED: {row}" for row in missed) or "every target is reached")
    print(f"{time.perf_counter() - started:.0f} seconds")
    if not arguments.no_write:
        write_results("claims", rows)
    sys.exit(bool(missed))


if __name__ == "__main__":
    main()
