"""What `instruct bench` finds, and its tables: figures of objectives over seeds, and paired differences from MLE."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from instruct.analysis.claims import LEAST_SEEDS, finding_of, holm
from instruct.analysis.measured_results import JUDGED, Bench, BenchDifference, BenchSystem
from instruct.analysis.seeds import score_difference
from instruct.data.prompts import identity
from instruct.measuring.human_text import control_name
from instruct.measuring.texts.rouge import rouge
from instruct.reporting.model import ReportData
from instruct.reporting.read import RunContents, seeds_of
from instruct.reporting.tables import Column, Table, columns_table
from instruct.reporting.tasks import scored_rows
from instruct.reporting.text import capital, signed
from instruct.training.options import without_seed

# Score by prompt.
Scores = Mapping[str, float | None]
GREEDY, SAMPLED, ENTROPY = "ROUGE-L", "ROUGE-L of samples", "cross-entropy"
_OTHER_FIGURES = {"entropy": "entropy", "matched_temperature": "temperature", "distinct_2": "distinct-2 of samples"}


@dataclass(frozen=True)
class _Measured:
    """What was measured of each training: `names` by objective and seed, `scores` by measure and system."""

    contents: RunContents
    names: Mapping[str, Mapping[int, str]]
    scores: Mapping[str, Mapping[str, Scores]]

    def of(self, measure: str, names: Sequence[str]) -> list[Scores]:
        """The scores of some systems; [] if one has none."""
        known = self.scores[measure]
        return [known[name] for name in names] if all(name in known for name in names) else []


STEP = "bench"  # of the manifest: which learning rates were tried, and how many rows there were


def bench_of(contents: RunContents, report: ReportData) -> Bench | None:
    """What a run of `instruct bench` found; None of other runs. `report`: the run's, with what judges found."""
    record = contents.manifest["steps"].get(STEP)
    if record is None or record["status"] != "done":
        return None
    rows = record["inputs"]["rows"]
    rates = {
        key: {float(rate): math.inf if score is None else score for rate, score in tried.items()}
        for key, tried in record["inputs"]["rates"].items()
    }
    names: dict[str, dict[int, str]] = {}
    for name, seed in seeds_of(contents.config).items():
        names.setdefault(without_seed(name, seed), {})[seed] = name
    measured = _Measured(contents, names, _scores(contents))
    systems = [_system(measured, key, list(own.values()), rates.get(key, {})) for key, own in names.items()]
    others = {_at_entropy(key): [control_name(name) for name in own.values()] for key, own in names.items()}
    others |= {name: [name] for name, system in contents.config["systems"].items() if system["objective"] == "none"}
    systems += [system for label, own in others.items() if (system := _system(measured, label, own, {})).figures]
    differences = _differences(measured)
    for difference, p in zip(differences, holm([difference.p for difference in differences]), strict=True):
        difference.p_holm, difference.finding = p, _finding(difference, p)
    notes = _notes(measured, report, rates, rows)
    return Bench(rows=rows, systems=systems, differences=differences + _verdicts(report), notes=notes)


def _at_entropy(key: str) -> str:
    return f"MLE at the entropy of {key}"


def _scores(contents: RunContents) -> dict[str, Mapping[str, Scores]]:
    values = contents.values
    likelihoods = {
        name: {key: nats / count for key, nats, count in _rows(columns, "nats", "tokens") if count}
        for name, columns in values.get("perplexity", {}).items()
    }
    sampled = {name: dict(_rows(columns, "rougeL")) for name, columns in values.get("rouge", {}).items()}
    scores: dict[str, Mapping[str, Scores]] = {ENTROPY: likelihoods, GREEDY: _answers(contents), SAMPLED: sampled}
    for part, systems in values.items():
        if part.startswith(("tasks/", "lm_eval/")):
            metric, scored = scored_rows(part, systems)
            scores[f"{part.partition('/')[2]} ({metric})"] = scored
    return {measure: systems for measure, systems in scores.items() if systems}


def _rows(columns: Mapping[str, Any], *names: str) -> Iterator[Any]:
    return zip(*(columns[name] for name in ("id", *names)), strict=True)


def _answers(contents: RunContents) -> dict[str, Scores]:
    """ROUGE-L F1 of each greedy answer; None of one that failed."""
    known = {name: answers.rows for name, answers in contents.answers.items()}
    references = {identity(row): row["output"] for row in known.pop("baseline", [])}
    return {
        name: {
            identity(row): None if row.get("failed") else rouge(references[identity(row)], row["output"])["rougeL"]
            for row in rows
            if identity(row) in references
        }
        for name, rows in known.items()
    }


def _system(measured: _Measured, label: str, names: Sequence[str], rates: Mapping[float, float]) -> BenchSystem:
    contents = measured.contents
    figures: dict[str, list[float]] = {}
    for measure in measured.scores:
        for scores in measured.of(measure, names):
            figures.setdefault(measure, []).append(statistics.fmean(one for one in scores.values() if one is not None))
    for metric, shown in _OTHER_FIGURES.items():
        known = [contents.metrics.value(name, metric) for name in names]
        if all(value is not None for value in known):
            figures[shown] = [value for value in known if value is not None]
    finished = contents.manifest["steps"].get("answers", {}).get("results", {})
    for name in names:
        if name in finished and name in contents.answers:
            answers = [row["output"] for row in contents.answers[name].rows]
            figures.setdefault("words", []).append(statistics.fmean(len(answer.split()) for answer in answers))
            figures.setdefault("without end", []).append(finished[name]["truncated"] / len(answers))
    records = [contents.manifest["steps"].get(f"train/{name}", {}) for name in names]
    minutes = [record["minutes"] for record in records if record.get("minutes") is not None]
    peaks = [peak for record in records if (peak := (record.get("results") or {}).get("peak_gib")) is not None]
    chosen = {contents.config["systems"].get(name, {}).get("learning_rate") for name in names}
    return BenchSystem(
        name=label,
        trainings=len(names),
        learning_rate=chosen.pop() if len(chosen) == 1 else None,
        rates={f"{rate:g}": score for rate, score in rates.items()},
        figures={measure: statistics.fmean(values) for measure, values in figures.items()},
        deviations={measure: statistics.stdev(values) for measure, values in figures.items() if len(values) > 1},
        minutes=statistics.fmean(minutes) if minutes else None,
        gib=statistics.fmean(peaks) if peaks else None,
    )


def _differences(measured: _Measured) -> list[BenchDifference]:
    """Every objective against MLE by every measure, and by samples against MLE at its entropy."""
    mle, differences = measured.names["mle"], []
    for key, own in measured.names.items():
        if key == "mle":
            continue
        ours, standard = list(own.values()), {"mle": [mle[seed] for seed in own]}
        for measure in measured.scores:
            controls = {_at_entropy(key): list(map(control_name, ours))} if measure == SAMPLED else {}
            for second, theirs in (standard | controls).items():
                scores = measured.of(measure, ours), measured.of(measure, theirs)
                if all(scores):
                    names: dict[str, Any] = {"measure": measure, "first": key, "second": second}
                    difference = score_difference(*scores)._asdict()
                    row = BenchDifference(**names, trainings=len(ours), **difference, p_holm=None, finding="")
                    differences.append(row)
    return differences


def _verdicts(report: ReportData) -> list[BenchDifference]:
    """What judges found, over seeds and prompts: the win rate's distance from one half, corrected as the claim is."""
    return [
        BenchDifference(
            measure=f"{JUDGED} ({spread.judge})",
            first=spread.candidate,
            second=spread.baseline,
            trainings=len(spread.seeds),
            n=spread.n,
            difference=spread.mean / 100 - 0.5,
            interval=spread.interval_both and [end / 100 - 0.5 for end in spread.interval_both],
            p=spread.p,
            p_holm=spread.adjusted_p,
            finding=_FINDINGS.get(spread.finding, _FEW),
        )
        for spread in report.seeds
    ]


_FEW = f"fewer than {LEAST_SEEDS} seeds"
_FINDINGS = {"candidate": "better", "baseline": "worse", "no difference": "no difference shown"}
# Of a metric of lm-eval's, which may be one of those where less is better.
_DIRECTIONS = {**_FINDINGS, "candidate": "higher", "baseline": "lower"}


def _finding(difference: BenchDifference, p: float | None) -> str:
    """By the rule of every claim: LEAST_SEEDS trainings, and a corrected p of at most 5 %."""
    value = difference.difference or 0.0
    gain = -value if difference.measure == ENTROPY else value
    finding = finding_of(p, 50 + gain, difference.trainings >= LEAST_SEEDS)
    measure = difference.measure
    known = measure in (ENTROPY, GREEDY, SAMPLED) or measure.endswith("(accuracy)")
    words = _FINDINGS if known else _DIRECTIONS
    return words.get(finding, _FEW)


def _notes(
    measured: _Measured, report: ReportData, rates: Mapping[str, Mapping[float, float]], rows: Mapping[str, int]
) -> list[str]:
    contents = measured.contents
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
    if not report.judges:
        notes.append("no judge compared the answers (--judge)")
    if failed := sum(bool(row.get("failed")) for answers in contents.answers.values() for row in answers.rows):
        notes.append(f"{failed:,} answers failed; their prompts are left out of ROUGE-L's differences")
    for row in contents.metrics.measurements:
        if row.metric == "matched_temperature" and row.value is None:
            notes.append(f"{row.system} has no control at its entropy: {row.details.reason}")
    peaks = "GiB: the largest GPU memory of a training, or of the process without a GPU"
    return [*notes, f"minutes and {peaks}"]


def bench_tables(bench: Bench) -> list[Table]:
    """Every objective's figures, and their differences from those of MLE."""
    names = list(dict.fromkeys(name for system in bench.systems for name in system.figures))
    columns = [
        Column("system", "name", text=True),
        Column("learning rate", "learning_rate", form="g"),
        Column("trainings"),
        *(Column(name, _cell(name)) for name in names),
        Column("minutes", form=".1f"),
        Column("GiB", "gib", form=".1f"),
    ]
    tests = [
        Column("difference", lambda row: f"{row.first} − {row.second}", text=True),
        Column("of", "measure", text=True),
        Column("seeds", "trainings"),
        Column("n"),
        Column("mean", "difference", form=signed),
        Column("95 % CI", "interval", form=lambda ends: " to ".join(map(signed, ends))),
        Column("p (Holm)", "p_holm", form=".3g"),
        Column("finding"),
    ]
    parts = ", ".join(f"{count:,} rows to {part}" for part, count in bench.rows.items())
    return [
        columns_table("Objectives", bench.systems, columns, f"{parts}, with different prompts."),
        columns_table(
            "Objectives beside MLE", bench.differences, tests, " ".join(f"{capital(note)}." for note in bench.notes)
        ),
    ]


def _cell(name: str) -> Callable[[BenchSystem], str | None]:
    def cell(row: BenchSystem) -> str | None:
        if name not in row.figures:
            return None
        spread = f" ± {row.deviations[name]:.4f}" if name in row.deviations else ""
        return f"{row.figures[name]:.4f}{spread}"

    return cell
