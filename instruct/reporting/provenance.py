"""What a run was made from, as far as it says: config, trainings, answers, versions; and their tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from instruct.analysis.results import recorded
from instruct.base.errors import counted, one_line
from instruct.data.options import data_label
from instruct.data.overlap import overlap_text
from instruct.measuring import words
from instruct.reporting.model import (
    EvaluationLog,
    Health,
    OverlapReport,
    ReportData,
    SystemReport,
    Training,
    TrainingLog,
)
from instruct.reporting.read import SystemAnswers
from instruct.reporting.tables import Column, Table, columns_table, text_columns

# More points would not change a figure.
_MOST_POINTS = 500
_ANSWERS = (
    "Truncated: cut off at the length limit. Tokens are the model's own, without the end token. Repeated: more than "
    "half of an answer's 4-grams repeat an earlier one (seq-rep-4, Welleck et al. 2020). A dash: unknown, for answers "
    "from elsewhere."
)


def config_summary(config: dict[str, Any], manifest: dict[str, Any]) -> dict[str, str]:
    """The experiment, a line per part; what the config leaves out is left out.

    How the prompts were answered is told by the step that answered them: flags may have changed the config since.
    """
    model, data, lora = config.get("model") or {}, config.get("data") or {}, config.get("lora")
    answers = manifest["steps"].get("answers", {}).get("config") or config.get("answers") or {}
    train = {key: value for key, value in (config.get("train") or {}).items() if key != "hub_token"}  # a secret
    method = f"{'DoRA' if lora.get('use_dora') else 'LoRA'} rank {lora.get('r')}" if lora else "full fine-tuning"
    if not model:  # a run of verdicts from elsewhere
        return {}
    parts = {
        "base model": f"{model.get('name', '?')}, {'Q' if lora and model.get('quantization') else ''}{method}",
        "data": data_label(data) if any(data.get(key) for key in ("mixture", "files", "card")) else "?",
        "training": ", ".join(f"{key} {value}" for key, value in train.items()),
        "answered": _answered(answers) if answers else "",
    }
    return {name: text for name, text in parts.items() if text}


def _answered(answers: dict[str, Any]) -> str:
    """The prompts, and what decided the answers to them; a seed matters to sampled answers only."""
    count = f" ({counted(answers['prompts'], 'prompt')})" if "prompts" in answers else ""
    decoding = answers.get("generation") or {}
    temperature = decoding.get("temperature", "?")
    parts = [f"{answers.get('eval_set', '?')}{count}", f"at most {decoding.get('max_new_tokens', '?')} tokens"]
    parts += [f"temperature {temperature}"]
    if at := answers.get("temperatures"):
        parts += ["except " + ", ".join(f"{name} at {value:g}" for name, value in at.items())]
    if at or temperature not in (0, "?"):
        parts += [f"{name} {decoding[name]}" for name in ("top_p", "seed") if name in decoding]
    parts += [f"template {answers['template']}"] if answers.get("template") else []
    return ", ".join(parts)


def trainings(
    manifest: dict[str, Any], config: dict[str, Any], logs: Mapping[str, Sequence[dict[str, Any]]]
) -> list[Training]:
    """An entry per system; counts are None until its training has finished.

    Args:
        logs: the entries of each system's training log.
    """
    configured = config.get("train") or {}
    trainings = []
    for name, system in (config.get("systems") or {}).items():
        if system.get("objective") == "none":  # the untrained base
            continue
        record = manifest["steps"].get(f"train/{name}", {})
        results, train = record.get("results", {}), record.get("config", {}).get("train") or configured
        rows, log = results.get("rows", {}), logs.get(name, ())
        trainings.append(
            Training(
                system=name,
                objective=_objective(system),
                seed=system.get("seed"),
                rows=rows["kept"] + rows.get("truncated", 0) if rows else None,
                truncated=rows.get("truncated"),
                epochs=results.get("epochs", train.get("num_train_epochs")),
                steps=results.get("steps"),
                learning_rate=train.get("learning_rate"),
                **_logs(log),
            )
        )
    return trainings


def _logs(entries: Sequence[Any]) -> dict[str, Any]:
    """What a training logged, and what was measured while it ran; None for what was not, or cannot be read."""
    log = _logged(entries, "loss", {key: key for key in ("ce", "cost", "ratio", "grad_norm")}, _MOST_POINTS)
    evaluations = _logged(entries, "eval_perplexity", {"perplexity": "eval_perplexity"})
    return {
        "log": log and TrainingLog(**log),
        "evaluations": evaluations and EvaluationLog(**evaluations),
    }


def _logged(
    entries: Sequence[Any], sign: str, names: dict[str, str], most: int | None = None
) -> dict[str, list[Any]] | None:
    """The columns of the entries that have the key `sign`, by their names in the report."""
    try:
        logged = [entry for entry in entries if sign in entry]
        thinned = logged[:: math.ceil(len(logged) / most) or 1] if most else logged
        columns = {name: [_finite(entry.get(key)) for entry in thinned] for name, key in names.items()}
        steps = [int(entry["step"]) for entry in thinned]
    except (ValueError, TypeError, KeyError):
        return None
    return {"step": steps, **columns} if steps else None


def _finite(value: float | None) -> float | None:
    """JSON has no NaN or infinity, which a diverged training logs."""
    return round(value, 6) if value is not None and math.isfinite(value) else None


def _objective(system: dict[str, Any]) -> str:
    arguments = system.get("objective_args") or {}
    return ", ".join([str(system.get("objective", "?")), *(f"{name} {value}" for name, value in arguments.items())])


def recorded_overlap(manifest: dict[str, Any]) -> OverlapReport | None:
    """The overlap that the run counted; None if it counted none, or with other prompts or rows than its systems'."""
    steps = manifest["steps"]
    record = steps.get("overlap", {})
    if record.get("status") != "done":
        return None
    trained = {step["inputs"].get("data") for name, step in steps.items() if name.startswith("train/")}
    answered = steps.get("answers", {}).get("inputs", {}).get("prompts")
    inputs = record["inputs"]
    if trained != {inputs["data"]} or answered not in (None, inputs["prompts"]):
        return None
    return OverlapReport(**{name: record["results"][name] for name in OverlapReport.model_fields})


def system_reports(manifest: dict[str, Any], answers: Mapping[str, SystemAnswers]) -> dict[str, SystemReport]:
    """What report.json holds about each system's answers; a prompt without an answer counts as failed."""
    results = manifest["steps"].get("answers", {}).get("results", {})
    systems = {}
    for name, file in answers.items():
        made = results.get(name, {})
        if made.get("sha256") != file.sha256:
            made = {}  # the manifest describes other answers
        outputs = [row["output"] for row in file.rows if not row.get("failed")]
        health = answers_health(outputs, made, failed=len(file.rows) - len(outputs))
        systems[name] = recorded(
            SystemReport,
            health,
            name=name,
            generator=str(file.rows[0]["generator"]),
            n=len(file.rows),
            mean_thinking_tokens=made.get("mean_thinking_tokens"),
            engine=_engine(made) if "engine" in made else None,
            weights=made.get("weights"),
            health=health,
        )
    return systems


def _engine(made: Mapping[str, Any]) -> str:
    """What answered, as the run recorded it."""
    others = (f"; answered by {one_line(model, 80)}, as the server says" for model in made.get("others", ()))
    return "; asked ".join([made["engine"], *made.get("changes", ())]) + "".join(others)


def answers_health(outputs: Sequence[str], made: Mapping[str, Any], failed: int = 0) -> Health:
    """What report.json holds about one system's answers.

    Args:
        outputs: the answers.
        made: what the run recorded for these answers: `truncated`, `mean_tokens`; {} if nothing.
        failed: how many prompts have no answer, which is not among the outputs.
    """
    tokens = made.get("mean_tokens")
    return Health(
        failed=failed,
        truncated=made.get("truncated"),
        mean_tokens=None if tokens is None else round(tokens, 6),
        **words.faults_and_lengths(outputs),
    )


def answers_table(report: ReportData) -> Table:
    """The answers and their faults; a column of unknowns is left out."""

    def share(name: str, system: SystemReport) -> str | None:
        count = getattr(system.health, name)
        return None if count is None else f"{count} ({100 * count / system.n:.1f} %)"

    columns = [
        Column("system", "name", text=True),
        Column("generator", text=True),
        *text_columns("engine", "weights"),
        Column("answers", "n"),
        Column("no answer", "health.failed", when="known"),
        Column("mean tokens", "mean_tokens"),
        Column("mean thinking tokens", "mean_thinking_tokens"),
        Column("mean characters", "mean_characters"),
        Column("median characters", "health.median_characters"),
        *(Column(name, partial(share, name)) for name in ("truncated", "empty", "repeated")),
    ]
    return columns_table("Answers", report.systems, columns, _ANSWERS)


def trainings_table(report: ReportData) -> Table:
    columns = [
        *text_columns("system"),
        *map(Column, ("objective", "seed", "rows", "truncated")),
        Column("epochs", form="g"),
        Column("steps"),
        Column("learning rate", "learning_rate", form="g"),
    ]
    note = "" if report.overlap is None else f"{overlap_text(report.overlap.model_dump())}."
    return columns_table("Training", report.trainings, columns, note)


def experiment_tables(report: ReportData) -> list[Table]:
    """The experiment and its versions."""
    machine = report.machine
    gpus = ", ".join(map(str, machine.get("gpus") or [])) or "no GPU"
    processor, cores, memory = (machine.get(key, "?") for key in ("processor", "cores", "memory_gib"))
    experiment = report.config | {
        "machine": f"{processor}, {cores} cores, {memory} GiB, {gpus}",
        "created": report.created,
    }
    return [
        Table("Experiment", ["part", "value"], list(experiment.items()), left=2),
        Table("Versions", ["package", "version"], list(report.versions.items()), left=2),
    ]
