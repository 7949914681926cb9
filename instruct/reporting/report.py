"""The report of a run: read the run directory and the judgement store, write report.json, report.md and figures."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from instruct.analysis.lengths import lengths_of
from instruct.analysis.panel import Outcomes, agreements, majority
from instruct.data.evaluation import load_answers
from instruct.errors import InputError
from instruct.judging import comparison as judging
from instruct.judging.cards import JudgeCard
from instruct.judging.store import Judgment, JudgmentStore
from instruct.reporting.comparison import (
    compare,
    leading_policy,
    paired_comparisons,
    results_under,
    rounded,
    tally_figures,
)
from instruct.reporting.exports import write_exports
from instruct.reporting.figures import draw_figures, figures
from instruct.reporting.health import answers_health, health_warnings, histogram_edges
from instruct.reporting.judges import card_of, changed_card, describe
from instruct.reporting.lineage import lineage_warnings
from instruct.reporting.provenance import config_summary, data_hashes, phases, trainings
from instruct.reporting.render.markdown import render_markdown
from instruct.reporting.render.page import write_page
from instruct.reporting.schema import SCHEMA_VERSION, Comparison, Judge, LengthControl, Panel, Report, System, Unjudged
from instruct.runs import RunDirectory, sha256_of, write_atomically


def write_report(run_folder: str | Path, report: Report | None = None) -> Path:
    """Write report/report.{json,html,md}, figures/*.{png,svg} and exports/; each file whole or not at all.

    The same run gives the same bytes, and a figure that would be the same is not drawn again.

    Args:
        report: what build_report made of this run; None: it is built here.

    Returns:
        The path of report.md.

    Raises:
        InputError: no run directory, or nothing judged in it.
    """
    run = RunDirectory(run_folder)
    report = report or build_report(run.folder)
    draw_figures(report, run.report)
    write_atomically(run.report / "report.json", json.dumps(report, indent=2, ensure_ascii=False) + "\n")
    write_exports(run, report)
    write_page(run, report, answer_files(run, run.manifest()))
    path = run.report / "report.md"
    write_atomically(path, render_markdown(report))
    return path


@dataclass(frozen=True)
class Difficulty:
    """AlpacaEval's instruction difficulties, for weighted judges' length-controlled rates.

    `prompts`: the prompts in the leaderboard's order, for a `file` that knows them by their place alone.
    """

    file: str | Path
    prompts: str | Path | None = None


def build_report(run_folder: str | Path, difficulty: Difficulty | None = None) -> Report:
    """What report.json holds (instruct.reporting.schema), computed from the run's files and verdicts.

    Raises:
        InputError: no run directory, nothing judged in it, or a difficulty file that does not fit.
    """
    run = RunDirectory(run_folder)
    manifest, config = run.manifest(), run.config()
    found, usd = _read_store(run, manifest)
    files = answer_files(run, manifest)
    answers = {name: load_answers(path) for name, path in files.items()}
    systems = _systems(manifest, files, answers)
    lengths = {name: lengths_of(rows) for name, rows in answers.items()}
    judges: dict[str, Judge] = {}
    cards: dict[str, JudgeCard | None] = {}
    judged: set[tuple[str, str, str]] = set()
    panels: dict[tuple[str, str], dict[str, tuple[str, Outcomes]]] = {}
    for key, judgments in found.items():
        name, candidate, baseline = key
        step = key.record(manifest)
        given = step.get("inputs", {}).get("judge", {}).get("card", name)
        judged |= {(name, candidate, baseline), (given, candidate, baseline)}
        imported = bool(key.record(manifest, "import"))
        if name not in judges:
            cards[name], problem = card_of(name, step)
            judges[name] = describe(name, cards[name], problem, usd[name], imported)
        card = cards[name]
        prompts = {str(row.get("id", row["instruction"])) for row in answers.get(candidate, ())}
        both = (lengths[candidate], lengths[baseline]) if {candidate, baseline} <= lengths.keys() else None
        comparison = compare(card, candidate, baseline, judgments, prompts or None, step, both)
        comparison["warnings"] += changed_card(card, step) + lineage_warnings(run, manifest, card, step)
        comparison["warnings"] += health_warnings(comparison, systems)
        comparison["length_control"] = _length_control(run, name, comparison, answers, difficulty)
        if imported:
            comparison["notes"].append("these verdicts were read from a file, not made in this run")
        judges[name]["comparisons"].append(comparison)
        policy = leading_policy(card, judgments)
        outcomes: Outcomes = {pair.instruction: pair.outcome for pair in results_under(card, judgments, policy)}
        panels.setdefault((candidate, baseline), {})[name] = (policy, outcomes)
    report = Report(
        schema_version=SCHEMA_VERSION,
        run=str(config.get("name", run.folder.resolve().name)),
        created=manifest["created"],
        usd=usd[""],
        judges=list(judges.values()),
        panels=[_panel(*names, members) for names, members in panels.items() if len(members) > 1],
        paired=paired_comparisons(found, cards),
        not_judged=_not_judged(config, manifest, judged),
        systems=list(systems.values()),
        trainings=trainings(manifest, config, run.adapters),
        figures=[],
        config=config_summary(config),
        phases=phases(manifest),
        machine=manifest["machine"],
        versions=manifest["versions"],
        sha256=data_hashes(manifest) | _difficulty_hashes(difficulty),
    )
    report["figures"] = figures(report)
    return report


def _read_store(
    run: RunDirectory, manifest: dict[str, Any]
) -> tuple[dict[judging.Comparison, list[Judgment]], dict[str, float]]:
    """The verdicts of each comparison, and what each judge cost; under "" what all of them did."""
    # Looked for first: to open a store makes one.
    if run.store.is_file():
        with JudgmentStore(run.store) as store:
            # In the order in which they were judged, which is the config's.
            begun = [comparison for comparison, _ in judging.judged_comparisons(manifest)]
            order = sorted(store.comparisons(), key=lambda each: begun.index(each) if each in begun else len(begun))
            found = {each: store.judgments(each) for each in order}
            usd = {each.judge: round(store.spent_usd(each.judge), 6) for each in found}
            usd[""] = round(store.spent_usd(), 6)
        if found or any(judging.judged_comparisons(manifest)):
            return found, usd
    raise InputError(
        f"{run.store}: holds no verdicts; let a judge compare first: instruct judge {run.folder} --judge NAME"
    )


def answer_files(run: RunDirectory, manifest: dict[str, Any]) -> dict[str, Path]:
    """The run's answers, and the files from elsewhere that they were compared with, by the names in the store."""
    files = {path.stem: path for path in sorted(run.outputs.glob("*.json"))}
    for _, record in judging.judged_comparisons(manifest):
        for name in record["inputs"].get("answers", {}):
            path = run.answers_path(name)
            if path.is_file():
                files.setdefault(path.stem, path)
    return files


def _not_judged(config: dict[str, Any], manifest: dict[str, Any], judged: set[tuple[str, str, str]]) -> list[Unjudged]:
    """What the config, or a call that was stopped, would have compared; `judged` names a judge as store and call do."""
    wanted: dict[tuple[str, str, str], str | None] = {
        (judge["card"], *map(judging.system_name, pair)): None
        for judge in config.get("judges") or []
        for pair in judge.get("comparisons") or config.get("comparisons") or []
    }
    for (name, candidate, baseline), record in judging.judged_comparisons(manifest):
        given = record["inputs"].get("judge", {}).get("card", name)
        judge = given if (given, candidate, baseline) in wanted else name
        wanted[judge, candidate, baseline] = record.get("results", {}).get("stopped")
    return [
        Unjudged(judge=judge, candidate=candidate, baseline=baseline, stopped=stopped)
        for (judge, candidate, baseline), stopped in wanted.items()
        if (judge, candidate, baseline) not in judged
    ]


def _length_control(
    run: RunDirectory,
    judge: str,
    comparison: Comparison,
    answers: dict[str, list[dict[str, Any]]],
    difficulty: Difficulty | None,
) -> LengthControl | None:
    """AlpacaEval's rate, for the weighted judges that it is defined for."""
    if comparison["policies"]["single"]["kind"] != "weighted":
        return None
    names = (comparison["candidate"], comparison["baseline"])
    absent = [name for name in names if name not in answers]
    if difficulty is None or absent:
        why = f"the answers of {absent[0]} are not at hand" if absent else "no instruction-difficulty file was given"
        return LengthControl(win_rate=None, standard_error=None, note=f"no length-controlled rate: {why}")
    from instruct.judging.interchange.exchange import annotation_rows
    from instruct.judging.presentations import Answers
    from instruct.reporting.length_control import length_controlled_win_rate

    with JudgmentStore(run.store) as store:
        rows = annotation_rows(store, judge, *(Answers(name, answers[name]) for name in names))
    found = length_controlled_win_rate(rows, difficulty.file, difficulty.prompts)
    return LengthControl(
        win_rate=rounded(found.win_rate), standard_error=rounded(found.standard_error), note=found.note
    )


def _difficulty_hashes(difficulty: Difficulty | None) -> dict[str, str]:
    given = {} if difficulty is None else {"": difficulty.file, ", prompts of": difficulty.prompts}
    files = {f"instruction difficulties{what}": Path(file).expanduser() for what, file in given.items() if file}
    return {name: sha256_of(path) for name, path in files.items() if path.is_file()}  # what is not there was not read


def _panel(candidate: str, baseline: str, members: dict[str, tuple[str, Outcomes]]) -> Panel:
    outcomes = {name: found for name, (_, found) in members.items()}
    return Panel(
        candidate=candidate,
        baseline=baseline,
        policies={name: policy for name, (policy, _) in members.items()},
        agreements=agreements(outcomes),
        majority=tally_figures(majority(outcomes)),
    )


def _systems(
    manifest: dict[str, Any], files: dict[str, Path], answers: dict[str, list[dict[str, Any]]]
) -> dict[str, System]:
    edges = histogram_edges([len(row["output"]) for rows in answers.values() for row in rows] or [0])
    return {name: _system(manifest, name, files[name], rows, edges) for name, rows in answers.items()}


def _system(manifest: dict[str, Any], name: str, path: Path, rows: list[dict[str, Any]], edges: list[int]) -> System:
    digest = sha256_of(path)
    made = manifest["steps"].get("answers", {}).get("results", {}).get(name, {})
    if made.get("sha256") != digest:
        made = {}  # what the manifest says is about other answers
    health = answers_health([row["output"] for row in rows], edges, made)
    return System(
        name=name,
        generator=str(rows[0]["generator"]),
        sha256=digest,
        n=len(rows),
        mean_characters=health["mean_characters"],
        mean_tokens=health["mean_tokens"],
        truncated=health["truncated"],
        engine=made.get("engine"),
        health=health,
    )
