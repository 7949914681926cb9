"""Everything that a report is made from, read once: the manifest, the config, verdicts, replies, answers, cards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from instruct.analysis.outcomes import Margins
from instruct.base.errors import InputError, one_line
from instruct.base.files import sha256_of
from instruct.base.replies import Completion
from instruct.data.evaluation import load_answers
from instruct.judging.cards import JudgeCard, load_judge_card
from instruct.judging.comparison import Comparison, judged_comparisons
from instruct.judging.human_agreement import agreement_words
from instruct.judging.interchange.labels import Labels, read_labels
from instruct.judging.store import Judgment, JudgmentStore
from instruct.judging.verdicts import margins
from instruct.measuring.metrics import Metrics, read_metrics, read_values
from instruct.measuring.texts.model import SystemTexts
from instruct.run.directory import RunDirectory

# The page shows at most this many pairs of a comparison, the first ones; only their replies are read.
MOST_PAIRS = 2000


@dataclass(frozen=True)
class Judged:
    """A comparison with verdicts: the judgments, the manifest's record of the judging, and the judge's card.

    `step` is {} if the manifest has no record, `card` None if it cannot be loaded (`problem` says why), `imported`
    whether the verdicts were read from a file. `replies` maps keys to the replies that the page shows; `margins` are
    those of all verdicts read from labels.
    """

    key: Comparison
    judgments: Sequence[Judgment]
    step: dict[str, Any]
    card: JudgeCard | None
    problem: str | None
    imported: bool
    replies: dict[str, Completion]
    margins: Margins = field(default_factory=Margins)


@dataclass(frozen=True)
class SystemAnswers:
    """A file of answers in AlpacaEval's form, and its SHA-256."""

    rows: list[dict[str, Any]]
    sha256: str


@dataclass(frozen=True)
class RunContents:
    """What a run directory holds for a report.

    `config`: what the run's steps really ran with, config.yaml's value for what they did not record. `usd`: what each
    judge's replies cost; `total_usd`: all replies. `labels`: people's, if the run has any. `metrics`: what
    `instruct evaluate` measured; `text_values`: values of each text, by metric and system;
    `task_answers`: answers to each row of a few-shot task, by task and system.
    """

    run: RunDirectory
    manifest: dict[str, Any]
    config: dict[str, Any]
    judged: list[Judged]
    usd: dict[str, float]
    total_usd: float
    answers: dict[str, SystemAnswers]
    labels: Labels | None
    metrics: Metrics
    text_values: Mapping[str, Mapping[str, Mapping[str, Sequence[Any]]]]
    task_answers: Mapping[str, Mapping[str, Mapping[str, Sequence[Any]]]]


def read_run(folder: str | Path) -> RunContents:
    """Read a run directory.

    Raises:
        InputError: not a run directory, or nothing was judged or evaluated in it.
    """
    run = RunDirectory(folder)
    manifest = run.manifest()
    config = _ran_with(run.config(), manifest)
    judged: list[Judged] = []
    usd: dict[str, float] = {}
    total = 0.0
    if run.store.is_file():  # opening a store would create it
        with JudgmentStore(run.store) as store:
            # In the order in which they were judged, which is the config's.
            begun = [comparison for comparison, _ in judged_comparisons(manifest)]
            keys = sorted(store.comparisons(), key=lambda key: begun.index(key) if key in begun else len(begun))
            judged = [_judged(store, key, manifest) for key in keys]
            usd = {key.judge: round(store.spent_usd(key.judge), 6) for key in keys}
            total = round(store.spent_usd(), 6)
    metrics = read_metrics(run)
    evaluated = metrics.texts or metrics.tasks or metrics.lm_eval
    if not (judged or evaluated) and not (run.store.is_file() and any(judged_comparisons(manifest))):
        raise InputError(f"{run.store}: holds no verdicts; judge first: instruct judge {run.folder} --judge NAME")
    files = _answer_files(run, manifest)
    answers = {name: SystemAnswers(load_answers(path), sha256_of(path)) for name, path in files.items()}
    labels = read_labels(run.labels) if run.labels.is_file() else None
    values = _text_values(run, metrics)
    tasks = _task_answers(run, metrics)
    return RunContents(run, manifest, config, judged, usd, total, answers, labels, metrics, values, tasks)


def _task_answers(run: RunDirectory, metrics: Metrics) -> dict[str, dict[str, dict[str, list[Any]]]]:
    """The answers to each row of a task, by task and system."""
    found: dict[str, dict[str, dict[str, list[Any]]]] = {}
    for system, results in metrics.tasks.items():
        for key in results.root:
            if (columns := read_values(run, f"tasks/{key}", system, ("label", "answer"))) is not None:
                found.setdefault(key, {})[system] = columns
    return found


def _text_values(run: RunDirectory, metrics: Metrics) -> dict[str, dict[str, dict[str, list[Any]]]]:
    found: dict[str, dict[str, dict[str, list[Any]]]] = {}
    for metric in SystemTexts.model_fields:
        for system in metrics.texts:
            if (columns := read_values(run, metric, system)) is not None:
                found.setdefault(metric, {})[system] = columns
    return found


def _ran_with(config: dict[str, Any], manifest: dict[str, Any]) -> dict[str, Any]:
    """The config with the sections that each step recorded, which flags of its call may have overridden."""
    config, systems = dict(config), dict(config.get("systems") or {})
    for step, record in manifest["steps"].items():
        inputs, recorded = record.get("inputs", {}), record.get("config", {})
        if step.startswith("train/"):
            config |= {name: inputs[name] for name in ("model", "lora", "train") if name in inputs}
            config |= {"data": recorded["data"]} if "data" in recorded else {}
            systems |= {step.removeprefix("train/"): inputs["system"]} if "system" in inputs else {}
        elif step == "answers":
            answers = recorded or inputs.get("answers")
            config |= {"answers": answers} if answers else {}
    return config | ({"systems": systems} if systems else {})


def _judged(store: JudgmentStore, key: Comparison, manifest: dict[str, Any]) -> Judged:
    judgments = store.judgments(key)
    shown = set(list(dict.fromkeys(judgment.instruction for judgment in judgments))[:MOST_PAIRS])
    keys = {part for judgment in judgments if judgment.instruction in shown for part in judgment.key.split()}
    step = key.record(manifest)
    card, problem = _card(key.judge, step)
    imported = bool(key.record(manifest, "import"))
    replies = store.completions(sorted(keys))
    known = Margins()
    if card is not None and card.verdict.labels is not None:
        beyond = {part for judgment in judgments for part in judgment.key.split()} - keys
        known = margins(card, judgments, {**replies, **store.completions(sorted(beyond))})
    return Judged(key, judgments, step, card, problem, imported, replies, known)


def _card(name: str, step: dict[str, Any]) -> tuple[JudgeCard | None, str | None]:
    """The card of a judge, by its name in the store and the record of its judging; or None, and why."""
    given = step.get("inputs", {}).get("judge", {})
    base, _, other = name.partition("@")
    model = given.get("model") or other or None
    path = given.get("card", "")  # the call may have given the card by its path
    try:
        by_path = bool(path) and Path(path).exists()
        card = load_judge_card(path if by_path else base, model, by_path=by_path)
        agreement_words(card)  # compares the card with the one that was measured
        return card, None
    except InputError as error:
        return None, one_line(error)


def _answer_files(run: RunDirectory, manifest: dict[str, Any]) -> dict[str, Path]:
    """The run's answers, and the files from elsewhere that they were compared with, by the names in the store."""
    files = {path.stem: path for path in sorted(run.outputs.glob("*.json"))}
    for _, record in judged_comparisons(manifest):
        for name in record["inputs"].get("answers", {}):
            path = run.answers_path(name)
            if path.is_file():
                files.setdefault(path.stem, path)
    return files
