"""What a run was made from, and whether the parts still fit together: config, trainings, phases, hashes, lineage."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from instruct.base.errors import InputError, counted, one_line
from instruct.base.files import sha256_of
from instruct.base.machine import versions
from instruct.data.options import data_label
from instruct.data.overlap import overlap_text
from instruct.judging.cards import JudgeCard
from instruct.reporting.model import EvaluationLog, OverlapReport, Phase, TaskLog, Training, TrainingLog
from instruct.run.directory import RunDirectory

# More points would not change a figure.
_MOST_POINTS = 500
# Before the name of a task and its metric in a training's log.
_TASKS = "eval_tasks/"


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


def trainings(manifest: dict[str, Any], config: dict[str, Any], adapters: Path) -> list[Training]:
    """An entry per system; counts are None until its training has finished.

    Args:
        adapters: the folder where each system's training wrote its log.

    Raises:
        InputError: a log is not what was written.
    """
    given = config.get("train") or {}
    found = []
    for name, system in (config.get("systems") or {}).items():
        if system.get("objective") == "none":  # the untrained base
            continue
        record = manifest["steps"].get(f"train/{name}", {})
        results, train = record.get("results", {}), record.get("config", {}).get("train") or given
        rows, log = results.get("rows", {}), adapters / name / "training_log.json"
        digest = results.get("sha256", {}).get(log.name)
        if digest and log.is_file() and sha256_of(log) != digest:
            raise InputError(f"{log}: is not what the training wrote; restore it, or delete it to report without it")
        found.append(
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
    return found


def _log_entries(path: Path) -> list[Any]:
    """The entries of a training's log; none if it cannot be read."""
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    return entries if isinstance(entries, list) else []


def _logs(path: Path) -> dict[str, Any]:
    """What a training logged, and what was measured while it ran; None for what was not, or cannot be read."""
    entries = _log_entries(path)
    names = dict.fromkeys(
        key for entry in entries if isinstance(entry, dict) for key in entry if key.startswith(_TASKS)
    )
    log = _logged(entries, "loss", {key: key for key in ("ce", "cost", "ratio", "grad_norm")}, _MOST_POINTS)
    evaluations = _logged(entries, "eval_perplexity", {"perplexity": "eval_perplexity"})
    tasks = _logged(entries, next(iter(names), ""), {name.removeprefix(_TASKS): name for name in names})
    return {
        "log": log and TrainingLog(**log),
        "evaluations": evaluations and EvaluationLog(**evaluations),
        "tasks": TaskLog(step=tasks.pop("step"), scores=tasks) if names and tasks else None,
    }


def _logged(
    entries: list[Any], sign: str, names: dict[str, str], most: int | None = None
) -> dict[str, list[Any]] | None:
    """The columns of the entries that have the key `sign`, by their names in the report."""
    try:
        found = [entry for entry in entries if sign in entry]
        thinned = found[:: math.ceil(len(found) / most) or 1] if most else found
        columns = {name: [_finite(entry.get(key)) for entry in thinned] for name, key in names.items()}
        steps = [int(entry["step"]) for entry in thinned]
    except (ValueError, TypeError, KeyError):
        return None
    return {"step": steps, **columns} if steps else None


def _finite(value: float | None) -> float | None:
    """JSON has no NaN or infinity, which a diverged training logs."""
    return round(value, 6) if value is not None and math.isfinite(value) else None


def phases(manifest: dict[str, Any]) -> list[Phase]:
    """The steps of the run, in the order in which they first began."""
    return [
        Phase(step=step, status=record["status"], minutes=record.get("minutes"), attempts=record.get("attempts", 1))
        for step, record in manifest["steps"].items()
    ]


def data_hashes(manifest: dict[str, Any]) -> dict[str, str]:
    """SHA-256 of training data, weights, prompts, judges' cards and imported verdicts, as the manifest names them."""
    hashes: dict[str, Any] = {}
    for step, record in manifest["steps"].items():
        inputs, (kind, _, name) = record.get("inputs", {}), step.partition("/")
        if kind == "train":
            files = record.get("results", {}).get("sha256", {}).items()
            hashes[f"training data of {name}"] = inputs.get("data")
            hashes |= {f"{file} of {name}": digest for file, digest in files if file.endswith(".safetensors")}
        elif kind == "import":
            hashes[f"verdicts of {name}"] = inputs.get("file")
        elif kind == "judge":
            hashes[f"judge card of {name}"] = inputs.get("card")
        elif kind == "answers":
            hashes["evaluation prompts"] = inputs.get("prompts")
            hashes |= {f"weights that answered as {name}": digest for name, digest in inputs.get("weights", {}).items()}
    return {name: digest for name, digest in hashes.items() if digest}


def _objective(system: dict[str, Any]) -> str:
    objective = str(system.get("objective", "?"))
    if objective == "emo":
        return f"emo, {system.get('variant')}" + (", emphasis emo" if system.get("emphasis") == "emo" else "")
    if objective == "energy":
        return f"energy, weight {system.get('energy_weight')}"
    return f"{objective}, gamma {system.get('gamma')}" if objective in {"mixce", "tailr"} else objective


# Bytes; up to this size weights are hashed again for every report, beyond it the hash that training recorded is used.
_LARGEST = 2**30


def lineage_warnings(
    run: RunDirectory, manifest: dict[str, Any], card: JudgeCard | None, step: dict[str, Any]
) -> list[str]:
    """Mismatches between what was judged and what the run holds, or between the steps that made it.

    Args:
        card: the judge's, None if it is missing.
        step: the manifest's record of the judging, {} if there is none, as for imported verdicts.
    """
    warnings = [*_changed_card(card, step), *_package(manifest, card, step)]
    for name, judged in step.get("inputs", {}).get("answers", {}).items():
        path = run.answers_path(name)
        digest = sha256_of(path) if path.is_file() else None
        if digest != judged:
            gone = f"are gone: lengths and texts are left out; restore {path}"
            changed = "have changed since they were judged; judge again"
            warnings.append(f"the answers of {one_line(path.stem, 60)} {changed if digest else gone}")
        if not name.endswith(".json"):
            warnings += _made(run, manifest, name, digest if digest == judged else None)
    return warnings


def _made(run: RunDirectory, manifest: dict[str, Any], name: str, digest: str | None) -> list[str]:
    """How a system of the run was trained and answered; `digest` None: its answers are missing or already reported."""
    steps, shown = manifest["steps"], one_line(name, 60)
    answered, trained = steps.get("answers", {}), steps.get(f"train/{name}", {})
    generated = answered.get("results", {}).get(name, {}).get("sha256")
    if generated is None:
        return []
    if digest is not None and digest != generated:
        return [f"the answers of {shown} are not those that this run generated"]
    found = []
    template, wanted = answered["inputs"].get("template"), trained.get("inputs", {}).get("template")
    if template and wanted and template != wanted:
        found.append(f"{shown} answered with the template {template} but was trained with {wanted}")
    weights = answered["inputs"].get("weights", {}).get(name)
    now = _weights(run.adapters / name, trained.get("results", {}).get("sha256", {}))
    if weights and now and weights != now:
        found.append(f"the weights of {shown} have changed since it answered; generate and judge again")
    return found


def _weights(folder: Path, recorded: dict[str, str]) -> str | None:
    """The hash of the first weight file, which the answers' step records; None if it is missing and unrecorded."""
    files = sorted(folder.glob("*.safetensors"))
    if files and files[0].stat().st_size <= _LARGEST:
        return sha256_of(files[0])
    return next((recorded[file] for file in sorted(recorded) if file.endswith(".safetensors")), None)


def _package(manifest: dict[str, Any], card: JudgeCard | None, step: dict[str, Any]) -> list[str]:
    """Whether alpaca-eval changed: an annotator's prompts, parser and seed rule come from the installed package."""
    if card is None or not card.annotator or not step:
        return []
    judged, now = (known.get("alpaca-eval") for known in (manifest["versions"] | step.get("versions", {}), versions()))
    if None in (judged, now) or judged == now:
        return []
    return [f"alpaca-eval was {one_line(judged, 40)} when these verdicts were made and is {now} now"]


def _changed_card(card: JudgeCard | None, step: dict[str, Any]) -> list[str]:
    """Whether the card gives other verdicts now than when its verdicts were made, or none at all."""
    digest = step.get("inputs", {}).get("card")
    if card is None or digest is None:
        return []
    try:
        changed = card.sha256() != digest
    except InputError as error:
        return [f"the judge's card can no longer be read in full: {one_line(error)}"]
    return ["the judge's card has changed since these verdicts were made; judge again"] * changed


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


def overlap_warnings(
    manifest: dict[str, Any], overlap: OverlapReport | None, candidate: str, baseline: str
) -> list[str]:
    """A warning for a comparison with a system that was trained on rows in which evaluation prompts were found."""
    if overlap is None or not (overlap.exact or overlap.shared):
        return []
    trained = [name for name in (candidate, baseline) if f"train/{name}" in manifest["steps"]]
    if not trained:
        return []
    return [f"{overlap_text(overlap.model_dump())}, on which {' and '.join(trained)} trained"]
