"""The readers of what a run measured: its report, its metrics, and the values behind these."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

from reading import Reader

from instruct.reporting.report import Report, build_report
from instruct.reporting.tasks import task_measurements
from instruct.reporting.texts import text_results, text_systems
from instruct.run.directory import RunDirectory
from instruct.run.measurements import (
    Measurement,
    Metrics,
    Number,
    metrics_path,
    numbers,
    values_path,
    write_numbers,
    write_values,
)
from instruct.training.options import without_seed

ROOT = Path(__file__).resolve().parents[2]


def rows(system: str, part: str, figures: dict[str, float | None], /, **details: Any) -> list[dict[str, Any]]:
    about = {"system": system, "part": part, "n": 2, "details": details}
    return [about | {"metric": metric, "value": value} for metric, value in figures.items()]


def texts(system: str, shift: float) -> list[dict[str, Any]]:
    at = {
        "forward_cross_entropy": 3 + shift, "reverse_cross_entropy": 2.0, "total_variation": 0.3, "forward_kl": 0.5,
        "reverse_kl": 0.4, "jensen_shannon": 0.1,
    }  # fmt: skip
    rouge = {f"rouge{kind}{part}": 0.1 for kind in "12L" for part in ("", "_whole")}
    mauve = {"star": 0.9, "clusters": 2, "features": "f", "max_length": 8, "by_draw": {"0/0": 0.9}}
    return [
        *rows(system, "perplexity", {"perplexity": 6 + shift}, tokens=4, words=3, bytes=20),
        *rows(system, "entropy", {"entropy": 2 + shift}, temperature=1.0, tokens=4),
        *rows(system, "distances", at, reference="r", temperature=1.0, curve=[[0.8, 2.5], [1.2, 3.5]]),
        *rows(system, "oracle_perplexity", {"oracle_perplexity": 9 + shift}, reference="r", tokens=4, empty=1),
        *rows(system, "mauve", {"mauve": 0.9 - shift}, **mauve, curve=[[1.0, 0.0], [0.8, 0.8], [0.0, 1.0]]),
        *rows(system, "rouge", rouge, without_tokens=0),
        *rows(system, "diversity", {"distinct_1": 0.5, "distinct_2": 1.0, "repetition": 0.1}, empty=1, continuations=2),
    ]


MATCHED = {"mle": "mle", "system": "emo", "system_temperature": 1.0, "system_entropy": 2.0, "entropy": 2.0}
ARC = {"task": "arc", "shots": 0, "standard_error": 0.1}
METRICS: dict[str, Any] = {
    "version": 2,
    "measurements": [
        *texts("mle", 0.3),
        *texts("emo", 0.0),
        *rows("emo", "matched", {"matched_temperature": None}, reason="none was asked for"),
        *texts("dft-seed1", 0.2),
        *texts("dft-seed2", 0.25),
        *texts("mle-matched-emo", 0.1),
        *rows("mle-matched-emo", "matched", {"matched_temperature": 0.9}, **MATCHED),
        *rows("emo", "lm_eval/arc", {"acc": 0.4}, **ARC),
    ],
}
PERPLEXITY_VALUES = {"id": ["a", "b", "c"], "nats": [3.0, 4.0, 2.5], "tokens": [2, 2, 1]}
SYSTEMS = {name: {"objective": name} for name in ("mle", "emo")}
TRAININGS = SYSTEMS | {f"dft-seed{seed}": {"objective": "dft", "seed": seed} for seed in (1, 2)}


def holds(written: object, content: object) -> bool:
    """Whether `written` is the same but for keys that `content` lacks, which are read as their defaults."""
    if isinstance(content, dict) and isinstance(written, dict):
        return all(key in written and holds(written[key], value) for key, value in content.items())
    if isinstance(content, list) and isinstance(written, list):
        return len(written) == len(content) and all(map(holds, written, content))
    return written == content


def read_report(path: Path) -> None:
    """A report is what its file says, and can be rendered."""
    report = Report.read(path)
    content = json.loads(path.read_bytes())
    written = json.loads(report.to_json())
    assert holds(written, content)
    comparisons = sum(len(judge.comparisons) for judge in report.judges)
    assert len(report.rows()) >= comparisons + len(report.claims)
    assert len(report.headlines()) == sum(len(judge.comparisons) for judge in report.judges)
    assert str(report)
    assert report.to_markdown()
    assert report.to_html()


def read_run_metrics(path: Path) -> None:
    """The metrics of a run: each system with figures is in its report."""
    run = RunDirectory(path.parent / "run")
    run.start({"name": "run", "systems": TRAININGS})
    try:
        shutil.copyfile(path, metrics_path(run))
        for system in SYSTEMS:
            write_values(run, "perplexity", system, PERPLEXITY_VALUES)
        report = build_report(run.folder)
        rows = [row for row in Metrics.model_validate_json(path.read_bytes()).measurements if row.value is not None]
        theirs = [row.system for row in rows if row.kind == "lm_eval"]
        assert Counter(theirs) == Counter(row.system for row in report.measurements if row.kind == "lm_eval")
        measured = {row.system for row in rows if (row.kind, row.metric) == ("perplexity", "perplexity")}
        shown = text_systems(report.measurements).keys()
        assert {without_seed(name, TRAININGS.get(name, {}).get("seed")) for name in measured} <= shown
        write_numbers(run, "matched", "emo", numbers({"matched_temperature": None}, None, reason="not measured"))
        report.to_markdown()
    finally:
        shutil.rmtree(run.folder)


def read_text_values(path: Path) -> None:
    """The report of a run in which a file has the values behind a system's figures."""
    run = RunDirectory(path.parent / "run")
    run.start({"name": "run", "systems": SYSTEMS})
    try:
        for system in SYSTEMS:
            rows = [row for row in MEASURED.measurements if (row.system, row.part) == (system, "perplexity")]
            write_numbers(run, "perplexity", system, [Number.model_validate(plain(row)) for row in rows])
            write_values(run, "perplexity", system, PERPLEXITY_VALUES)
        shutil.copyfile(path, values_path(run, "perplexity", "emo"))
        report = build_report(run.folder)
        assert text_systems(report.measurements).keys() == SYSTEMS.keys()
    finally:
        shutil.rmtree(run.folder)


def plain(row: Measurement) -> dict[str, Any]:
    return {name: value for name, value in row.model_dump().items() if name not in ("system", "part")}


REPORT = json.loads((ROOT / "tests" / "golden" / "report" / "report.json").read_text())
# What the golden report leaves out, because it differs from run to run.
REPORT |= {"created": "2026-01-01T00:00:00+00:00", "machine": {"cpus": 2}, "versions": {"torch": "2"}}
MEASURED = Metrics.model_validate(METRICS)
ABOUT_TEXTS = text_results(MEASURED, {}, {"systems": TRAININGS}, {})
MEASURED_REPORT = REPORT | {
    "measurements": [row.model_dump() for row in (*ABOUT_TEXTS.measurements, *task_measurements(MEASURED))],
    "claims": [claim.model_dump(mode="json") for claim in ABOUT_TEXTS.claims],
}


MEASURED_READERS = {
    "report": Reader((".json",), (REPORT, MEASURED_REPORT), read_report),
    "metrics": Reader((".json",), (METRICS,), read_run_metrics, ("metrics.json", "holds no verdicts")),
    "values of texts": Reader((".json",), (PERPLEXITY_VALUES,), read_text_values, ("perplexity/emo.json",)),
}
