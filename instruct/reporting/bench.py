"""What `instruct bench` finds, and its tables: objectives over seeds, and claims of each beside MLE."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from instruct.analysis.clusters import numbered
from instruct.analysis.results import ELSEWHERE, Claim
from instruct.base.errors import counted
from instruct.measuring.words import answers_rouge
from instruct.reporting.digits import number
from instruct.reporting.model import Bench, ReportData
from instruct.reporting.read import RunContents, elsewhere_of, seeds_of
from instruct.reporting.tables import Column, Table, columns_table
from instruct.reporting.text import capital, finding
from instruct.reporting.texts import METRICS
from instruct.run.measurements import Details, Measurement
from instruct.scores import samples
from instruct.scores.claims import claim_of, of_family
from instruct.scores.samples import LEAST_SEEDS, Values
from instruct.training.options import control_name, without_seed

GREEDY, SAMPLED, ENTROPY = "ROUGE-L of greedy answers", METRICS["rougeL"].label, "cross-entropy"
MLE = "mle"
RATE, MINUTES, GIB = "learning rate", "minutes", "GiB"
_OTHER_FIGURES = {
    "entropy": "entropy",
    "matched_temperature": "temperature",
    "distinct_2": "distinct-2 of samples",
    "words": "words of samples",
}


@dataclass(frozen=True)
class Measured:
    """What was measured of each training: `names` by objective, `scores` by measure and system; by measure `clusters`
    of rows; the names of trainings `elsewhere`."""

    names: Mapping[str, Sequence[str]]
    scores: Mapping[str, Mapping[str, Values]]
    clusters: Mapping[str, Mapping[Any, str]] = field(default_factory=dict)
    elsewhere: frozenset[str] = frozenset()

    def of(self, measure: str, names: Sequence[str]) -> list[Values]:
        """The scores of some systems; [] if one has none."""
        known = self.scores[measure]
        return [known[name] for name in names] if all(name in known for name in names) else []


STEP = "bench"  # of the manifest: which learning rates were tried, and how many rows there were
# The family of the claims, and the part of the measurements.
OBJECTIVES = "objectives"


class BenchResults(NamedTuple):
    """What a report says about objectives. Of a system: its figures, the mean over its trainings, with the `deviation`
    between them; the learning rate, with the cross-entropy that chose it among the `rates`; minutes and GiB of one
    training, the means of what was measured."""

    measurements: list[Measurement]
    claims: list[Claim]
    bench: Bench


def bench_results(contents: RunContents) -> BenchResults | None:
    """What a run of `instruct bench` found; None of other runs."""
    record = contents.manifest["steps"].get(STEP)
    if record is None or record["status"] != "done":
        return None
    rows = record["inputs"]["rows"]
    rates = {
        key: {float(rate): math.inf if score is None else score for rate, score in tried.items()}
        for key, tried in record["inputs"]["rates"].items()
    }
    measured = measured_in(contents)
    measurements: list[Measurement] = []
    for key, systems in measured.names.items():
        figures, about = _figures(contents, measured, key, systems, rates.get(key, {}))
        measurements += [*figures, *about]
    others = {control_name(key): [*map(control_name, systems)] for key, systems in measured.names.items()}
    others |= {
        name: [name]
        for name, system in contents.config["systems"].items()
        if system["objective"] == "none" and name not in measured.elsewhere
    }
    for name, systems in others.items():
        figures, about = _figures(contents, measured, name, systems, {})
        if figures:
            measurements += [*figures, *about]
    bench = Bench(rows=rows, notes=_notes(contents, measured, rates, rows))
    return BenchResults(measurements, objective_claims(measured), bench)


def measured_in(contents: RunContents) -> Measured:
    """What was measured of each training of a run; prompts are different, so that only rows of tasks are clusters."""
    names: dict[str, list[str]] = {}
    seeds, elsewhere = seeds_of(contents.config), elsewhere_of(contents.config)
    for name in dict.fromkeys((*seeds, *elsewhere)):
        names.setdefault(without_seed(name, seeds.get(name)), []).append(name)
    likelihoods = {
        name: {key: nats / count for key, nats, count in _rows(columns, "nats", "tokens") if count}
        for name, columns in contents.values.get("perplexity", {}).items()
    }
    sampled = {name: dict(_rows(columns, "rougeL")) for name, columns in contents.values.get("rouge", {}).items()}
    greedy = answers_rouge({name: answers.rows for name, answers in contents.answers.items()})
    scores: dict[str, Mapping[str, Values]] = {ENTROPY: likelihoods, GREEDY: greedy, SAMPLED: sampled}
    clusters: dict[str, dict[Any, str]] = {}
    for task, found in contents.tasks.items():  # each may be a group of tasks
        metric = next((name for logs in found.values() for log in logs for name in log.values), "")
        measure = f"{task} ({metric})"
        scores[measure] = {
            name: {
                f"{log.task}/{unit}": None if math.isnan(value) else value
                for log in logs
                for unit, value in zip(log.units, log.values.get(metric, ()), strict=False)
            }
            for name, logs in found.items()
        }
        clusters[measure] = {
            f"{log.task}/{unit}": f"{log.task}/{cluster}"
            for log in next(iter(found.values()))
            for unit, cluster in zip(log.units, log.clusters, strict=True)
            if cluster is not None
        }
    known = {measure: systems for measure, systems in scores.items() if systems}
    return Measured(names, known, clusters, frozenset(elsewhere))


def _rows(columns: Mapping[str, Any], *names: str) -> Iterator[Any]:
    return zip(*(columns[name] for name in ("id", *names)), strict=True)


def _at_entropy(key: str) -> str:
    return f"MLE at the entropy of {key}"


def _figures(
    contents: RunContents, measured: Measured, system: str, names: Sequence[str], rates: Mapping[float, float]
) -> tuple[list[Measurement], list[Measurement]]:
    """A system's figures, and what its trainings took."""
    figures: dict[str, list[float]] = {}
    for measure in measured.scores:
        known = [[one for one in scores.values() if one is not None] for scores in measured.of(measure, names)]
        if known and all(known):
            figures[measure] = [*map(statistics.fmean, known)]
    for metric, title in _OTHER_FIGURES.items():
        values = [value for name in names if (value := contents.metrics.value(name, metric)) is not None]
        if len(values) == len(names):
            figures[title] = values
    finished = contents.manifest["steps"].get("answers", {}).get("results", {})
    for name in names:
        if name in finished and name in contents.answers:
            share = finished[name]["truncated"] / len(contents.answers[name].rows)
            figures.setdefault("without end", []).append(share)
    records = [contents.manifest["steps"].get(f"train/{name}", {}) for name in names]
    minutes = [record["minutes"] for record in records if record.get("minutes") is not None]
    peaks = [peak for record in records if (peak := (record.get("results") or {}).get("peak_gib")) is not None]
    chosen = {contents.config["systems"].get(name, {}).get("learning_rate") for name in names}

    def row(metric: str, value: float | None, **details: Any) -> Measurement:
        shared = Details(trainings=len(names), **details)
        return Measurement(system=system, part=OBJECTIVES, metric=metric, value=value, details=shared)

    means = [
        row(measure, statistics.fmean(values), deviation=statistics.stdev(values) if len(values) > 1 else None)
        for measure, values in figures.items()
    ]
    tried = {f"{rate:g}": None if math.isinf(score) else score for rate, score in rates.items()}
    about = [row(RATE, chosen.pop() if len(chosen) == 1 else None, rates=tried)]
    if minutes:
        about.append(row(MINUTES, statistics.fmean(minutes)))
    if peaks:
        about.append(row(GIB, statistics.fmean(peaks)))
    return means, about


def objective_claims(measured: Measured) -> list[Claim]:
    """Every objective against MLE by every measure, and by samples against MLE at its entropy."""
    claims = []
    for key, ours in measured.names.items():
        if key == MLE:
            continue
        standard = {MLE: measured.names[MLE]}
        for measure in measured.scores:
            controls = {_at_entropy(key): list(map(control_name, ours))} if measure == SAMPLED else {}
            for baseline, theirs in (standard | controls).items():
                scores = measured.of(measure, ours), measured.of(measure, theirs)
                if all(scores):
                    params = {ELSEWHERE: True} if measured.elsewhere.intersection(ours) else {}
                    about: dict[str, Any] = {
                        "candidate": key,
                        "baseline": baseline,
                        "family": OBJECTIVES,
                        "params": params,
                    }
                    claims.append(claim_between(measure, *scores, measured.clusters.get(measure), **about))
    return claims


def claim_between(
    measure: str, ours: Sequence[Values], theirs: Sequence[Values], clusters: Mapping[Any, str] | None, **about: Any
) -> Claim:
    """The claim that the trainings of two systems make by a measure; `about`: its further fields."""
    units, sides = samples.sides_of(ours, theirs)
    known = np.concatenate(sides(math.nan))
    share = measure != ENTROPY and samples.is_share(known)
    sample = samples.difference(sides, numbered(units, clusters), kind="metric", share=share)
    enough = sample.trainings >= LEAST_SEEDS
    sample = replace(sample, test="two-way", enough=enough, params={})
    return claim_of(sample, measure=measure, better=better_values(measure), **about)


def better_values(measure: str) -> Literal["higher", "lower", ""]:
    """Which values of a measure are better: of a metric of lm-eval's other than accuracy nobody here knows."""
    if measure == ENTROPY:
        return "lower"
    return "higher" if measure in (GREEDY, SAMPLED) or measure.endswith("(acc)") else ""


def _notes(
    contents: RunContents, measured: Measured, rates: Mapping[str, Mapping[float, float]], rows: Mapping[str, int]
) -> list[str]:
    chosen = "learning rates: one was given for all, and none was chosen; another may suit each objective"
    if rates:
        chosen = (
            f"learning rates: that of the lowest cross-entropy on {rows['choose']:,} other rows, with a seed that is "
            "not in the table; cross-entropy is MLE's own loss, so this rule may favor it"
        )
    notes = [
        "cross-entropy: of the test answers without their end token, nats per token, the mean over answers; "
        "ROUGE-L: F1 without stemming of greedy answers, and of samples at temperature 1; ± is between trainings",
        chosen,
        "intervals and p: two-way, over seeds and prompts (docs/statistics.md); Holm's correction is over all tests "
        "but a judge's, which are corrected together",
    ]
    for key, scores in rates.items():
        best = min(scores, key=lambda rate: scores[rate])
        if len(scores) > 1 and best in (min(scores), max(scores)):
            notes.append(
                f"the learning rate of {key}, {best:g}, is the last that was tried; a better one may be beyond"
            )
        notes += [f"{key} diverged with a rate of {rate:g}" for rate, score in scores.items() if math.isinf(score)]
    if not any(measure not in (ENTROPY, GREEDY, SAMPLED) for measure in measured.scores):
        notes.append("forgetting and other skills were not measured: no task was asked (--tasks)")
    if not contents.judged:
        notes.append("no judge compared the answers (--judge)")
    if failed := sum(bool(row.get("failed")) for answers in contents.answers.values() for row in answers.rows):
        notes.append(f"{failed:,} answers failed; their prompts are left out of ROUGE-L's means")
    for row in contents.metrics.measurements:
        if row.metric == "matched_temperature" and row.value is None:
            notes.append(f"{row.system} has no control at its entropy: {row.details.reason}")
    peaks = "GiB: the largest GPU memory of a training, or of the process without a GPU"
    return [*notes, f"minutes and {peaks}"]


def difference_of(claim: Claim) -> str:
    """What a difference of two systems is of."""
    return f"win rate − ½ ({claim.judge})" if claim.judge else claim.measure


CLAIM_COLUMNS = [
    Column("difference", lambda claim: f"{claim.candidate} − {claim.baseline}", text=True),
    Column("of", difference_of, text=True),
    Column("seeds", "trainings"),
    Column("n"),
    Column("mean", "value", error="interval", sign=True),
    Column("95 % CI", "interval", sign=True),
    Column("p (Holm)", "adjusted_p", form=".3g"),
    Column("finding", finding),
]


def bench_differences(report: ReportData) -> list[Claim]:
    """The differences of a bench's objectives, those of judges among them; of other runs none."""
    return list(map(as_difference, of_family(report.claims, OBJECTIVES) + report.seeds)) if report.bench else []


def bench_tables(report: ReportData) -> list[Table]:
    """Every objective's figures, and its claims beside MLE, those of judges among them; of other runs none."""
    if report.bench is None:
        return []
    by_metric: dict[str, dict[str, Measurement]] = {RATE: {}, MINUTES: {}, GIB: {}}
    for row in report.measurements:
        if row.part == OBJECTIVES:
            by_metric.setdefault(row.metric, {})[row.system] = row
    rates, *took = by_metric.pop(RATE), (MINUTES, by_metric.pop(MINUTES)), (GIB, by_metric.pop(GIB))
    columns = [
        Column("system", _label, text=True),
        Column("learning rate", "value", form="g").within(rates.get),
        Column("trainings", "details.trainings").within(rates.get),
        *(Column(metric, _figure).within(rows.get) for metric, rows in (*by_metric.items(), *took)),
    ]
    parts = ", ".join(f"{count:,} rows to {part}" for part, count in report.bench.rows.items())
    notes = " ".join(f"{capital(note)}." for note in report.bench.notes)
    return [
        columns_table("Objectives", list(rates), columns, f"{parts}, with different prompts. {_scale(report)}."),
        columns_table("Objectives beside MLE", bench_differences(report), CLAIM_COLUMNS, notes),
    ]


# Fewer rows or steps than these are a trial.
_LEAST_ROWS = _LEAST_STEPS = 100


def _scale(report: ReportData) -> str:
    """How much was trained, and whether that is more than a trial."""
    rows = report.bench.rows["train"] if report.bench else 0
    steps = max((one.steps for one in report.trainings if one.steps is not None), default=0)
    about = [row for row in report.measurements if row.part == OBJECTIVES and row.metric == RATE]
    seeds = max((row.details.trainings for row in about), default=0)
    rates = max((len((row.details.model_extra or {}).get("rates") or {}) for row in about), default=0) or 1
    trial = rows < _LEAST_ROWS or steps < _LEAST_STEPS or seeds < LEAST_SEEDS
    said = f"{counted(steps, 'step')}, {counted(seeds, 'seed')}, {counted(rates, 'learning rate')}"
    return f"{said}: a trial, not a result" if trial else said


def _label(system: str) -> str:
    key = system.removeprefix(control_name(""))
    return system if key == system else _at_entropy(key)


def _figure(row: Measurement) -> str:
    """A figure with its standard deviation between trainings."""
    deviation = (row.details.model_extra or {}).get("deviation")
    return number(row.value, deviation) + ("" if deviation is None else f" ± {number(deviation, deviation)}")


def as_difference(claim: Claim) -> Claim:
    """A win rate as its distance from one half, as a share; a difference as it is."""
    if claim.kind != "rate" or claim.value is None:
        return claim
    interval = claim.interval and [end / 100 - 0.5 for end in claim.interval]
    return claim.model_copy(update={"kind": "metric", "value": claim.value / 100 - 0.5, "interval": interval})
