"""Worlds whose truth is known, for benchmarks/claims.py: what a run holds, or logs of other tools.

They know nothing of the package's statistics: they draw with numpy alone, and their truths are their parameters.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from instruct import compare_logs
from instruct.analysis.results import Claim, Kind
from instruct.data.prompts import conversations
from instruct.judging.comparison import ComparisonKey
from instruct.judging.interchange.labels import LabelScores
from instruct.judging.store import Judgment
from instruct.reporting.build import build
from instruct.reporting.power import plan_units
from instruct.reporting.read import Judged, RunContents, SystemAnswers
from instruct.reporting.report import Report
from instruct.run.directory import RunDirectory
from instruct.run.measurements import Measurement, Metrics
from instruct.scores.claims import claim_of, settle
from instruct.scores.samples import difference
from instruct.scores.scores import Row, Scores

Rng = np.random.Generator
Points = NDArray[np.float64]
Node = dict[str, Any]
# What standard errors are about: of unequal clusters they are too small, which Kish's degrees of freedom make up for.
EQUAL_SIZES = "difference of rows or of clusters of equal size"
# The true value of what a node states, which is the last of these, below the others; None: there is none.
Truth = Callable[[list[Node]], "float | None"]


@dataclass
class World:
    """An experiment: what a run holds, and the truths of what its report states, by name."""

    contents: RunContents
    truths: Mapping[str, Truth]

    def report(self) -> Node:
        """report.json."""
        return Report.of(build(self.contents)).model_dump(mode="json")


@dataclass
class LogWorld:
    """Logs, the arguments of compare_logs, and the true difference of a claim."""

    logs: list[Scores]
    difference: Truth
    arguments: Node = field(default_factory=dict)

    @property
    def truths(self) -> Mapping[str, Truth]:
        return {"difference of logs": self.difference, EQUAL_SIZES: self.difference}

    def report(self) -> Node:
        """The claims of `instruct compare`."""
        compared = compare_logs(self.logs, **self.arguments)
        return {"main": [claim.model_dump(mode="json") for claim in compared.main]}


@dataclass
class Sampled:
    """What two systems scored, by training and row; the true difference; the cluster of each row.

    share: whether scores are from 0 to 1. promised: whether the difference is one that is found in four of five cases.
    """

    base: Points
    tuned: Points
    difference: float
    clusters: NDArray[np.intp] | None = None
    share: bool = True
    promised: bool = False

    @property
    def truths(self) -> Mapping[str, Truth]:
        equal = self.clusters is None or not np.ptp(np.bincount(self.clusters))
        true = {"difference of logs": constant(self.difference)}
        true[EQUAL_SIZES] = constant(self.difference if equal else None)
        return true | {"promised": constant(0.8)} if self.promised else true

    def claim(self) -> Claim:
        """Of the sample alone, which no command made."""
        kind: Kind = "points" if self.share else "metric"
        sample = difference(lambda missing: (self.tuned, self.base), self.clusters, kind=kind, share=self.share)
        claim = claim_of(sample, measure="acc", candidate="tuned", baseline="base", family="tasks")
        settle([claim])
        return claim

    def report(self) -> Node:
        """As of logs."""
        return {"main": [self.claim().model_dump(mode="json")]}

    @property
    def logs(self) -> list[Scores]:
        """One of each system."""
        sides = {"base": self.base, "tuned": self.tuned}
        return [log_of(system, values[0], clusters=self.clusters) for system, values in sides.items()]


def constant(value: float | None) -> Truth:
    """The same truth of every node."""
    return lambda nodes: value


def draw(rng: Rng, means: Points, tied: float = 0.0) -> Points:
    """Wins, ties and losses with these means; a share `tied` of what can be ties is."""
    ties = 2 * np.minimum(means, 1 - means) * tied
    u = rng.random(means.shape)
    return np.where(u < ties, 0.5, (u < ties + (means - ties / 2)).astype(float))


# ------------------------------------------------------------------------------------------------------------- runs


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


def prompt(number: int) -> str:
    """The instruction of a pair."""
    return f"prompt {number}"


def answers(name: str, asked: Iterable[str], sizes: Iterable[int]) -> SystemAnswers:
    """A system's answers of these sizes, each row with its id."""
    rows = [
        {"dataset": f"set {row % 2}", "id": prompt(row), "instruction": text, "output": "x" * size, "generator": name}
        for row, (text, size) in enumerate(zip(asked, sizes, strict=True))
    ]
    return SystemAnswers(rows, "0" * 64)


def comparison(
    scores: Points,
    names: tuple[str, str, str] = ("judge", "new", "base"),
    sides: tuple[SystemAnswers | None, SystemAnswers | None] = (None, None),
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
    rows = [*(sides[0].rows if sides[0] else ()), *({"instruction": judgment.instruction} for judgment in judgments)]
    return Judged(
        key=ComparisonKey(*names), judgments=judgments, step={}, card=None, problem="none", imported=True,
        sides=sides, replies={}, conversations=conversations(rows),
    )  # fmt: skip


def of_verdicts(scores: Points, rate: float, made: Judged | None = None, **more: Truth) -> World:
    """One judge's verdicts; NaN in the comparison `made` of them is what the judge failed on."""
    truths = {"verdicts": constant(100 * rate), "all verdicts": constant(100 * float(scores.mean())), **more}
    return World(contents([made or comparison(scores)]), truths)


def judged_world(rng: Rng, n: int, level: float, slope: float, tied: float) -> World:
    """One judge that may reward length: logit E[score] = level + slope z, z the difference in length."""
    z = rng.normal(size=n)
    means = 1 / (1 + np.exp(-(level + slope * z)))
    base = rng.integers(400, 1200, size=n)
    sizes = {"new": np.maximum(base + (200 * z).astype(int), 1), "base": base}
    new, old = (answers(name, map(prompt, range(n)), size.tolist()) for name, size in sizes.items())
    scores = draw(rng, means, tied)
    grid = np.linspace(-8, 8, 4001)
    density = np.exp(-(grid**2) / 2)
    population = float((density / (1 + np.exp(-(level + slope * grid)))).sum() / density.sum())
    return of_verdicts(
        scores,
        population,
        comparison(scores, sides=(new, old)),
        **{
            "mean style": constant(None),
            "slope": constant(0.0 if slope == 0 else 1.0),
            "slope of a term": constant(0.0 if slope == 0 else None),
        },
    )


def missing_world(rng: Rng, n: int, rate: float, share: float) -> World:
    """A judge that fails on a share of the pairs, which are losses first."""
    scores = draw(rng, np.full(n, rate))
    known = scores.copy()
    known[rng.permutation(np.flatnonzero(scores == 0))[: round(share * n)]] = np.nan
    return of_verdicts(scores, rate, comparison(known), **{"pairs with a verdict": constant(None)})


def graded_world(rng: Rng, n: int, kind: str) -> World:
    """Graded verdicts with a mean of 1/2, or of what the kind says."""
    if kind == "uniform":
        scores, mean = rng.random(n), 0.5
    elif kind == "mostly small wins":
        scores, mean = np.where(rng.random(n) < 0.8, 0.625, 0.0), 0.5
    elif kind == "near ties":
        scores, mean = rng.beta(8, 8, size=n), 0.5
    else:
        scores, mean = rng.beta(0.9, 0.05, size=n), 0.9 / 0.95
    return of_verdicts(scores, mean)


def conversations_world(rng: Rng, n: int, times: int, rate: float) -> World:
    """Turns of a conversation, which are won or lost nearly alike."""
    spread = min(rate, 1 - rate)
    scores = draw(rng, np.repeat(rate + rng.uniform(-spread, spread, size=n), times), 0.2)
    return of_verdicts(scores, rate, comparison(scores, turns=times))


def clusters_world(rng: Rng, n: int, sizes: str, rate: float, alike: bool) -> World:
    """Rows of n prompts, with their own ids."""
    of = cluster_sizes(rng, n, sizes)
    scores = of_clusters(rng, of, rate, alike, grades=False)
    new = answers("new", [f"request {cluster}" for cluster in of], [1] * len(of))
    unequal = {} if sizes == "equal" else {"pairs with a verdict": constant(None)}  # see EQUAL_SIZES
    return of_verdicts(scores, rate, comparison(scores, sides=(new, None)), **unequal)


def panel_world(rng: Rng, n: int, judges: int, tied: float) -> World:
    """Independent judges that toss coins."""
    drawn = [comparison(draw(rng, np.full(n, 0.5), tied), (f"judge{k}", "new", "base")) for k in range(judges)]
    truths = {"verdicts": constant(50.0), "all verdicts": constant(None)}
    return World(contents(drawn), truths)


def systems_world(rng: Rng, n: int, rates: tuple[float, ...], tied: float) -> World:
    """Several systems against one baseline on the same prompts, of which some are easier."""
    easy = rng.normal(0, 0.1, size=n)
    true = {f"new{k}": rate for k, rate in enumerate(rates)}
    drawn = []
    for name, rate in true.items():
        spread = min(rate, 1 - rate) * 0.9
        drawn.append(comparison(draw(rng, rate + np.clip(easy, -spread, spread), tied), ("judge", name, "base")))
    truths = {
        "verdicts": lambda nodes: 100 * true[candidate(nodes)],
        "all verdicts": constant(None),
        "difference of verdicts": lambda nodes: 100 * (true[nodes[-1]["candidate"]] - true[nodes[-1]["baseline"]]),
    }
    return World(contents(drawn), truths)


def candidate(nodes: list[Node]) -> str:
    """The candidate of a claim, or of what it is in."""
    return next(str(node["candidate"]) for node in reversed(nodes) if "candidate" in node)


def seeds_world(rng: Rng, n: int, seeds: int, deviation: float, rate: float, missing: float) -> World:
    """Trainings with several seeds, whose true rates differ, and verdicts that are missing at random."""
    spread = min(0.17, 1 - rate)
    easy = rng.uniform(-spread, spread, size=n)
    shift = rng.normal(0, deviation / 100, size=seeds)
    scores = draw(rng, np.clip(rate + shift[:, None] + easy[None, :], 0.0, 1.0))
    known = np.where(rng.random((seeds, n)) < missing, np.nan, scores)
    pairs = [(f"new-seed{k}", f"base-seed{k}") for k in range(seeds)]
    drawn = [comparison(row, ("judge", *names)) for row, names in zip(known, pairs, strict=True)]
    systems = {name: {"objective": "mle", "seed": k} for k, names in enumerate(pairs) for name in names}
    of_seed = {new: 100 * float(rate + shift[k]) for k, (new, _) in enumerate(pairs)}
    truths = {
        "verdicts": lambda nodes: of_seed.get(candidate(nodes), 100 * rate),
        "verdicts of these prompts": constant(100 * (rate + float(easy.mean()))),
        "verdicts of these seeds": constant(100 * (rate + float(shift.mean()))),
        "all verdicts": constant(None),
    }
    return World(contents(drawn, config={"systems": systems}), truths)


def labels_world(rng: Rng, n: int, count: int, rate: float, accuracy: float) -> World:
    """People's labels on some pairs, and a judge of some accuracy on all."""
    people = draw(rng, np.full(n, rate))
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


def texts_world(
    rng: Rng, n: int, seeds: int, deviation: float, effect: float, times: int = 1, bench: bool = False
) -> World:
    """Two systems' scores of each text, over trainings that differ, nats of its tokens, and whether it repeats itself.

    Args:
        times: n prefixes with so many texts each, of which one system continues some better, the other the others.
        bench: what `instruct bench` measures of two objectives, which is nats alone.
    """
    text = np.repeat(rng.normal(0, 0.1, size=n), times)
    lengths = np.ceil(rng.exponential(30, size=n * times)).astype(int)
    clusters = {"cluster": [str(place // times) for place in range(n * times)]} if times > 1 else {}
    ids = {"id": [f"{place:04}" for place in range(n * times)], **clusters}
    measurements: list[Measurement] = []
    values: dict[str, dict[str, Any]] = {part: {} for part in (PARTS[2:] if bench else PARTS)}
    systems: Node = {}
    for kind, shift in (("mle", 0.0), ("emo", effect)):
        for k in range(seeds):
            name = f"{kind}-seed{k}"
            systems[name] = {"objective": kind, "seed": k, **({"learning_rate": 1e-4} if bench else {})}
            if not bench:
                scores = 0.3 + shift + rng.normal(0, deviation) + text + apart(rng, n, times)
                measurements.append(_measured(name, "rouge", "rougeL", float(scores.mean()), n))
                values["rouge"][name] = {**ids, "rougeL": scores.tolist()}
                loops = np.repeat(rng.random(n) < LOOPS, times).astype(float)
                measurements.append(_measured(name, "diversity", "repetition", float(loops.mean()), n))
                values["diversity"][name] = {**ids, "repetition": loops.tolist()}
            nats = lengths * (2.0 - shift + rng.normal(0, deviation) + 4 * (text + apart(rng, n, times)))
            perplexity = math.exp(float(nats.sum() / lengths.sum()))
            measurements.append(_measured(name, "perplexity", "perplexity", perplexity, n))
            values["perplexity"][name] = {**ids, "nats": nats.tolist(), "tokens": lengths.tolist()}

    def mean_of(nodes: list[Node]) -> float | None:
        return _mean_of_texts(nodes[-1]["metric"], effect if nodes[-1]["system"] == "emo" else 0.0)

    def between(nodes: list[Node]) -> float | None:
        means = [_mean_of_texts(nodes[-1]["measure"], by) for by in (effect, 0.0)]
        return (means[0] - means[1]) * (1 if nodes[-1]["candidate"] == "emo" else -1)

    done = {"status": "done", "inputs": {"rows": {"train": 1, "test": n}, "rates": {}}, "results": {}}
    steps = {"bench": done} if bench else None
    truths = {"mean of texts": mean_of, "texts": between, "objectives": constant(-effect)}
    return World(contents((), {"systems": systems}, None, measurements, values, steps), truths)


PARTS = ("rouge", "diversity", "perplexity")
# The share of the texts that repeat themselves.
LOOPS = 0.05


def _mean_of_texts(metric: str, effect: float) -> float:
    """The figure of all texts and trainings (perplexity: but for what the trainings' deviation adds, below .2 %)."""
    return {"rougeL": 0.3 + effect, "repetition": LOOPS, "perplexity": math.exp(2.0 - effect)}[metric]


def _measured(system: str, part: str, metric: str, value: float, n: int) -> Measurement:
    return Measurement(system=system, part=part, metric=metric, value=value, n=n)


def apart(rng: Rng, n: int, times: int) -> Points:
    """What a training makes of n prefixes with so many texts each, apart from how easy they are."""
    of_text = rng.normal(0, 0.1, size=n * times)
    return of_text if times == 1 else np.repeat(rng.normal(0, 0.1, size=n), times) + 0.3 * of_text


# ------------------------------------------------------------------------------------------------------------- logs


def log_of(system: str, values: Points, task: str = "t", seed: int | None = None, **about: Any) -> Scores:
    """A log with a row for each value; two dimensions: units and their repeats; NaN: missing."""
    clusters = about.pop("clusters", None)
    folder = "" if seed is None else f"s{seed}/"
    log = Scores("made", Path(f"{folder}{system}/{task}.jsonl"), system, task, **about)
    units = values if values.ndim == 2 else values[:, None]
    for place, row in enumerate(units.tolist()):
        cluster = None if clusters is None else str(clusters[place])
        for epoch, value in enumerate(row):
            score = {"acc": None if math.isnan(value) else value}
            log.add(Row(str(place), score, epoch=epoch if len(row) > 1 else None, cluster=cluster), "made")
    return log


def two(base: Points, tuned: Points, gain: float, **about: Any) -> LogWorld:
    """The logs of two systems in one task."""
    return LogWorld([log_of("base", base, **about), log_of("tuned", tuned, **about)], constant(gain))


def ease(rng: Rng, n: int) -> Points:
    """How easy rows are for both systems."""
    return 0.1 + 0.7 * rng.beta(0.6, 0.6, n)


def sampled(base: Points, tuned: Points, difference: float, **about: Any) -> Sampled:
    """Of one training of each system."""
    return Sampled(base[None], tuned[None], difference, **about)


def counted(rng: Rng, gain: float, n: int) -> Sampled:
    """Right or wrong."""
    chance = ease(rng, n)
    return sampled(draw(rng, chance), draw(rng, chance + gain), 100 * gain)


def graded(rng: Rng, gain: float, n: int) -> Sampled:
    """Values from 0 to 1, most of them low, such as ROUGE."""
    base, tuned = (rng.beta(1, 1 / mean - 1, n) for mean in (0.2, 0.2 + gain))
    return sampled(base, tuned, 100 * gain)


def broken(rng: Rng, gain: float, n: int) -> Sampled:
    """Values from 0 to 1: one system is a little better on each row, and broken on one in a hundred of them."""
    base = rng.uniform(0.2, 0.8, n)
    tuned = np.where(rng.random(n) < 0.01, 0.0, base + 0.01 * 0.5 / 0.99) + gain
    return sampled(base, tuned, 100 * gain)


def ratings(rng: Rng, gain: float, n: int) -> Sampled:
    """Ratings whose differences are skewed, in their own unit."""
    base = rng.integers(1, 11, n).astype(float)
    return sampled(base, base + rng.exponential(2, n) - 2 + 10 * gain, 10 * gain, share=False)


def cluster_sizes(rng: Rng, n: int, sizes: str) -> NDArray[np.intp]:
    """The cluster of each row, of n clusters: eight rows in each, unequally many, or half of all rows in one."""
    of_each = {"equal": np.full(n, 8), "unequal": np.ceil(rng.exponential(8, n)), "one large": np.full(n, 4)}[sizes]
    of_each[0] += (sizes == "one large") * 4 * (n - 2)
    return np.repeat(np.arange(n), of_each.astype(int))


def of_clusters(rng: Rng, of: NDArray[np.intp], mean: float, alike: bool, grades: bool) -> Points:
    """Values from 0 to 1 of rows in clusters: right or wrong, or grades; correlated by .1, or all the same."""

    def drawn(means: Points) -> Points:
        return rng.beta(2 * means + 1e-9, 2 * (1 - means) + 1e-9) if grades else draw(rng, means)

    clusters = int(of.max()) + 1
    if alike:
        return drawn(np.full(clusters, mean))[of]
    return drawn(rng.beta(9 * mean, 9 * (1 - mean), clusters)[of])


def clustered(
    rng: Rng, gain: float, n: int, sizes: str, alike: bool, rate: float = 0.5, grades: bool = False, trainings: int = 1
) -> Sampled:
    """Rows of n passages, for each of which a system is alike good, and trainings of each, which differ by row."""
    of, sides = cluster_sizes(rng, n, sizes), []
    for mean in (rate - gain, rate):
        side = np.tile(of_clusters(rng, of, mean, alike, grades), (trainings, 1))
        if trainings > 1:
            again = [of_clusters(rng, np.arange(len(of)), mean, True, grades) for _ in side]
            side = np.where(rng.random(side.shape) < 0.5, side, again)
        sides.append(side)
    return Sampled(sides[0], sides[1], 100 * gain, of)


def uneven(rng: Rng, gain: float, n: int) -> Sampled:
    """Rows of n passages, unequally many of each."""
    return clustered(rng, gain, n, "unequal", False)


def repeats(rng: Rng, gain: float) -> LogWorld:
    """Four samples of each of 100 rows."""
    chance = ease(rng, 100)
    base, tuned = (draw(rng, np.repeat((chance + shift)[:, None], 4, axis=1)) for shift in (0.0, gain))
    return two(base, tuned, 100 * gain)


def timeouts(rng: Rng, gain: float) -> LogWorld:
    """Hard rows time out, and more often those of one system; the truth is that of all rows."""
    chance = ease(rng, 300)
    base, tuned = draw(rng, chance), draw(rng, chance + gain)
    base[(rng.random(300) < 0.1) & (chance < 0.4)] = math.nan
    tuned[(rng.random(300) < 0.2) & (tuned == 0)] = math.nan
    return two(base, tuned, 100 * gain)


def tasks(rng: Rng, gain: float, sizes: tuple[int, ...], better: int | None, by_size: bool | None = None) -> LogWorld:
    """Tasks of so many rows, in one or in each of which the gain is; a group of them, by rows or by tasks."""
    logs, true = [], {f"t{task}": 100 * gain * (better in (task, None)) for task in range(len(sizes))}
    groups = {} if by_size is None else {"group": by_size}
    for (task, more), n in zip(true.items(), sizes, strict=True):
        chance = ease(rng, n)
        for system, shift in (("base", 0.0), ("tuned", more / 100)):
            logs.append(log_of(system, draw(rng, chance + shift), task, groups=groups))
    weight = sizes[better or 0] / sum(sizes) if by_size else 1 / len(sizes)
    return LogWorld(logs, lambda nodes: (true | {"group": 100 * gain * weight})[nodes[-1]["task"]])


def trainings(rng: Rng, gain: float) -> LogWorld:
    """Five trainings of one system, which differ, beside one base."""
    chance = ease(rng, 300)
    logs = [log_of("base", draw(rng, chance))]
    for seed in range(5):
        shift = gain + rng.normal(0, 0.03)
        logs.append(log_of("tuned", draw(rng, np.clip(chance + shift, 0, 1)), seed=seed))
    return LogWorld(logs, constant(100 * gain), {"seeds": r"s(?P<seed>\d)/"})


def all_pairs(rng: Rng, gain: float) -> LogWorld:
    """Six systems, every two compared; the last one is better by the gain."""
    chance = ease(rng, 200)
    logs = [log_of(f"s{place}", draw(rng, chance + gain * (place == 5))) for place in range(6)]

    def truth(nodes: list[Node]) -> float:
        return 100 * gain * ((nodes[-1]["candidate"] == "s5") - (nodes[-1]["baseline"] == "s5"))

    return LogWorld(logs, truth, {"all_pairs": True})


def planned(rng: Rng, world: Callable[..., Sampled], gain: float = 0.0, n: int = 0) -> Sampled:
    """As many units as `power` plans for a gain, or the gain that is called detectable with n units."""
    return replace(world(rng, *promised(world, gain, n)), promised=True)


@functools.cache
def promised(world: Callable[..., Sampled], gain: float, n: int) -> tuple[float, int]:
    """The gain, and how many units show it in four of five cases: by a pilot, or by the median of comparisons."""
    rng = np.random.default_rng(1)
    if gain:
        pilot = world(rng, gain, 2000)
        (row,) = plan_units(pilot.logs, pilot.difference).rows
        return gain, row.clusters or row.units or 0
    for _ in range(4):  # until the gain is the one that is detectable where it is
        found = [world(rng, gain, n).claim().detectable for _ in range(100)]
        gain = float(np.median([each for each in found if each])) / 100
    return gain, n


# ------------------------------------------------------------------------------------------------------------- cells

Made = World | LogWorld | Sampled
Worlds = list[Callable[[Rng], Made]]
SIZES = ("equal", "unequal", "one large")


def grid(make: Callable[..., Made], **values: Sequence[Any]) -> Worlds:
    """A world with every combination of these parameters."""
    return [functools.partial(make, **dict(zip(values, each, strict=True))) for each in product(*values.values())]


RUNS: dict[str, Worlds] = {
    "one judge": [
        world
        for n in (20, 60, 200, 805)
        for level, slope, tied in ((0.0, 0.0, 0.3), (0.0, 1.0, 0.0), (1.0, 0.5, 0.3), (2.9, 0.5, 0.0))
        for world in grid(judged_world, n=[n], level=[level], slope=[slope], tied=[tied])
    ],
    "missing": grid(missing_world, n=(50, 805), rate=(0.5, 0.55), share=(0.02, 0.1)),
    "graded": grid(graded_world, n=(8, 24, 100, 805), kind=("uniform", "mostly small wins", "near ties", "won")),
    "panel": grid(panel_world, n=(50, 200), judges=(3, 5), tied=[0.2]),
    "systems": grid(systems_world, n=(50, 200), rates=((0.5,) * 6, (0.5, 0.6, 0.7)), tied=[0.2]),
    "seeds": grid(seeds_world, n=[100], seeds=(2, 3, 5), deviation=(0.0, 3.0), rate=(0.5, 0.6), missing=(0.0, 0.1)),
    "all won": grid(seeds_world, n=(20, 200), seeds=(3, 5), deviation=[0.0], rate=(0.995, 1.0), missing=[0.0]),
    "conversations": grid(conversations_world, n=(20, 80), times=[2], rate=(0.5, 0.6)),
    "repeated prompts": grid(clusters_world, n=(10, 20, 50), sizes=SIZES, rate=(0.5, 0.97), alike=[True]),
    "labels": grid(labels_world, n=[805], count=(10, 20, 40, 100), rate=(0.5, 0.8), accuracy=(0.5, 0.95)),
    "agreement": grid(labels_world, n=[405], count=(50, 200, 400), rate=[0.5], accuracy=(0.97, 0.99)),
    "texts": [  # figures of one training say nothing of others
        *grid(texts_world, n=(10, 20, 50, 100, 200), seeds=[1], deviation=[0.0], effect=[0.0]),
        *grid(texts_world, n=(20, 100), seeds=(2, 3, 5), deviation=(0.0, 0.02), effect=(0.0, 0.05)),
    ],
    "texts after the same prefix": [
        *grid(texts_world, n=(20, 60), seeds=[1], deviation=[0.0], effect=(0.0, 0.05), times=[5]),
        *grid(texts_world, n=(20, 60), seeds=[3], deviation=[0.02], effect=(0.0, 0.05), times=[5]),
    ],
    "bench": grid(texts_world, n=[100], seeds=(2, 3, 5), deviation=(0.0, 0.05), effect=(0.0, 0.1), bench=[True]),
}
GAINS = (0.0, 0.1)
LOGS: dict[str, Worlds] = {
    "right or wrong": grid(counted, gain=GAINS, n=(40, 300)),
    "grades": grid(graded, gain=GAINS, n=(50, 200)),
    "better but broken": grid(broken, n=(50, 100, 200, 400), gain=[0.0]),
    "ratings": grid(ratings, n=(50, 200), gain=GAINS),
    "passages": grid(clustered, n=(10, 20, 50), sizes=SIZES, alike=(False, True), rate=(0.5, 0.97), gain=GAINS),
    "passages of grades": grid(clustered, n=(20, 50), sizes=SIZES, alike=(False, True), gain=GAINS, grades=[True]),
    "passages and trainings": grid(clustered, n=(20, 50), sizes=SIZES, alike=[True], gain=GAINS, trainings=[5]),
    "repeats": grid(repeats, gain=GAINS),
    "timeouts": grid(timeouts, gain=GAINS),
    "groups": grid(tasks, gain=GAINS, sizes=[(20, 40, 60, 80, 200)], better=[4], by_size=(True, False)),
    "trainings": grid(trainings, gain=GAINS),
    "twenty tasks": [
        *grid(tasks, gain=GAINS, sizes=[(100,) * 20], better=[0]),
        *grid(tasks, gain=[0.03], sizes=[(100,) * 20], better=[None]),
    ],
    "all pairs": grid(all_pairs, gain=GAINS),
    "promised by power": grid(planned, world=(counted, graded, ratings, uneven), gain=[0.1]),
    "promised as detectable": grid(planned, world=(counted, graded, uneven), n=(50, 300)),
}


def label(world: Callable[[Rng], Made]) -> str:
    """The parameters of a world of a grid."""
    assert isinstance(world, functools.partial)
    return ", ".join(f"{name} {getattr(value, '__name__', value)}" for name, value in world.keywords.items())
