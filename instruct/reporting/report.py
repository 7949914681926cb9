"""The report of a run: read the run directory and the judgement store, write report.json, report.md and figures."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

from instruct.data.evaluation import load_answers
from instruct.errors import InputError, one_line
from instruct.judging.cards import JudgeCard, Policy, load_judge_card
from instruct.judging.policies import outcomes
from instruct.judging.store import Judgment, JudgmentStore
from instruct.reporting.markdown import render_markdown
from instruct.reporting.plots import draw_comparisons
from instruct.reporting.provenance import config_summary, data_hashes, phases, trainings
from instruct.reporting.schema import SCHEMA_VERSION, Comparison, Judge, Report, System, TallyFigures, Unjudged
from instruct.reporting.statistics import Tally, position_statistics, tally
from instruct.runs import RunDirectory, sha256_of, write_atomically


def write_report(run_folder: str | Path) -> Path:
    """Write report/report.json, report/report.md and report/figures/JUDGE.{png,svg}; each file whole or not at all.

    The same run gives the same bytes.

    Returns:
        The path of report.md.

    Raises:
        InputError: no run directory, no verdicts in it, or a judge whose card is not found.
    """
    run = RunDirectory(run_folder)
    report = build_report(run.folder)
    figures: dict[str, str] = {}
    for number, judge in enumerate(report["judges"], 1):
        stem = re.sub(r"[^A-Za-z0-9_-]+", "-", judge["name"]).strip("-")[:60] or "judge"
        # Two names may come down to one file name, on some disks by their case alone.
        taken = {path.lower() for path in figures.values()}
        stem = f"{stem}-{number}" if f"figures/{stem}.png".lower() in taken else stem
        draw_comparisons(judge, run.report / "figures" / stem)
        figures[judge["name"]] = f"figures/{stem}.png"
    write_atomically(run.report / "report.json", json.dumps(report, indent=2, ensure_ascii=False) + "\n")
    path = run.report / "report.md"
    write_atomically(path, render_markdown(report, figures))
    return path


def build_report(run_folder: str | Path) -> Report:
    """What report.json holds (instruct.reporting.schema), computed from the run's files and verdicts.

    Raises:
        InputError: no run directory, no verdicts in it, or a judge whose card is not found.
    """
    run = RunDirectory(run_folder)
    manifest, config = run.manifest(), run.config()
    found = _read_store(run)
    files = _answer_files(run, manifest)
    answers = {name: load_answers(path) for name, path in files.items()}
    judges: dict[str, Judge] = {}
    cards: dict[str, JudgeCard] = {}
    judged: set[tuple[str, str, str]] = set()
    for name, candidate, baseline, judgments in found:
        step = manifest["steps"].get(f"judge/{name}/{candidate}_vs_{baseline}", {})
        given = step.get("inputs", {}).get("judge", {}).get("card", name)
        judged |= {(name, candidate, baseline), (given, candidate, baseline)}
        if name not in judges:
            # The call may have given the card by its path.
            cards[name] = load_judge_card(given if Path(given).exists() else name)
            judges[name] = _judge(cards[name], name)
        prompts = {row["instruction"] for row in answers[candidate]} if candidate in answers else None
        comparison = _comparison(cards[name], candidate, baseline, judgments, prompts, step.get("status") == "started")
        comparison["warnings"] += _changed(run, step)
        judges[name]["comparisons"].append(comparison)
    return Report(
        schema_version=SCHEMA_VERSION,
        run=str(config.get("name", run.folder.resolve().name)),
        created=manifest["created"],
        judges=list(judges.values()),
        not_judged=_not_judged(config, judged),
        systems=[_system(manifest, name, files[name], rows) for name, rows in answers.items()],
        trainings=trainings(manifest, config),
        config=config_summary(config),
        phases=phases(manifest),
        machine=manifest["machine"],
        versions=manifest["versions"],
        sha256=data_hashes(manifest),
    )


def _read_store(run: RunDirectory) -> list[tuple[str, str, str, list[Judgment]]]:
    # Looked for first: to open a store makes one.
    if run.store.is_file():
        with JudgmentStore(run.store) as store:
            found = [(*names, store.judgments(*names)) for names in store.comparisons()]
        if found:
            return found
    raise InputError(
        f"{run.store}: holds no verdicts; let a judge compare first: instruct judge {run.folder} --judge NAME"
    )


def _answer_files(run: RunDirectory, manifest: dict[str, Any]) -> dict[str, Path]:
    """The run's answers, and the files from elsewhere that they were compared with, by the names in the store."""
    files = {path.stem: path for path in sorted(run.outputs.glob("*.json"))}
    for step, record in manifest["steps"].items():
        for name in record["inputs"].get("answers", {}) if step.startswith("judge/") else ():
            path = _answers_path(run, name)
            if path.is_file():
                files.setdefault(path.stem, path)
    return files


def _answers_path(run: RunDirectory, name: str) -> Path:
    return Path(name) if name.endswith(".json") else run.outputs / f"{name}.json"


def _not_judged(config: dict[str, Any], judged: set[tuple[str, str, str]]) -> list[Unjudged]:
    """What the config would have compared; `judged` names a judge as the store does and as the call did."""
    wanted = [
        (judge["card"], *(Path(name).stem if name.endswith(".json") else name for name in pair))
        for judge in config.get("judges") or []
        for pair in judge.get("comparisons") or config.get("comparisons") or []
    ]
    return [Unjudged(judge=j, candidate=c, baseline=b) for j, c, b in wanted if (j, c, b) not in judged]


def _judge(card: JudgeCard, name: str) -> Judge:
    return Judge(
        name=name,
        description=card.description,
        model=card.model,
        human_agreement=card.human_agreement,
        warning=card.warning,
        notes=card.notes,
        comparisons=[],
    )


def _comparison(
    card: JudgeCard,
    candidate: str,
    baseline: str,
    judgments: Sequence[Judgment],
    prompts: set[str] | None,
    unfinished: bool,
) -> Comparison:
    """One comparison's figures. `prompts`: those of the candidate's answers, None where these are not at hand."""
    times = Counter(judgment.instruction for judgment in judgments)
    shown = max(times.values())
    in_both = [judgment for judgment in judgments if times[judgment.instruction] == 2]
    # A policy for two orders says nothing about pairs that were shown in one.
    policies: Sequence[Policy] = ("single",) if shown == 1 else get_args(Policy)
    leading: Policy = card.leading_policy if card.leading_policy in policies else "single"
    wanted = times.keys() if prompts is None else prompts
    judged = sum(times[instruction] == shown for instruction in wanted)

    warnings = []
    partial = unfinished or judged < len(wanted)
    if partial:
        warnings.append(
            f"PARTIAL: judging has not finished; {judged} of {len(wanted)} pairs are judged"
            f"{' in both orders' if shown == 2 else ''}; the same judge command goes on where it stopped"
        )
    if times.keys() - wanted:
        warnings.append(
            f"{len(times.keys() - wanted)} verdicts are on prompts that the candidate's answers do not hold"
        )
    if leading != card.leading_policy:
        warnings.append(
            f"the policy {card.leading_policy}, which leads by the judge's card, needs both orders; one was shown"
        )
    position = position_statistics(judgments)
    return Comparison(
        candidate=candidate,
        baseline=baseline,
        leading=leading,
        policies={
            policy: tally_figures(
                tally(outcomes(judgments if policy == "single" else in_both, policy, card.verdict.parser).values())
            )
            for policy in sorted(policies, key=lambda policy: policy != leading)
        },
        orders="both" if shown == 2 else "one",
        pairs_judged=judged,
        pairs_expected=len(wanted),
        partial=partial,
        consistency=_rounded(position.consistency),
        consistency_n=position.in_both,
        first_position_rate=_rounded(position.first_position_rate),
        first_position_n=position.decided,
        warnings=warnings,
    )


def tally_figures(counts: Tally) -> TallyFigures:
    """A tally as report.json holds it, figures to six decimals as AlpacaEval's leaderboards print them."""
    return TallyFigures(
        n=counts.n,
        n_judged=counts.n_judged,
        win=counts.win,
        tie=counts.tie,
        loss=counts.loss,
        unparsed=counts.unparsed,
        failed=counts.failed,
        win_rate=_rounded(counts.win_rate),
        standard_error=_rounded(counts.standard_error),
        interval=[round(value, 6) for value in counts.interval] if counts.interval else None,
        bounds=[round(value, 6) for value in counts.bounds] if counts.bounds else None,
        finding=counts.finding,
        reversible=counts.reversible,
    )


def _changed(run: RunDirectory, step: dict[str, Any]) -> list[str]:
    """Answers that are others now than when they were judged."""
    return [
        f"the answers of {one_line(path.stem, 60)} have changed since they were judged; judge again"
        for name, digest in step.get("inputs", {}).get("answers", {}).items()
        if (path := _answers_path(run, name)).is_file() and sha256_of(path) != digest
    ]


def _system(manifest: dict[str, Any], name: str, path: Path, rows: list[dict[str, Any]]) -> System:
    digest = sha256_of(path)
    made = manifest["steps"].get("answers", {}).get("results", {}).get(name, {})
    if made.get("sha256") != digest:
        made = {}  # what the manifest says is about other answers
    return System(
        name=name,
        generator=str(rows[0]["generator"]),
        sha256=digest,
        n=len(rows),
        mean_characters=_rounded(sum(len(row["output"]) for row in rows) / len(rows)),
        mean_tokens=_rounded(made.get("mean_tokens")),
        truncated=made.get("truncated"),
        engine=made.get("engine"),
    )


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)
