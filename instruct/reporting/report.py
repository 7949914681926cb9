"""The report of a run: read the run directory and the judgement store, write report.json, report.md and figures."""

from __future__ import annotations

import json
import re
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
from instruct.reporting.schema import Comparison, Judge, Phase, Report, System, TallyFigures
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
        stem = re.sub(r"[^A-Za-z0-9_-]+", "-", judge["name"]).strip("-") or "judge"
        # Two names may come down to one file name.
        stem = f"{stem}-{number}" if f"figures/{stem}.png" in figures.values() else stem
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
    answers = {path.stem: load_answers(path) for path in sorted(run.outputs.glob("*.json"))}
    judges: dict[str, Judge] = {}
    cards: dict[str, JudgeCard] = {}
    for name, candidate, baseline, judgments in _read_store(run):
        step = manifest["steps"].get(f"judge/{name}/{candidate}_vs_{baseline}", {})
        if name not in judges:
            cards[name] = load_judge_card(_card_name(step, name))
            judges[name] = _judge(cards[name], name)
        prompts = {row["instruction"] for row in answers[candidate]} if candidate in answers else None
        comparison = _comparison(cards[name], candidate, baseline, judgments)
        comparison["warnings"] += _mismatches(judgments, prompts) + _changed(run, step)
        judges[name]["comparisons"].append(comparison)
    return Report(
        run=str(config.get("name", run.folder.resolve().name)),
        created=manifest["created"],
        versions=manifest["versions"],
        machine=manifest["machine"],
        config=_config_summary(config),
        systems=[_system(run, manifest, name, rows) for name, rows in answers.items()],
        phases=[
            Phase(step=step, status=record["status"], minutes=record.get("minutes"), attempts=record.get("attempts", 1))
            for step, record in manifest["steps"].items()
        ],
        judges=list(judges.values()),
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


def _card_name(step: dict[str, Any], name: str) -> str:
    """The card as the call gave it, which may be a path; else the judge's name."""
    given = step.get("inputs", {}).get("judge", {}).get("card", name)
    return given if given == name or Path(given).exists() else name


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


def _comparison(card: JudgeCard, candidate: str, baseline: str, judgments: Sequence[Judgment]) -> Comparison:
    seen: dict[str, int] = {}
    for judgment in judgments:
        seen[judgment.instruction] = seen.get(judgment.instruction, 0) + 1
    shown = set(seen.values())
    orders = "mixed" if len(shown) > 1 else "both" if shown == {2} else "one"
    warnings = []
    if orders == "mixed":
        once = sum(times == 1 for times in seen.values())
        warnings.append(f"{once} of {len(seen)} pairs were shown in one order only; judge again to complete them")
    # A policy for two orders says nothing about pairs that were shown in one.
    policies: Sequence[Policy] = ("single",) if orders == "one" else get_args(Policy)
    leading: Policy = card.leading_policy if card.leading_policy in policies else "single"
    if leading != card.leading_policy:
        warnings.append(
            f"the policy {card.leading_policy}, which leads by the judge's card, needs both orders; one was asked"
        )
    position = position_statistics(judgments)
    return Comparison(
        candidate=candidate,
        baseline=baseline,
        leading=leading,
        policies={
            policy: tally_figures(tally(outcomes(judgments, policy, card.verdict.parser).values()))
            for policy in policies
        },
        orders=orders,
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


def _mismatches(judgments: Sequence[Judgment], prompts: set[str] | None) -> list[str]:
    """Verdicts that are missing, and those on prompts that the candidate's answers no longer hold."""
    if prompts is None:
        return []
    judged = {judgment.instruction for judgment in judgments}
    warnings = []
    if prompts - judged:
        warnings.append(f"{len(judged & prompts)} of {len(prompts)} pairs are judged; judge again to complete them")
    if judged - prompts:
        warnings.append(f"{len(judged - prompts)} verdicts are on prompts that the run's answers do not hold")
    return warnings


def _changed(run: RunDirectory, step: dict[str, Any]) -> list[str]:
    """Answers that are others now than when they were judged."""
    warnings = []
    for name, digest in step.get("inputs", {}).get("answers", {}).items():
        path = Path(name) if name.endswith(".json") else run.outputs / f"{name}.json"
        if path.is_file() and sha256_of(path) != digest:
            warnings.append(
                f"the answers of {one_line(path.stem, 60)} have changed since they were judged; judge again"
            )
    return warnings


def _system(run: RunDirectory, manifest: dict[str, Any], name: str, rows: list[dict[str, Any]]) -> System:
    made = manifest["steps"].get("answers", {}).get("results", {}).get(name, {})
    if made and made.get("sha256") != sha256_of(run.outputs / f"{name}.json"):
        made = {}
    return System(
        name=name,
        n=len(rows),
        mean_characters=_rounded(sum(len(row["output"]) for row in rows) / len(rows)) if rows else None,
        mean_tokens=_rounded(made.get("mean_tokens")),
        truncated=made.get("truncated"),
        engine=made.get("engine"),
    )


def _config_summary(config: dict[str, Any]) -> dict[str, str]:
    """The experiment in a line a part; what a config leaves out is left out."""
    model, data, lora = config.get("model") or {}, config.get("data") or {}, config.get("lora")
    answers = config.get("answers") or {}
    decoding = answers.get("generation") or {}
    method = f"{'DoRA' if lora.get('use_dora') else 'LoRA'} rank {lora.get('r')}" if lora else "full fine-tuning"
    systems = "; ".join(f"{name} ({_objective(system)})" for name, system in (config.get("systems") or {}).items())
    parts = {
        "model": f"{model.get('name', '?')}, {'Q' if lora and model.get('quantization') else ''}{method}",
        "data": ", ".join(data.get("files") or []) or data.get("card") or "?",
        "systems": systems,
        "training": ", ".join(f"{key} {value}" for key, value in (config.get("train") or {}).items()),
        "answered": f"{answers.get('eval_set', '?')}, at most {decoding.get('max_new_tokens', '?')} tokens, "
        f"temperature {decoding.get('temperature', '?')}",
    }
    return {name: text for name, text in parts.items() if text}


def _objective(system: dict[str, Any]) -> str:
    objective = str(system.get("objective", "?"))
    if objective == "emo":
        return f"emo, {system.get('variant')}" + (", emphasis emo" if system.get("emphasis") == "emo" else "")
    return f"{objective}, gamma {system.get('gamma')}" if objective in {"mixce", "tailr"} else objective


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)
