"""Everything that a report is made from, read once: the manifest, the config, verdicts, replies, answers, cards."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from instruct.analysis.outcomes import Margins, PairResult, Policy, leading_policy, results_by_policy
from instruct.base.errors import InputError, UnknownNameError, one_line
from instruct.base.files import read_text, sha256_of
from instruct.base.replies import Completion
from instruct.data.evaluation import load_answers
from instruct.data.prompts import conversations, identity
from instruct.judging.cards import JudgeCard, stored_judge_card
from instruct.judging.comparison import ComparisonKey, judged_comparisons
from instruct.judging.human_agreement import agreement_words
from instruct.judging.interchange.labels import LabelScores, read_labels
from instruct.judging.store import Judgment, JudgmentStore, check_verdicts
from instruct.judging.verdicts import margins
from instruct.logs.lm_eval import read_lm_eval
from instruct.logs.source import Columns, Source
from instruct.measuring.words import answers_rouge
from instruct.run.directory import RunDirectory
from instruct.run.measurements import Metrics, read_files, read_metrics, read_values
from instruct.scores.scores import Scores

# The page shows at most this many pairs of a comparison, the first ones; only their replies are read.
MOST_PAIRS = 2000


@dataclass(frozen=True)
class SystemAnswers:
    """A file of answers in AlpacaEval's form, and its SHA-256."""

    rows: list[dict[str, Any]]
    sha256: str

    @cached_property
    def by_pair(self) -> dict[str, dict[str, Any]]:
        """The rows by what identifies their pair."""
        return {identity(row): row for row in self.rows}


@dataclass(frozen=True)
class Judged:
    """A comparison with verdicts: the judgments, the manifest's record of the judging, and the judge's card.

    `step` is {} if the manifest has no record, `card` None if it cannot be loaded (`problem` says why), `imported`
    whether the verdicts were read from a file. `sides`: the candidate's and the baseline's answers, None if missing.
    `replies` maps keys to the replies that the page shows; `margins` are those of all verdicts read from labels.
    `conversations`: by pair, of those that are turns of one.
    """

    key: ComparisonKey
    judgments: Sequence[Judgment]
    step: dict[str, Any]
    card: JudgeCard | None
    problem: str | None
    imported: bool
    sides: tuple[SystemAnswers | None, SystemAnswers | None]
    replies: dict[str, Completion]
    margins: Margins = field(default_factory=Margins)
    conversations: Mapping[str, str] = field(default_factory=dict)

    @property
    def prompts(self) -> set[str]:
        """What identifies the pairs that the judge was asked about; empty without the candidate's answers."""
        ours = self.sides[0]
        return set(ours.by_pair) if ours else set()

    @cached_property
    def times(self) -> Counter[str]:
        """How often each pair was shown."""
        return Counter(judgment.instruction for judgment in self.judgments)

    @cached_property
    def by_policy(self) -> dict[Policy, list[PairResult]]:
        """The pairs' results under each policy; without a card, no author's rule is known."""
        results = results_by_policy(self.judgments, self.card.verdict.parser if self.card else None, self.margins)
        return {policy: in_conversations(pairs, self.conversations) for policy, pairs in results.items()}

    @cached_property
    def leading(self) -> Policy:
        """The policy whose figures lead: the card's, if the pairs were shown in the orders it needs."""
        return leading_policy(self.by_policy, self.card.leading_policy if self.card else "strict")

    @property
    def pairs(self) -> list[PairResult]:
        """The results under the leading policy."""
        return self.by_policy[self.leading]


def in_conversations(pairs: list[PairResult], conversations: Mapping[str, str]) -> list[PairResult]:
    """The pairs, of which some are turns of these conversations."""
    if not conversations:
        return pairs
    return [replace(pair, conversation=conversations.get(pair.instruction, "")) for pair in pairs]


@dataclass(frozen=True)
class RunContents:
    """What a run directory holds for a report.

    `config`: what the run's steps really ran with, config.yaml's value for what they did not record. `usd`: what each
    judge's replies cost; `total_usd`: all replies. `labels`: people's, if the run has any. `metrics`: what
    `instruct evaluate` measured; `values`: those of each text, by part and system. `task_files`: lm-eval's logs of each
    task or group, by its name and system; `columns`: that of clusters, in their rows.
    """

    run: RunDirectory
    manifest: dict[str, Any]
    config: dict[str, Any]
    judged: list[Judged]
    usd: dict[str, float]
    total_usd: float
    answers: dict[str, SystemAnswers]
    labels: LabelScores | None
    metrics: Metrics
    values: Mapping[str, Mapping[str, Mapping[str, Any]]]
    task_files: Mapping[str, Mapping[str, list[Path]]] = field(default_factory=dict)
    columns: Columns = field(default_factory=Columns)

    @cached_property
    def tasks(self) -> dict[str, dict[str, list[Scores]]]:
        """The logs of tasks, which are read where they are needed."""
        return {
            task: {
                system: [log for path in paths for log in read_lm_eval(Source(path, self.columns)) or ()]
                for system, paths in by_system.items()
            }
            for task, by_system in self.task_files.items()
        }

    @cached_property
    def greedy(self) -> dict[str, dict[str, float | None]]:
        """ROUGE-L of the systems' answers, which is measured where it is needed; see `answers_rouge`."""
        return answers_rouge({name: answers.rows for name, answers in self.answers.items()})

    @property
    def by_judge(self) -> list[Judged]:
        """The comparisons in the order of the report, where a judge's stand together."""
        judges = list(dict.fromkeys(judged.key.judge for judged in self.judged))
        return sorted(self.judged, key=lambda judged: judges.index(judged.key.judge))


def seeds_of(config: Mapping[str, Any]) -> dict[str, int]:
    """The training seed of each system that has one of its own."""
    systems = (config.get("systems") or {}).items()
    return {name: system["seed"] for name, system in systems if system.get("seed") is not None}


def elsewhere_of(config: Mapping[str, Any]) -> dict[str, str]:
    """The systems that were trained elsewhere, with where their weights are."""
    systems = (config.get("systems") or {}).items()
    return {name: system["adapter"][0] for name, system in systems if system.get("adapter")}


def read_run(folder: str | Path, columns: Columns | None = None) -> RunContents:
    """Read a run directory.

    Args:
        columns: that of clusters, in the rows of tasks.

    Raises:
        InputError: not a run directory, or nothing was judged or evaluated in it.
    """
    run = RunDirectory(folder)
    manifest = run.manifest()
    config = _ran_with(run.config(), manifest)
    files = _answer_files(run, manifest)
    answers = {name: SystemAnswers(load_answers(path), sha256_of(path)) for name, path in files.items()}
    judged: list[Judged] = []
    usd: dict[str, float] = {}
    total = 0.0
    recorded = dict(judged_comparisons(manifest))
    if run.store.exists():  # opening a store would create it
        with JudgmentStore(run.store) as store:
            # In the order in which they were judged, which is the config's.
            begun = list(recorded)
            keys = sorted(store.comparisons(), key=lambda key: begun.index(key) if key in begun else len(begun))
            judged = [_judged(store, key, manifest, answers) for key in keys]
            usd = {key.judge: round(store.spent_usd(key.judge), 6) for key in keys}
            total = round(store.spent_usd(), 6)
    verdicts = {comparison.key: comparison.judgments for comparison in judged}
    for key, record in recorded.items():
        check_verdicts(run, verdicts.get(key, ()), record)
    metrics = read_metrics(run, whole=True)
    evaluated = metrics.measurements
    if not (judged or evaluated) and not (run.store.is_file() and recorded):
        raise InputError(f"{run.store}: holds no verdicts; judge first: instruct judge {run.folder}")
    labels = read_labels(run.labels) if run.labels.is_file() else None
    values: dict[str, dict[str, dict[str, Any]]] = {}
    tasks: dict[str, dict[str, list[Path]]] = {}
    for part, system in dict.fromkeys((row.part, row.system) for row in evaluated):
        kind, _, name = part.partition("/")
        if (kept := read_values(run, part, system)) is not None:
            values.setdefault(part, {})[system] = kept
        if kind == "lm_eval":
            tasks.setdefault(name, {})[system] = read_files(run, part, system)
    columns = columns or Columns()
    return RunContents(run, manifest, config, judged, usd, total, answers, labels, metrics, values, tasks, columns)


def training_logs(run: RunDirectory, manifest: Mapping[str, Any]) -> dict[str, list[Any]]:
    """The entries of each training's log, by system; a log that cannot be read has none.

    Raises:
        InputError: a log is not what was written.
    """
    logs: dict[str, list[Any]] = {}
    for path in run.adapters.glob("*/training_log.json"):
        name = path.parent.name
        results = manifest["steps"].get(f"train/{name}", {}).get("results", {})
        recorded = results.get("sha256", {}).get(path.name)
        if recorded and sha256_of(path) != recorded:
            raise InputError(f"{path}: is not what the training wrote; restore it, or delete it to report without it")
        try:
            entries = json.loads(read_text(path))
        except (OSError, ValueError):
            continue
        logs[name] = entries if isinstance(entries, list) else []
    return logs


def _ran_with(config: dict[str, Any], manifest: dict[str, Any]) -> dict[str, Any]:
    """The config with the sections that each step recorded, which flags of its call may have overridden."""
    config, systems = dict(config), dict(config.get("systems") or {})
    for step, record in manifest["steps"].items():
        recorded = record.get("config", {})
        if step.startswith("train/"):
            config |= {name: recorded[name] for name in ("model", "lora", "data") if name in recorded}
            config |= {"train": record["inputs"]["options"]["train"]} if "options" in record["inputs"] else {}
            systems |= {step.removeprefix("train/"): recorded["system"]} if "system" in recorded else {}
        elif step == "answers" and recorded:
            config |= {"answers": recorded}
    return config | ({"systems": systems} if systems else {})


def _judged(
    store: JudgmentStore, key: ComparisonKey, manifest: dict[str, Any], answers: Mapping[str, SystemAnswers]
) -> Judged:
    judgments, step = store.judgments(key), key.record(manifest)
    card, problem = None, None
    try:
        found = stored_judge_card(key.judge, step.get("inputs", {}).get("judge", {}))
        agreement_words(found)  # compares the card with the one that was measured
        card = found
    except UnknownNameError as error:  # of a judge that is unknown here the names of those that are known say nothing
        problem = one_line(error.problem)
    except InputError as error:
        problem = one_line(error)
    shown = set(list(dict.fromkeys(judgment.instruction for judgment in judgments))[:MOST_PAIRS])
    if card is not None and card.verdict.labels is not None:  # the margins of all pairs are in the replies
        shown = {judgment.instruction for judgment in judgments}
    replies = store.completions(
        sorted({part for judgment in judgments if judgment.instruction in shown for part in judgment.key.split()})
    )
    ours, theirs = answers.get(key.candidate), answers.get(key.baseline)
    rows = [row for side in (ours, theirs) if side for row in side.rows]
    return Judged(
        key=key,
        judgments=judgments,
        step=step,
        card=card,
        problem=problem,
        imported=bool(key.record(manifest, "import")),
        sides=(ours, theirs),
        replies=replies,
        margins=margins(card, judgments, replies) if card else Margins(),
        conversations=conversations([*rows, *({"instruction": judgment.instruction} for judgment in judgments)]),
    )


def _answer_files(run: RunDirectory, manifest: dict[str, Any]) -> dict[str, Path]:
    """The run's answers, and the files from elsewhere that they were compared with, by the names in the store."""
    files = {path.stem: path for path in sorted(run.outputs.glob("*.json"))}
    for _, record in judged_comparisons(manifest):
        for name in record["inputs"].get("answers", {}):
            path = run.answers_path(name)
            if path.is_file():
                files.setdefault(path.stem, path)
    return files
