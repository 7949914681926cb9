"""Does every interval, p-value and finding of report.json hold?

    python -m benchmarks.report_claims [--small] [--world NAME] [--runs N]

An experiment draws verdicts, answers, labels or values of texts from a world whose truth is known, builds the report of
them, and walks it: every node that states uncertainty is found by its name and scored against the truth that TARGETS
names for its path, such as `judges[].comparisons[].length.term.interval`. A path without a target fails, so that no
figure enters the report unsimulated. Intervals have to cover the truth in 93 % of the experiments; of p-values of true
null hypotheses at most 5 % may be 0.05 or less; of the corrected ones and the findings of a family, the same holds for
any of them, and for sentences that infer something (SENTENCES). A standard error may be at most a tenth below the error
that is made. A cell that misses is run again with other seeds and ten times the runs, which decide. Exits with 1 if one
misses.

The worlds know nothing of the package's statistics, but for the rule that stops a judge early: they draw with numpy
alone, and their truths are their parameters.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import write_results
from instruct.data.prompts import conversations
from instruct.judging.comparison import ComparisonKey
from instruct.judging.interchange.labels import LabelScores
from instruct.judging.store import Judgment
from instruct.reporting.build import build
from instruct.reporting.read import Judged, RunContents, SystemAnswers
from instruct.reporting.report import Report
from instruct.run.directory import RunDirectory
from instruct.run.measurements import Details, Measurement, Metrics

Rng = np.random.Generator
Scores = NDArray[np.float64]
Node = dict[str, Any]
# The true value of what a node states, which is the last of these, below the others; None: there is none.
Truth = Callable[[list[Node]], "float | None"]

LEAST_COVERAGE, MOST_FALSE = 0.93, 0.05
LEAST_RATIO = 0.9  # of a standard error to the error that is made
# Names of values that state uncertainty.
STATES = re.compile(r"(.*_)?(interval|p)|adjusted_p|finding|standard_error|bounds|excluding")
CLAIMED = ("candidate", "baseline")
# Names of sentences that infer or warn, and what these are about: the truth that must not be a null hypothesis where
# one is printed, or None for those that state what was counted.
SAYS = ("text", "note", "leads")
SENTENCES = {
    r"the verdicts follow length: ": "slope",
    r"people's labels contradict ": "contradiction",
    r"Preferred on more prompts: |\d+ of [\d,]+ pairs have no verdict |\d+ verdicts? for one of two identical ": None,
    r"[\d.]+ % power, |all verdicts are the same|not estimable: |too few pairs differ in |extrapolated: ": None,
    r"the length difference separates |the regression does not converge|fewer than \d+ |every pair |no pair ": None,
    r"no length-controlled rate: |the answers of \S+ are \d+ % longer than those of ": None,
    r"only [\d.]+ of \d+ labels for |\S+ has no matched-temperature control: |PARTIAL: ": None,
    r"\S+ against \S+ seed \d+ has a win rate of ": None,
    r"too few: \d+ pairs? ": None,
    r"\S+ was made the primary outcome after |there is no claim about the primary outcome ": None,
}

# What each path is about: the name of a truth of the world. A path under `claims` or `measurements` is of their family
# or part; `{}` stands for a name, such as a policy's.
TARGETS = {
    "judges[].comparisons[].policies{}.claim": "verdicts",
    "judges[].comparisons[].policies{}.standard_error": "complete cases",
    "judges[].comparisons[].policies{}.claim.sign_p": "complete cases",
    "judges[].comparisons[].policies{}.claim.permutation_p": "complete cases",
    "judges[].comparisons[].policies{}.preferred": "preferences",
    "judges[].comparisons[].policies{}.preferred.complete_case": "preferences",
    "judges[].comparisons[].policies{}.bounds": "all verdicts",
    "judges[].comparisons[].length.term": "slope of a term",
    "judges[].comparisons[].style.score_interval": "mean style",
    "judges[].comparisons[].style.terms[]": "slope of a term",
    "judges[].comparisons[].parts[].interval": "complete cases",
    "judges[].comparisons[].with_labels.claim": "people",
    "judges[].comparisons[].with_labels.claim.complete_case": "people",
    "judges[].comparisons[].with_labels.labels_only_interval": "people",
    "judges[].human_agreement{}.accuracy_interval": "accuracy",
    "judges[].human_agreement{}.kappa_interval": "kappa",
    "judges[].comparisons[].policies{}.claim.complete_case": "complete cases",
    "claims[verdicts].complete_case": "complete cases",
    "claims[verdicts].interval_seeds": "verdicts of these prompts",
    "claims[verdicts].interval_prompts": "verdicts of these seeds",
    "claims[verdicts]": "verdicts",
    "claims[]": "difference of verdicts",
    "claims[through]": "difference of verdicts",
    "claims[texts]": "texts",
    "claims[objectives]": "objectives",
    "measurements[texts].interval": "mean of texts",
    "measurements[tasks].standard_error": "mean of a task",
    "measurements[lm_eval].standard_error": "mean of a task",
}


# What is not simulated here, and why.
ELSEWHERE = {
    "judges[].comparisons[].length_control.standard_error": "AlpacaEval's own estimate, equal to its leaderboard's",
    "judges[].human_agreement{}.yardstick_p": "of a judge's card: `instruct validate` measured it",
}


@dataclass
class World:
    """An experiment: what a run holds, and the truths of what its report states, by name."""

    contents: RunContents
    truths: Mapping[str, Truth]


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
            if name in ("policies", "human_agreement"):  # by names that are not of the schema
                for element in value.values():
                    if isinstance(element, dict):
                        yield from walk(element, f"{place}{{}}", nodes)
            else:
                yield from walk(value, place, nodes)


def _kind(element: Node) -> str:
    """The family of a claim without the judge that it names, or the part of a measurement without the metric."""
    return re.split(r" of |/", str(element.get("family", element.get("part", ""))))[0]


def target(path: str, name: str) -> str | None:
    """The truth that a value is about; a claim's interval, p and finding are about the same."""
    path = re.sub(r"\.(params|details)\b", "", path)
    return TARGETS.get(f"{path}.{name}", TARGETS.get(path))


# ---------------------------------------------------------------------------------------------------------- scoring


@dataclass
class Cell:
    """What came of the experiments of one world at one path: of each experiment, the share that holds."""

    shares: list[float] = field(default_factory=list)
    widths: list[float] = field(default_factory=list)

    @property
    def share(self) -> float:
        """The mean over experiments."""
        return float(np.mean(self.shares))

    @property
    def ratio(self) -> float:
        """A standard error, in root mean square over experiments, as a share of the errors that were made."""
        made = float(np.mean(self.widths))
        return math.sqrt(self.share / made) if made else 1.0

    @property
    def error(self) -> float:
        """The Monte Carlo standard error of the mean, at least that of a share at the target."""
        n = len(self.shares)
        return max(float(np.std(self.shares)), 0.2) / math.sqrt(n)


Cells = dict[tuple[str, str], Cell]  # by path and what is counted


def score(report: Node, truths: Mapping[str, Truth]) -> dict[tuple[str, str], list[tuple[float, float]]]:
    """What a report states, by path and kind: whether it holds, and an interval's width; or the squares of a standard
    error and of the error that was made.

    Raises:
        LookupError: a path without a target, or a world without that truth.
    """
    results: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    false = {("sentences", f"false: {about}"): False for about in SENTENCES.values() if about}
    for path, name, value, nodes in walk(report):
        if name in SAYS:
            about = about_sentence(value)
            if about and (truth := truths.get(about, constant(0.0))(nodes)) is not None:
                false["sentences", f"false: {about}"] = truth == 0.0
            continue
        about = target(path, name)
        if about is None:
            raise LookupError(f"{path}.{name}: no target")
        if about == "complete cases":  # those of all, unless verdicts are missing for a reason
            about = about if about in truths else "verdicts"
        if about not in truths:
            raise LookupError(f"{path}.{name}: this world has no truth about {about!r}")
        truth = truths[about](nodes)
        if truth is None:
            continue
        claim = next((node for node in reversed(nodes) if "test" in node), nodes[-1])
        place = f"{path}.{name}" + " (primary)" * (claim.get("primary") is True)
        null = _null(about)
        no_effect = abs(truth - null) < 1e-9
        if name == "p" and "excluding" in nodes[-1]:  # of all experiments: it is stated where no difference is shown
            beyond = max((abs(end - null) for end in nodes[-1]["excluding"] or ()), default=math.inf)
            results[f"{path}.excluding", "false"].append((abs(truth - null) > beyond + 1e-5, 0.0))
        if name.endswith("interval") or name == "bounds":
            low, high = value
            results[place, "covers"].append((low - 1e-5 <= truth <= high + 1e-5, high - low))
        elif name == "standard_error":
            middle = float(nodes[-1]["win_rate"] if "win_rate" in nodes[-1] else nodes[-2]["value"])
            results[place, "error"].append((value**2, (middle - truth) ** 2))
        elif name == "finding":
            better = truth - null if nodes[-1]["better"] == "higher" else null - truth
            wrong = value in CLAIMED and (better if value == "candidate" else -better) <= 1e-9
            false[place, "false"] = false.get((place, "false"), False) or wrong
        elif no_effect and name == "adjusted_p":
            false[place, "false"] = false.get((place, "false"), False) or value <= 0.05
        elif no_effect and name != "excluding":
            results[place, "false"].append((value <= 0.05, 0.0))
    for key, wrong in false.items():
        results[key].append((wrong, 0.0))
    return results


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
    is_rate = about in ("preferences", "people") or ("verdicts" in about and not about.startswith("difference"))
    return 50.0 if is_rate else 0.0


def run_cell(world: Callable[[Rng], World], runs: int, seed: int) -> Cells:
    """Experiments of one world."""
    cells: Cells = defaultdict(Cell)
    rng = np.random.default_rng(seed)
    for _ in range(runs):
        made = world(rng)
        report = Report.of(build(made.contents)).model_dump(mode="json")
        for key, scored in score(report, made.truths).items():
            cells[key].shares.append(float(np.mean([holds for holds, _ in scored])))
            cells[key].widths.append(float(np.mean([width for _, width in scored])))
    return cells


def misses(cells: Cells, tests: int) -> list[tuple[str, str]]:
    """The cells that miss their target by more than chance, at 5 % over all `tests`."""
    z = NormalDist().inv_cdf(1 - 0.05 / tests)
    missed = []
    for key, cell in cells.items():
        if key[1] == "error":
            by, error = LEAST_RATIO - cell.ratio, cell.ratio * math.sqrt(2 / len(cell.shares))
        else:
            by = LEAST_COVERAGE - cell.share if key[1] == "covers" else cell.share - MOST_FALSE
            error = cell.error
        if by > z * error:
            missed.append(key)
    return missed


# ----------------------------------------------------------------------------------------------------------- worlds


def prompt(number: int) -> str:
    """The instruction of a pair."""
    return f"prompt {number}"


def contents(
    judged: Iterable[Judged] = (),
    config: Node | None = None,
    labels: LabelScores | None = None,
    measurements: Iterable[Measurement] = (),
    values: Mapping[str, Mapping[str, Mapping[str, Any]]] | None = None,
    steps: Node | None = None,
) -> RunContents:
    """What a run holds."""
    made = list(judged)
    manifest = {"steps": steps or {}, "created": "2026-01-01T00:00:00Z", "machine": {}, "versions": {}}
    answers = {
        name: side for each in made for name, side in zip(each.key[1:], each.sides, strict=True) if side is not None
    }
    return RunContents(
        run=RunDirectory(Path("/nonexistent")),
        manifest=manifest,
        config=config or {},
        judged=made,
        usd={each.key.judge: 0.0 for each in made},
        total_usd=0.0,
        answers=answers,
        labels=labels,
        metrics=Metrics(measurements=list(measurements)),
        values=values or {},
    )


def comparison(
    scores: Scores,
    names: tuple[str, str, str] = ("judge", "new", "base"),
    sides: tuple[SystemAnswers | None, SystemAnswers | None] = (None, None),
    step: Node | None = None,
    turns: int = 0,
) -> Judged:
    """Verdicts on one order, from scores with a mean of the true rate: 1, 1/2, 0, a grade, or NaN without a verdict.

    Args:
        turns: of each conversation, which consecutive pairs are.
    """
    judgments, graded = [], bool(set(np.unique(scores[~np.isnan(scores)])) - {0.0, 0.5, 1.0})
    for pair, value in enumerate(scores.tolist()):
        if math.isnan(value):
            verdict, preference = "failed", None
        else:
            verdict = "first" if value > 0.5 else "second" if value < 0.5 else "tie"
            preference = 2 - value if graded else None
        text = f"chat {pair // turns}, turn {1 + pair % turns}" if turns else prompt(pair)
        judgments.append(
            Judgment(
                **dict(zip(("judge", "candidate", "baseline"), names, strict=True)), pair=pair, instruction=text,
                dataset=f"set {pair % 2}", position="first", key=f"k{pair}", verdict=verdict, reason=None,
                preference=preference, ratings=None, trimmed=False,
            )
        )  # fmt: skip
    return Judged(
        key=ComparisonKey(*names), judgments=judgments, step=step or {}, card=None, problem="none", imported=True,
        sides=sides, replies={}, conversations=conversations([{"instruction": j.instruction} for j in judgments]),
    )  # fmt: skip


def draw(rng: Rng, means: Scores, tied: float) -> Scores:
    """Wins, ties and losses with these means; a share `tied` of what can be ties is."""
    ties = 2 * np.minimum(means, 1 - means) * tied
    u = rng.random(means.shape)
    return np.where(u < ties, 0.5, (u < ties + (means - ties / 2)).astype(float))


def constant(value: float | None) -> Truth:
    """The same truth of every node."""
    return lambda nodes: value


def judged_world(rng: Rng, n: int, level: float, slope: float, tied: float) -> World:
    """One judge that may reward length: logit E[score] = level + slope z, z the difference in length."""
    z = rng.normal(size=n)
    means = 1 / (1 + np.exp(-(level + slope * z)))
    base = rng.integers(400, 1200, size=n)
    lengths = {"base": base, "new": np.maximum(base + (200 * z).astype(int), 1)}
    sides = [
        SystemAnswers(
            [
                {"dataset": f"set {pair % 2}", "instruction": prompt(pair), "output": "x" * size, "generator": name}
                for pair, size in enumerate(lengths[name].tolist())
            ],
            "0" * 64,
        )
        for name in ("new", "base")
    ]
    scores = draw(rng, means, tied)
    grid = np.linspace(-8, 8, 4001)
    density = np.exp(-(grid**2) / 2)
    rate = 100 / (1 + np.exp(-(level + slope * grid)))
    population = float((rate * density).sum() / density.sum())

    truths = {
        "verdicts": constant(population),
        "all verdicts": constant(100 * float(scores.mean())),
        "mean style": constant(None),
        "slope": constant(0.0 if slope == 0 else 1.0),
        "slope of a term": constant(0.0 if slope == 0 else None),
    }
    return World(contents([comparison(scores, sides=(sides[0], sides[1]))]), truths)


def missing_world(rng: Rng, n: int, rate: float, share: float) -> World:
    """A judge that fails on a share of the pairs, which are losses first."""
    scores = draw(rng, np.full(n, rate), 0.0)
    fails = rng.permutation(np.flatnonzero(scores == 0))[: round(share * n)]
    known = scores.copy()
    known[fails] = np.nan
    everything = 100 * float(scores.mean())
    truths = {
        "verdicts": constant(100 * rate),
        "complete cases": constant(None),
        "all verdicts": constant(everything),
    }
    return World(contents([comparison(known)]), truths)


def graded_world(rng: Rng, n: int, kind: str) -> World:
    """Graded verdicts with a mean of 1/2, or of what the kind says; `preferred`: the share of grades above 1/2."""
    if kind == "uniform":
        scores, mean, preferred = rng.random(n), 0.5, 0.5
    elif kind == "mostly small wins":
        scores, mean, preferred = np.where(rng.random(n) < 0.8, 0.625, 0.0), 0.5, 0.8
    elif kind == "near ties":
        scores, mean, preferred = rng.beta(8, 8, size=n), 0.5, 0.5
    else:
        scores, mean, preferred = rng.beta(0.9, 0.05, size=n), 0.9 / 0.95, 0.9604
    truths = {
        "verdicts": constant(100 * mean),
        "preferences": constant(100 * preferred),
        "all verdicts": constant(100 * float(scores.mean())),
    }
    return World(contents([comparison(scores)]), truths)


def panel_world(rng: Rng, n: int, judges: int, tied: float, **stated: Any) -> World:
    """Independent judges that toss coins."""
    drawn = [comparison(draw(rng, np.full(n, 0.5), tied), (f"judge{k}", "new", "base")) for k in range(judges)]
    truths = {"verdicts": constant(50.0), "all verdicts": constant(None)}
    return World(contents(drawn, steps=in_advance(**stated) if stated else None), truths)


def in_advance(primary: str) -> Node:
    """The manifest's step of what was stated before there were results."""
    return {"stated": {"status": "done", "inputs": {"primary": primary}, "results": {"in_advance": primary}}}


def systems_world(rng: Rng, n: int, rates: tuple[float, ...], tied: float) -> World:
    """Several systems against one baseline on the same prompts, of which some are easier."""
    easy = rng.normal(0, 0.1, size=n)
    true = {f"new{k}": rate for k, rate in enumerate(rates)}
    drawn = []
    for name, rate in true.items():
        spread = min(rate, 1 - rate) * 0.9
        drawn.append(comparison(draw(rng, rate + np.clip(easy, -spread, spread), tied), ("judge", name, "base")))
    truths = {
        "verdicts": lambda nodes: (
            100 * true[nodes[-1]["candidate"]] if "candidate" in nodes[-1] else _rate_of(nodes, true)
        ),
        "all verdicts": constant(None),
        "difference of verdicts": lambda nodes: 100 * (true[nodes[-1]["candidate"]] - true[nodes[-1]["baseline"]]),
    }
    return World(contents(drawn), truths)


def _rate_of(nodes: list[Node], true: Mapping[str, float]) -> float | None:
    names = [node["candidate"] for node in nodes if "candidate" in node]
    return 100 * true[names[-1]] if names else None


def seeds_world(rng: Rng, n: int, seeds: int, deviation: float, rate: float, missing: float) -> World:
    """Trainings with several seeds, whose true rates differ, and verdicts that are missing at random."""
    easy = rng.normal(0, 0.1, size=n)
    shift = rng.normal(0, deviation / 100, size=seeds)
    means = np.clip(rate + shift[:, None] + easy[None, :], 0.0, 1.0)
    scores = (rng.random((seeds, n)) < means).astype(float)
    known = np.where(rng.random((seeds, n)) < missing, np.nan, scores)
    drawn: list[Judged] = []
    systems: Node = {}
    for k, row in enumerate(known):
        names = (f"new-seed{k}", f"base-seed{k}")
        systems |= {name: {"objective": "mle", "seed": k} for name in names}
        drawn.append(comparison(row, ("judge", *names)))
    of_seed = {f"new-seed{k}": 100 * float(rate + shift[k]) for k in range(seeds)}
    truths = {
        "verdicts": lambda nodes: of_seed.get(_candidate(nodes), 100 * rate),
        "verdicts of these prompts": constant(100 * (rate + float(easy.mean()))),
        "verdicts of these seeds": constant(100 * (rate + float(shift.mean()))),
        "all verdicts": constant(None),
        "difference of verdicts": constant(None),
    }
    return World(contents(drawn, config={"systems": systems}), truths)


def _candidate(nodes: list[Node]) -> str:
    return next((str(node["candidate"]) for node in reversed(nodes) if "candidate" in node), "")


def conversations_world(rng: Rng, n: int, rate: float) -> World:
    """Conversations of two turns, which are won or lost together."""
    spread = min(rate, 1 - rate)
    means = rate + rng.uniform(-spread, spread, size=n // 2)
    scores = draw(rng, np.repeat(means, 2), 0.2)
    truths = {
        "verdicts": constant(100 * rate),
        "all verdicts": constant(100 * float(scores.mean())),
    }
    return World(contents([comparison(scores, turns=2)]), truths)


def repeated_world(rng: Rng, n: int, times: int) -> World:
    """Prompts that stand in several rows, each with its id, and are won or lost nearly alike."""
    means = np.repeat(np.clip(rng.normal(0.5, 0.35, size=n), 0.02, 0.98), times)
    scores = draw(rng, means, 0.0)
    truths = {
        "verdicts": constant(50.0),
        "all verdicts": constant(100 * float(scores.mean())),
    }
    return World(contents([repeated(scores, times)]), truths)


def repeated(scores: Scores, times: int) -> Judged:
    """Verdicts on rows of which so many consecutive ones have the same prompt."""
    rows = [
        {"dataset": "d", "id": prompt(k), "instruction": f"request {k // times}", "output": "a", "generator": "new"}
        for k in range(len(scores))
    ]
    made = comparison(scores)
    named = [*rows, *({"instruction": judgment.instruction} for judgment in made.judgments)]
    sides = SystemAnswers(rows, "0" * 64), None
    return Judged(**{**vars(made), "sides": sides, "conversations": conversations(named)})


def labels_world(rng: Rng, n: int, count: int, rate: float, accuracy: float) -> World:
    """People's labels on some pairs, and a judge of some accuracy on all."""
    people = (rng.random(n) < rate).astype(float)
    judge = np.where(rng.random(n) < accuracy, people, 1 - people)
    labels = LabelScores({("new", "base"): {prompt(k): float(people[k]) for k in range(count)}})
    by_judge = rate * accuracy + (1 - rate) * (1 - accuracy)
    agree = rate * by_judge + (1 - rate) * (1 - by_judge)
    truths = {
        "verdicts": constant(100 * by_judge),
        "all verdicts": constant(100 * float(judge.mean())),
        "people": constant(100 * rate),
        "contradiction": constant(float((rate - 0.5) * (by_judge - 0.5) < 0)),
        "accuracy": constant(100 * accuracy),
        "kappa": constant((accuracy - agree) / (1 - agree)),
    }
    return World(contents([comparison(judge)], labels=labels), truths)


def alike(rng: Rng, n: int, times: int) -> Scores:
    """Uniform numbers of n clusters of rows, of which four in five have the same number."""
    of_cluster, of_row = np.repeat(rng.random(n), times), rng.random(n * times)
    return np.where(rng.random(n * times) < 0.8, of_cluster, of_row)


def tasks_world(rng: Rng, n: int, rate: float, differ: float, times: int = 1) -> World:
    """Two systems' answers to a task's rows, right or wrong, which differ in few; lm-eval's scores of the same.

    Args:
        times: n passages with so many rows each, whose answers are alike.
    """
    base = (alike(rng, n, times) < rate).astype(float)
    changed = alike(rng, n, times) < differ
    new = np.where(changed, (alike(rng, n, times) < 0.5).astype(float), base)
    base = np.where(changed, (alike(rng, n, times) < 0.5).astype(float), base)
    clusters = {"cluster": [str(row // times) for row in range(n * times)]} if times > 1 else {}
    measurements: list[Measurement] = []
    values: dict[str, dict[str, Any]] = {"tasks/toy": {}, "lm_eval/other": {}}
    for name, right in (("base", base), ("new", new)):
        error = float(right.reshape(n, times).mean(axis=1).std(ddof=1) / math.sqrt(n))
        about = Details(task="other", standard_error=error)
        measurements += [
            Measurement(system=name, part="tasks/toy", metric="accuracy", value=100 * float(right.mean()), n=n),
            Measurement(system=name, part="lm_eval/other", metric="acc", value=float(right.mean()), n=n, details=about),
        ]
        answers = ["a" if one else "b" for one in right]
        ids = {"id": list(range(n * times)), **clusters}
        values["tasks/toy"][name] = {**ids, "label": ["a"] * len(right), "answer": answers}
        values["lm_eval/other"][name] = {**ids, "acc": right.tolist()}
    mean = rate * (1 - differ) + 0.5 * differ
    truths = {"mean of a task": constant(mean)}
    return World(contents(measurements=measurements, values=values), truths)


def texts_world(rng: Rng, n: int, seeds: int, deviation: float, effect: float, times: int = 1) -> World:
    """Two systems' scores of each text, over trainings that differ, and nats of its tokens.

    Args:
        times: n prefixes with so many texts each, of which one system continues some better, the other the others.
    """
    text = np.repeat(rng.normal(0, 0.1, size=n), times)
    lengths = rng.integers(5, 60, size=n * times)
    clusters = {"cluster": [str(place // times) for place in range(n * times)]} if times > 1 else {}
    ids = {"id": [f"{place:04}" for place in range(n * times)], **clusters}
    measurements: list[Measurement] = []
    values: dict[str, dict[str, Any]] = {"rouge": {}, "perplexity": {}}
    systems = {}
    for kind, shift in (("mle", 0.0), ("emo", effect)):
        for k in range(seeds):
            name = f"{kind}-seed{k}"
            systems[name] = {"objective": kind, "seed": k}
            mean = 0.3 + shift + rng.normal(0, deviation)
            scores = mean + text + apart(rng, n, times)
            nats = lengths * (2.0 - shift + rng.normal(0, deviation) + text + apart(rng, n, times))
            perplexity = math.exp(float(nats.sum() / lengths.sum()))
            measurements += [
                Measurement(system=name, part="rouge", metric="rougeL", value=float(scores.mean()), n=n),
                Measurement(system=name, part="perplexity", metric="perplexity", value=perplexity, n=n),
            ]
            values["rouge"][name] = {**ids, "rougeL": scores.tolist()}
            values["perplexity"][name] = {**ids, "nats": nats.tolist(), "tokens": lengths.tolist()}

    def mean_of(nodes: list[Node]) -> float | None:
        shift = effect if nodes[-1]["system"] == "emo" else 0.0
        return 0.3 + shift if nodes[-1]["metric"] == "rougeL" else None

    def between(nodes: list[Node]) -> float | None:
        sign = 1 if nodes[-1]["candidate"] == "emo" else -1
        return sign * effect if nodes[-1]["measure"] == "rougeL" else 0.0 if effect == 0 else None

    truths = {"mean of texts": mean_of, "texts": between}
    return World(contents(config={"systems": systems}, measurements=measurements, values=values), truths)


def apart(rng: Rng, n: int, times: int) -> Scores:
    """What a training makes of n prefixes with so many texts each, apart from how easy they are."""
    of_text = rng.normal(0, 0.1, size=n * times)
    return of_text if times == 1 else np.repeat(rng.normal(0, 0.1, size=n), times) + 0.3 * of_text


def bench_world(rng: Rng, n: int, seeds: int, deviation: float, effect: float) -> World:
    """What `instruct bench` measured of two objectives: the cross-entropy of each test answer, over trainings."""
    text, lengths = rng.normal(0, 0.1, size=n), rng.integers(5, 60, size=n)
    systems: Node = {}
    values: dict[str, dict[str, Any]] = {"perplexity": {}}
    measurements = []
    for objective, shift in (("mle", 0.0), ("emo", effect)):
        for k in range(seeds):
            name = f"{objective}-seed{k}"
            systems[name] = {"objective": objective, "seed": k, "learning_rate": 1e-4}
            rates = 2 + shift + rng.normal(0, deviation) + text + rng.normal(0, 0.1, size=n)
            columns = {"id": list(range(n)), "nats": (rates * lengths).tolist(), "tokens": lengths.tolist()}
            values["perplexity"][name] = columns
            perplexity = math.exp(float((rates * lengths).sum() / lengths.sum()))
            measurements.append(Measurement(system=name, part="perplexity", metric="perplexity", value=perplexity, n=n))
    steps = {"bench": {"status": "done", "inputs": {"rows": {"train": 1, "test": n}, "rates": {}}, "results": {}}}
    truths = {
        "objectives": constant(effect),
        "mean of texts": constant(None),
        "texts": lambda nodes: 0.0 if effect == 0 else None,
    }
    return World(contents(config={"systems": systems}, measurements=measurements, values=values, steps=steps), truths)


WORLDS: dict[str, list[Callable[[Rng], World]]] = {}


def cell(name: str, make: Callable[..., World], cells: Iterable[Node]) -> None:
    """Add the cells of a world, each under its parameters."""
    for parameters in cells:
        label = f"{name}: {', '.join(f'{key} {value}' for key, value in parameters.items())}"
        WORLDS.setdefault(name, []).append(_named(label, make, parameters))


def _named(label: str, make: Callable[..., World], parameters: Node) -> Callable[[Rng], World]:
    def world(rng: Rng) -> World:
        return make(rng, **parameters)

    world.__doc__ = label
    return world


cell(
    "one judge",
    judged_world,
    [
        {"n": n, "level": level, "slope": slope, "tied": tied}
        for n in (20, 60, 200, 805)
        for level, slope, tied in ((0.0, 0.0, 0.3), (0.0, 1.0, 0.0), (1.0, 0.5, 0.3), (2.9, 0.5, 0.0))
    ],
)
cell(
    "missing",
    missing_world,
    [{"n": n, "rate": rate, "share": share} for n in (50, 805) for rate in (0.5, 0.55) for share in (0.02, 0.1)],
)
cell(
    "graded",
    graded_world,
    [
        {"n": n, "kind": kind}
        for n in (8, 24, 100, 805)
        for kind in ("uniform", "mostly small wins", "near ties", "won")
    ],
)
cell("panel", panel_world, [{"n": n, "judges": judges, "tied": 0.2} for n in (50, 200) for judges in (3, 5)])
cell(
    "systems",
    systems_world,
    [{"n": n, "rates": rates, "tied": 0.2} for n in (50, 200) for rates in ((0.5,) * 6, (0.5, 0.6, 0.7))],
)
cell(
    "seeds",
    seeds_world,
    [
        {"n": 100, "seeds": seeds, "deviation": deviation, "rate": rate, "missing": missing}
        for seeds in (2, 3, 5)
        for deviation in (0.0, 3.0)
        for rate, missing in ((0.5, 0.0), (0.5, 0.1), (0.6, 0.1))
    ],
)
cell(
    "primary",
    panel_world,
    [{"n": n, "judges": 3, "tied": 0.2, "primary": "judge0/win_rate"} for n in (50, 200)],
)
cell("conversations", conversations_world, [{"n": n, "rate": rate} for n in (40, 160) for rate in (0.5, 0.6)])
cell("repeated prompts", repeated_world, [{"n": n, "times": times} for n in (20, 40) for times in (2, 5)])
cell(
    "labels",
    labels_world,
    [{"n": 805, "count": n, "rate": r, "accuracy": a} for n in (30, 100) for r in (0.5, 0.8) for a in (0.7, 0.95)],
)
cell(
    "tasks",
    tasks_world,
    [{"n": n, "rate": rate, "differ": d} for n in (20, 50, 200, 1000) for rate in (0.6, 0.95) for d in (0.05, 0.3)],
)
cell(
    "tasks with passages",
    tasks_world,
    [{"n": n, "rate": 0.6, "differ": d, "times": 5} for n in (20, 40, 60) for d in (0.1, 0.3, 0.6)],
)
cell(
    "texts",
    texts_world,
    [
        {"n": 100, "seeds": seeds, "deviation": deviation, "effect": effect}
        for seeds in (1, 2, 3, 5)
        for deviation in ((0.0,) if seeds == 1 else (0.0, 0.02))  # figures of one training say nothing of others
        for effect in (0.0, 0.05)
    ],
)
cell(
    "texts after the same prefix",
    texts_world,
    [
        {"n": n, "seeds": seeds, "deviation": 0.0 if seeds == 1 else 0.02, "effect": effect, "times": 5}
        for n in (20, 60)
        for seeds in (1, 3)
        for effect in (0.0, 0.05)
    ],
)
cell(
    "bench",
    bench_world,
    [
        {"n": 100, "seeds": seeds, "deviation": deviation, "effect": effect}
        for seeds in (2, 3, 5)
        for deviation in (0.0, 0.05)
        for effect in (0.0, 0.1)
    ],
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="few runs of every fourth cell")
    parser.add_argument("--world", choices=WORLDS, help="this one only")
    parser.add_argument("--runs", type=int, help="experiments of each cell")
    parser.add_argument("--no-write", action="store_true", help="print only")
    arguments = parser.parse_args()
    started = time.perf_counter()
    runs = arguments.runs or (20 if arguments.small else 300)
    rows, missed = [], 0
    worlds = [world for name in ([arguments.world] if arguments.world else WORLDS) for world in WORLDS[name]]
    worlds = worlds[::4] if arguments.small else worlds
    for world in worlds:
        cells = run_cell(world, runs, 1)
        doubtful = misses(cells, 40 * len(worlds))
        if doubtful and not arguments.small:
            again = run_cell(world, 10 * runs, 2)
            cells |= {key: again[key] for key in doubtful if key in again}
            doubtful = misses({key: cells[key] for key in doubtful}, len(doubtful))
        for (path, kind), found in cells.items():
            bad = (path, kind) in doubtful
            missed += bad
            rows.append(
                {"world": world.__doc__, "path": path, "kind": kind, "share": round(found.share, 4),
                 "ratio": round(found.ratio, 3) if kind == "error" else None,
                 "width": round(float(np.mean(found.widths)), 4), "runs": len(found.shares), "missed": bad}
            )  # fmt: skip
            if bad:
                print(f"MISSED: {world.__doc__}: {path}: {kind} {found.share:.1%} of {len(found.shares)} runs")
    for line in table(rows):
        print(line)
    print(f"{time.perf_counter() - started:.0f} seconds")
    if not arguments.no_write:
        write_results("report_claims", rows)
    sys.exit(missed > 0)


def table(rows: list[Node]) -> Iterator[str]:
    """By path, the lowest coverage and the most false claims over the cells."""
    yield "| path | least coverage | most false | least ratio | median width | experiments |"
    yield "|---|---|---|---|---|---|"
    for path in sorted({row["path"] for row in rows}):
        covers = [row for row in rows if row["path"] == path and row["kind"] == "covers"]
        false = [row for row in rows if row["path"] == path and row["kind"].startswith("false")]
        errors = [row for row in rows if row["path"] == path and row["kind"] == "error"]
        least = f"{min(row['share'] for row in covers):.1%}" if covers else "–"
        most = f"{max(row['share'] for row in false):.1%}" if false else "–"
        ratio = f"{min(row['ratio'] for row in errors):.2f}" if errors else "–"
        experiments = sum(row["runs"] for row in covers or false or errors)
        width = f"{np.median([row['width'] for row in covers]):.3g}" if covers else "–"
        yield f"| `{path}` | {least} | {most} | {ratio} | {width} | {experiments:,} |"


if __name__ == "__main__":
    main()
