"""The report of a run, computed from what read.read_run read."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from instruct.analysis.outcomes import Policy
from instruct.analysis.paired import paired_difference
from instruct.analysis.results import Paired, rounded
from instruct.analysis.style import style_counts
from instruct.base.errors import InputError, counted, one_line
from instruct.base.files import sha256_of
from instruct.data.evaluation import identity, of_sets
from instruct.judging.comparison import file_comparisons, judged_comparisons, system_name
from instruct.judging.human_agreement import agreement_warnings, agreement_words
from instruct.reporting.bench import bench_of
from instruct.reporting.cautions import figure_warnings, left_out_warnings, training_warnings
from instruct.reporting.comparison import Outcomes, comparison_figures, outcomes_of, recorded
from instruct.reporting.figures import figures
from instruct.reporting.findings import settle
from instruct.reporting.health import answers_health, health_warnings, histogram_edges
from instruct.reporting.human_labels import with_labels
from instruct.reporting.label_agreement import add_label_agreement
from instruct.reporting.length_control import Difficulty, kept_difficulty, length_controlled_win_rate, no_length_control
from instruct.reporting.model import (
    SCHEMA_VERSION,
    ComparisonReport,
    JudgeReport,
    LengthControl,
    ReportData,
    SystemReport,
    Unjudged,
    claim_warning,
    note_warning,
)
from instruct.reporting.overlap import overlap_warnings, recorded_overlap
from instruct.reporting.panels import panels_of
from instruct.reporting.provenance import config_summary, data_hashes, lineage_warnings, phases, trainings
from instruct.reporting.read import Judged, RunContents, SystemAnswers
from instruct.reporting.seeds import seed_spreads, seeds_of
from instruct.reporting.tasks import task_report
from instruct.reporting.text import leads
from instruct.reporting.texts import text_report


@dataclass(frozen=True)
class BuiltReport:
    """The data of a report, and the pair outcomes it was computed from, in the order of the report's comparisons."""

    data: ReportData
    outcomes: list[Outcomes]


def build(contents: RunContents, difficulty: Difficulty | None = None) -> BuiltReport:
    """Compute the report.

    Args:
        difficulty: None: the files that an earlier report of the run was given, if any.

    Raises:
        InputError: a difficulty file that does not fit.
    """
    manifest, config = contents.manifest, contents.config
    difficulty = difficulty or kept_difficulty(contents.run)
    systems = _systems(manifest, contents.answers)
    found = [outcomes_of(judged) for judged in contents.judged]
    judges: dict[str, JudgeReport] = {}
    for outcomes in found:
        name = outcomes.judged.key.judge
        judge = judges.setdefault(name, _judge(outcomes.judged, contents.usd[name]))
        judge.comparisons.append(_comparison(contents, outcomes, difficulty))
    for judge in judges.values():
        add_label_agreement(judge, [one for one in found if one.judged.key.judge == judge.name], contents.labels)
    if difficulty:
        _check_difficulty_used(difficulty, judges.values())
    seeds = seeds_of(config)
    data = ReportData(
        schema_version=SCHEMA_VERSION,
        run=str(config.get("name", contents.run.folder.resolve().name)),
        created=manifest["created"],
        usd=contents.total_usd,
        judges=list(judges.values()),
        panels=panels_of(found, contents.answers),
        paired=_paired(found, seeds),
        seeds=seed_spreads(judges.values(), found, seeds),
        not_judged=_not_judged(contents),
        systems=list(systems.values()),
        trainings=trainings(manifest, config, contents.run.adapters),
        overlap=recorded_overlap(manifest),
        texts=text_report(contents.metrics, contents.values, config, manifest["steps"]),
        tasks=task_report(contents.metrics, contents.values),
        figures=[],
        config=config_summary(config, manifest),
        phases=phases(manifest),
        machine=manifest["machine"],
        versions=manifest["versions"],
        sha256=data_hashes(manifest) | _difficulty_hashes(difficulty),
    )
    settle(data)
    data.bench = bench_of(contents, data)
    for outcomes in found:
        judged = outcomes.judged
        comparisons = judges[judged.key.judge].comparisons
        comparison = next(one for one in comparisons if (one.candidate, one.baseline) == judged.key[1:])
        about = {name: _asked(contents.answers[name], judged) for name in judged.key[1:] if name in contents.answers}
        _warn(contents, comparison, _systems(manifest, about) if judged.eval_sets else systems)
    data.figures = figures(data)
    # A judge's comparisons stand together in the report.
    order = {name: number for number, name in enumerate(judges)}
    return BuiltReport(data, sorted(found, key=lambda outcomes: order[outcomes.judged.key.judge]))


def _asked(answers: SystemAnswers, judged: Judged) -> SystemAnswers:
    """The answers that a judge was asked about."""
    return replace(answers, rows=of_sets(answers.rows, judged.eval_sets)) if judged.eval_sets else answers


def _comparison(contents: RunContents, outcomes: Outcomes, difficulty: Difficulty | None) -> ComparisonReport:
    judged = outcomes.judged
    _, candidate, baseline = judged.key
    sides = [contents.answers.get(name) for name in (candidate, baseline)]
    ours, theirs = sides
    styles = [
        {identity(row): style_counts(str(row["output"])) for row in side.rows if not row.get("failed")}
        for side in sides
        if side
    ]
    prompts = {identity(row) for row in _asked(ours, judged).rows} if ours else set()
    length_control, doubts = _length_control(contents, outcomes, difficulty)
    figures = comparison_figures(
        outcomes,
        prompts or None,
        (styles[0], styles[1]) if ours and theirs else None,
        length_control,
        [
            *map(claim_warning, lineage_warnings(contents.run, contents.manifest, judged.card, judged.step)),
            *map(claim_warning, doubts),
            *map(note_warning, _identical_warnings(outcomes, ours, theirs)),
        ],
    )
    if contents.labels:
        figures.with_labels, cautions = with_labels(outcomes, contents.labels)
        figures.warnings += map(claim_warning, cautions)
    return figures


def _warn(contents: RunContents, comparison: ComparisonReport, systems: Mapping[str, SystemReport]) -> None:
    """Add what follows from a comparison's figures, and the warnings about its answers."""
    names, finding = (comparison.candidate, comparison.baseline), comparison.leading_figures.finding
    comparison.leads = leads(comparison.leading_figures)
    about_answers = [
        *left_out_warnings(contents.manifest, *names),
        *training_warnings(contents.manifest, *names),
        *overlap_warnings(contents.manifest, recorded_overlap(contents.manifest), *names),
        *health_warnings(*names, finding, systems),
    ]
    comparison.warnings = [*figure_warnings(comparison), *comparison.warnings, *map(claim_warning, about_answers)]


def _identical_warnings(outcomes: Outcomes, ours: SystemAnswers | None, theirs: SystemAnswers | None) -> list[str]:
    """Stored verdicts may prefer one of two identical answers: those of other tools, and of version 0.2 and before."""
    if ours is None or theirs is None:
        return []
    answers = {identity(row): row["output"] for row in theirs.rows}
    same = {identity(row) for row in ours.rows if answers.get(identity(row)) == row["output"]}
    preferred = sum(pair.instruction in same and pair.outcome in ("win", "loss") for pair in outcomes.pairs)
    if not preferred:
        return []
    remedy = "" if outcomes.judged.imported else "; `instruct judge --reparse` makes them ties"
    return [f"{counted(preferred, 'verdict')} for one of two identical answers{remedy}"]


def _judge(judged: Judged, usd: float) -> JudgeReport:
    """A judge without its comparisons; of a judge without a card only the name is known."""
    card = judged.card
    known: dict[str, Any] = {"name": judged.key.judge, "usd": usd, "comparisons": []}
    if card is not None:
        known |= {name: getattr(card, name) for name in ("description", "model", "human_agreement", "warning", "notes")}
        warnings = [f"the judge {warning}" for warning in agreement_warnings(card)]
        other = "@" in card.name
        return JudgeReport(**known, other_model=other, agreement=agreement_words(card), warnings=warnings)
    return JudgeReport(
        **known,
        description="known only by its name in the imported file" if judged.imported else "",
        model="unknown",
        other_model=False,
        human_agreement=None,
        agreement="unknown, because the judge's card is missing",
        warning=None,
        warnings=[f"the judge has no card here ({judged.problem}); disagreement between orders counts as a tie"],
        notes=None,
    )


def _length_control(
    contents: RunContents, outcomes: Outcomes, difficulty: Difficulty | None
) -> tuple[LengthControl | None, list[str]]:
    """AlpacaEval's rate, for the weighted judges that it is defined for, and warnings about it."""
    single = outcomes.by_policy["single"]
    card = outcomes.judged.card
    scores_alone = card is not None and card.protocol == "reward"  # AlpacaEval has no such judges
    if scores_alone or not any(pair.score not in (None, 0, 0.5, 1) for pair in single):
        return None, []
    _, *names = outcomes.judged.key
    missing = [name for name in names if name not in contents.answers]
    if difficulty is None or missing:
        why = "no instruction-difficulty file was given"
        if missing:
            flag = "--outputs" if missing[0] == names[0] else "--reference"
            why = f"the answers of {missing[0]} are missing; give them with {flag} FILE"
        return recorded(LengthControl, no_length_control(why)), []
    ours, theirs = ({identity(row): row for row in contents.answers[name].rows} for name in names)
    rows = [
        {
            "instruction": ours.get(pair.instruction, {}).get("instruction", pair.instruction),
            "output_1": theirs.get(pair.instruction, {}).get("output"),
            "output_2": ours.get(pair.instruction, {}).get("output"),
            "preference": None if pair.score is None else 1 + pair.score,
        }
        for pair in single
    ]
    try:
        found = length_controlled_win_rate(rows, difficulty.file, difficulty.prompts)
    except InputError as error:
        if not difficulty.kept:
            raise
        # A later judge may have been asked about other prompts than those that the kept files are about.
        return recorded(LengthControl, no_length_control(one_line(error, 200))), []
    return recorded(LengthControl, found), [found.warning] if found.warning else []


def _check_difficulty_used(difficulty: Difficulty, judges: Iterable[JudgeReport]) -> None:
    """A file that was given must lead to a rate.

    Raises:
        InputError: no comparison has one.
    """
    rates = [each.length_control for judge in judges for each in judge.comparisons if each.length_control]
    if difficulty.kept or any(rate.win_rate is not None for rate in rates):
        return
    why = (
        rates[0].note if rates else "no judge of this run grades its preferences, so there is no length-controlled rate"
    )
    raise InputError(f"{difficulty.file}: has no use here: {why}; drop --instruction-difficulty")


def _difficulty_hashes(difficulty: Difficulty | None) -> dict[str, str]:
    given = {} if difficulty is None else {"": difficulty.file, ", prompts of": difficulty.prompts}
    files = {f"instruction difficulties{what}": Path(file).expanduser() for what, file in given.items() if file}
    return {name: sha256_of(path) for name, path in files.items() if path.is_file()}  # a missing file was not read


def _paired(found: Sequence[Outcomes], seeds: Mapping[str, int]) -> list[Paired]:
    """For every two candidates that a judge compared with one baseline, the difference of their win rates.

    Under the policy that leads for both, or `single` if different policies lead. Systems trained with different seeds
    are not paired: seed_spreads shows what a seed changes.
    """
    rows = []
    for one, other in itertools.combinations(found, 2):
        (judge, first, baseline), (another, second, other_baseline) = one.judged.key, other.judged.key
        if (judge, baseline) != (another, other_baseline) or len({seeds.get(first), seeds.get(second)} - {None}) > 1:
            continue
        policy: Policy = one.leading if one.leading == other.leading else "single"
        difference = paired_difference(one.scores(policy), other.scores(policy))
        names = {"judge": judge, "policy": policy, "first": first, "second": second, "baseline": baseline}
        rows.append(recorded(Paired, difference, **names, difference=rounded(difference.points), p=difference.p))
    return rows


def _not_judged(contents: RunContents) -> list[Unjudged]:
    """What the config names, or a stopped call began, and what has no verdict."""
    config = contents.config
    judged: set[tuple[str, str, str]] = set()
    for each in contents.judged:  # by the judge's name in the store, and as the call gave it
        given = each.step.get("inputs", {}).get("judge", {}).get("card", each.key.judge)
        judged |= {
            (each.key.judge, each.key.candidate, each.key.baseline),
            (given, each.key.candidate, each.key.baseline),
        }
    wanted: dict[tuple[str, str, str], str | None] = {
        (judge["card"], *map(system_name, pair)): None
        for judge in config.get("judges") or []
        for pair in judge.get("comparisons") or config.get("comparisons") or []
    }
    begun = list(judged_comparisons(contents.manifest))
    wanted |= {(key.judge, *pair): None for key, _ in begun for pair in file_comparisons(contents.manifest)}
    for (name, candidate, baseline), record in begun:
        given = record["inputs"].get("judge", {}).get("card", name)
        judge = given if (given, candidate, baseline) in wanted else name
        wanted[judge, candidate, baseline] = record.get("results", {}).get("stopped")
    return [
        Unjudged(judge=judge, candidate=candidate, baseline=baseline, stopped=stopped)
        for (judge, candidate, baseline), stopped in wanted.items()
        if (judge, candidate, baseline) not in judged
    ]


def _systems(manifest: dict[str, Any], answers: Mapping[str, SystemAnswers]) -> dict[str, SystemReport]:
    edges = histogram_edges([len(output) for each in answers.values() for output in _outputs(each)] or [0])
    recorded = manifest["steps"].get("answers", {}).get("results", {})
    return {name: _system(name, each, recorded.get(name, {}), edges) for name, each in answers.items()}


def _outputs(answers: SystemAnswers) -> list[str]:
    """The answers themselves; a prompt without one has none."""
    return [row["output"] for row in answers.rows if not row.get("failed")]


def _system(name: str, answers: SystemAnswers, made: dict[str, Any], edges: list[int]) -> SystemReport:
    if made.get("sha256") != answers.sha256:
        made = {}  # the manifest describes other answers
    outputs = _outputs(answers)
    health = answers_health(outputs, edges, made, failed=len(answers.rows) - len(outputs))
    return SystemReport(
        name=name,
        generator=str(answers.rows[0]["generator"]),
        sha256=answers.sha256,
        n=len(answers.rows),
        mean_characters=health.mean_characters,
        mean_tokens=health.mean_tokens,
        mean_thinking_tokens=made.get("mean_thinking_tokens"),
        truncated=health.truncated,
        engine=made.get("engine"),
        health=health,
    )
