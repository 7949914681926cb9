"""What `instruct bench` finds, and its tables: objectives over seeds, and claims of each beside MLE."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from instruct.analysis.results import ELSEWHERE, Claim
from instruct.base.errors import counted
from instruct.logs.read import by_task
from instruct.measuring.sampled import SAMPLED as TEXT_METRICS
from instruct.reporting.digits import number
from instruct.reporting.model import Bench, ReportData
from instruct.reporting.read import RunContents, elsewhere_of, seeds_of
from instruct.reporting.run_logs import log_of
from instruct.reporting.tables import Column, Table, columns_table
from instruct.reporting.text import capital, finding
from instruct.run.measurements import Details, Measurement
from instruct.scores import samples
from instruct.scores.claims import claim_of, of_family
from instruct.scores.join import Joined, join
from instruct.scores.samples import LEAST_SEEDS
from instruct.scores.scores import Better, Row, Scores
from instruct.training.options import control_name, without_seed

GREEDY, SAMPLED, ENTROPY = "ROUGE-L of greedy answers", TEXT_METRICS["rougeL"].label, "cross-entropy"
MLE = "mle"
RATE, MINUTES, GIB = "learning rate", "minutes", "GiB"
_OTHER_FIGURES = {
    "entropy": "entropy",
    "matched_temperature": "temperature",
    "distinct_2": "distinct-2 of samples",
    "words": "words of samples",
}


# By task and system, what its trainings scored.
_Tasks = Mapping[str, Mapping[str, list[Scores]]]
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
    tasks, trainings = by_task(bench_scores(contents)), trainings_of(contents.config)
    measurements: list[Measurement] = []
    for system, names in systems_of(contents.config).items():
        figures, about = _figures(contents, tasks, system, names, rates.get(system, {}))
        if figures or system in trainings:
            measurements += [*figures, *about]
    bench = Bench(rows=rows, notes=_notes(contents, tasks, rates, rows))
    return BenchResults(measurements, objective_claims(contents.config, tasks), bench)


def trainings_of(config: Mapping[str, Any]) -> dict[str, list[str]]:
    """The names of each objective's trainings, and of what was trained elsewhere."""
    names: dict[str, list[str]] = {}
    seeds = seeds_of(config)
    for name in dict.fromkeys((*seeds, *elsewhere_of(config))):
        names.setdefault(without_seed(name, seeds.get(name)), []).append(name)
    return names


def systems_of(config: Mapping[str, Any]) -> dict[str, list[str]]:
    """The same, and the controls, and the untrained model, which is its only training."""
    trainings, elsewhere = trainings_of(config), elsewhere_of(config)
    controls = {control_name(key): [*map(control_name, names)] for key, names in trainings.items()}
    systems = config["systems"].items()
    untrained = {name: [name] for name, system in systems if system["objective"] == "none" and name not in elsewhere}
    return trainings | controls | untrained


def bench_scores(contents: RunContents) -> list[Scores]:
    """What each training of a run scored by a measure, if all of its system did: on the test's prompts, where the task
    is the measure, and in tasks of lm-eval."""
    of_prompts = {
        ENTROPY: {
            name: {
                unit: nats / count
                for unit, nats, count in zip(of["id"], of["nats"], of["tokens"], strict=True)
                if count
            }
            for name, of in contents.values.get("perplexity", {}).items()
        },
        GREEDY: contents.greedy,
        SAMPLED: {
            name: dict(zip(of["id"], of["rougeL"], strict=True))
            for name, of in contents.values.get("rouge", {}).items()
        },
    }
    measured = []
    for metric, by_name in of_prompts.items():
        rows = {name: [Row(str(unit), {metric: of[unit]}) for unit in of] for name, of in by_name.items()}
        measured.append((metric, metric, rows))
    for task, logs in contents.tasks.items():
        metric = next((metric for each in logs.values() for log in each for metric in log.values), "")
        measured.append((task, metric, {name: [*_rows(each, metric)] for name, each in logs.items()}))
    scores = []
    for task, metric, rows in measured:
        # Of a metric of lm-eval's other than accuracy nobody here knows which values are better.
        better: Better = "lower" if metric == ENTROPY else "higher" if metric in (task, "acc") else ""
        for names in systems_of(contents.config).values():
            trainings = [log_of(contents, name, task) for name in names]
            for name, log in zip(names, trainings, strict=True):
                log.better[metric] = better
                for row in rows.get(name, ()):
                    log.add(row, name)
            scores += trainings if all(log.units for log in trainings) else []
    return scores


def _rows(logs: Sequence[Scores], metric: str) -> Iterator[Row]:
    """Of the tasks in a group, whose units and clusters may have the same names."""
    for log in logs:
        for unit, value, cluster in zip(log.units, log.values.get(metric, ()), log.clusters, strict=False):
            values = {metric: None if math.isnan(value) else value}
            yield Row(f"{log.task}/{unit}", values, cluster=cluster and f"{log.task}/{cluster}")


def measure_of(log: Scores) -> str:
    """What claims call the measure."""
    (metric,) = log.values
    return metric if metric == log.task else f"{log.task} ({metric})"


def _at_entropy(key: str) -> str:
    return f"MLE at the entropy of {key}"


def _figures(
    contents: RunContents, tasks: _Tasks, system: str, names: Sequence[str], rates: Mapping[float, float]
) -> tuple[list[Measurement], list[Measurement]]:
    """A system's figures, and what its trainings took."""
    figures: dict[str, list[float]] = {}
    for systems in tasks.values():
        trainings = systems.get(system, [])
        known = [mean for log in trainings for metric in log.values if (mean := log.mean(metric)) is not None]
        if known and len(known) == len(names):
            figures[measure_of(trainings[0])] = known
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


def objective_claims(config: Mapping[str, Any], tasks: _Tasks) -> list[Claim]:
    """Every objective against MLE by every measure, and by samples against MLE at its entropy."""
    claims, elsewhere = [], elsewhere_of(config)
    for key, names in trainings_of(config).items():
        params = {ELSEWHERE: True} if elsewhere.keys() & set(names) else {}
        for task, systems in tasks.items() if key != MLE else ():
            baselines = {MLE: MLE} | ({_at_entropy(key): control_name(key)} if task == SAMPLED else {})
            for baseline, system in baselines.items():
                ours, theirs = systems.get(key, []), systems.get(system, [])
                if ours and theirs and set.intersection(*(set(log.places) for log in ours + theirs)):
                    about = {"candidate": key, "baseline": baseline, "params": params}
                    claims.append(_claim(join(ours, theirs, paired=False), **about))
    return claims


def _claim(shared: Joined, **about: Any) -> Claim:
    first = shared.candidate[0]
    (metric,) = first.values
    share = metric != ENTROPY and samples.is_share(shared.matrix(metric))
    sample = samples.difference(shared.sides(metric), shared.clusters, kind="metric", share=share)
    sample = replace(sample, enough=sample.trainings >= LEAST_SEEDS, params={"seeded": True})
    return claim_of(sample, measure=measure_of(first), better=first.better[metric], family=OBJECTIVES, **about)


def _notes(
    contents: RunContents, tasks: _Tasks, rates: Mapping[str, Mapping[float, float]], rows: Mapping[str, int]
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
    for key, tried in rates.items():
        best = min(tried, key=lambda rate: tried[rate])
        if len(tried) > 1 and best in (min(tried), max(tried)):
            notes.append(
                f"the learning rate of {key}, {best:g}, is the last that was tried; a better one may be beyond"
            )
        notes += [f"{key} diverged with a rate of {rate:g}" for rate, score in tried.items() if math.isinf(score)]
    if tasks.keys() <= {ENTROPY, GREEDY, SAMPLED}:
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
