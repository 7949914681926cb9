"""The report of a run, computed from what read.read_run read."""

from __future__ import annotations

from collections.abc import Sequence

from instruct.judging.comparison import file_comparisons, judged_comparisons, system_name
from instruct.judging.human_agreement import agreement_warnings, agreement_words
from instruct.judging.options import GENERAL_JUDGES
from instruct.reporting import model, provenance
from instruct.reporting.bench import bench_results
from instruct.reporting.cautions import (
    baseline_warnings,
    comparison_warnings,
    elsewhere_warnings,
    seed_warnings,
)
from instruct.reporting.comparison import comparison_figures, paired, panels_of, put_into_families, seed_claims
from instruct.reporting.figures import figures
from instruct.reporting.human_labels import add_label_agreement
from instruct.reporting.length_control import Difficulty
from instruct.reporting.model import ComparisonReport, JudgeReport, ReportData, Unjudged, claim_warning
from instruct.reporting.read import Judged, RunContents, elsewhere_of, seeds_of, training_logs
from instruct.reporting.tasks import task_measurements
from instruct.reporting.texts import text_results
from instruct.scores.claims import settle


def build(contents: RunContents, difficulty: Difficulty | None = None) -> ReportData:
    """Compute the report.

    Args:
        difficulty: None: the files that an earlier report of the run was given, if any.

    Raises:
        InputError: a difficulty file that does not fit.
    """
    manifest, config = contents.manifest, contents.config
    difficulty = difficulty or Difficulty.of_run(contents.run)
    compared = [(judged, comparison_figures(contents, judged, difficulty)) for judged in contents.by_judge]
    if difficulty:
        difficulty.check_used(comparison for _, comparison in compared)
    systems = provenance.system_reports(manifest, contents.answers)
    seeds = seeds_of(config)
    texts = text_results(contents.metrics, contents.values, config, manifest["steps"])
    objectives = bench_results(contents)
    tasks = task_measurements(contents.metrics)
    data = ReportData(
        schema_version=model.SCHEMA_VERSION,
        run=str(config.get("name", contents.run.folder.resolve().name)),
        created=manifest["created"],
        usd=contents.total_usd,
        judges=_judges(contents, compared),
        panels=panels_of(contents.judged),
        measurements=[*texts.measurements, *tasks, *(objectives.measurements if objectives else ())],
        claims=[
            *seed_claims(compared, seeds, elsewhere_of(config)),
            *paired(contents.judged, seeds),
            *texts.claims,
            *(objectives.claims if objectives else ()),
        ],
        cautions=[*map(claim_warning, texts.warnings), *elsewhere_warnings(config)],
        bench=objectives and objectives.bench,
        not_judged=_not_judged(contents),
        systems=list(systems.values()),
        trainings=provenance.trainings(manifest, config, training_logs(contents.run, manifest)),
        overlap=provenance.recorded_overlap(manifest),
        figures=[],
        config=provenance.config_summary(config, manifest),
        machine=manifest["machine"],
        versions=manifest["versions"],
    )
    claims = [*put_into_families(data)]
    data.cautions += [*baseline_warnings(data), *seed_warnings(data)]
    settle(claims)
    for judged, comparison in compared:
        comparison.warnings = comparison_warnings(contents, judged, comparison, systems, data.overlap)
    data.figures = figures(data)
    return data


def _judges(contents: RunContents, compared: Sequence[tuple[Judged, ComparisonReport]]) -> list[JudgeReport]:
    judges: dict[str, JudgeReport] = {}
    for judged, comparison in compared:
        name = judged.key.judge
        judges.setdefault(name, _judge(judged, contents.usd[name])).comparisons.append(comparison)
    for name, judge in judges.items():
        own = [judged for judged, _ in compared if judged.key.judge == name]
        add_label_agreement(judge, own, contents.labels)
    return list(judges.values())


def _judge(judged: Judged, usd: float) -> JudgeReport:
    """A judge without its comparisons; of a judge without a card only the name is known."""
    card, unknown = judged.card, "known only by its name in the imported file" if judged.imported else ""
    name, of_model, _ = card.name.partition("@") if card else ("", "", "")
    missing = f"the judge has no card here ({judged.problem}); disagreement between orders counts as a tie"
    return JudgeReport(
        name=judged.key.judge,
        description=card.description if card else unknown,
        model=card.model if card else "unknown",
        other_model=bool(of_model) and name not in GENERAL_JUDGES,
        human_agreement=card.human_agreement if card else None,
        agreement=agreement_words(card) if card else "unknown, because the judge's card is missing",
        warning=card.warning if card else None,
        warnings=[f"the judge {warning}" for warning in agreement_warnings(card)] if card else [missing],
        notes=card.notes if card else None,
        usd=usd,
        comparisons=[],
    )


def _not_judged(contents: RunContents) -> list[Unjudged]:
    """What the config names, or a stopped call began, and what has no verdict."""
    manifest, config = contents.manifest, contents.config
    # By the judge's name in the store, and as the call gave it.
    judged = {
        (judge, *comparison.key[1:])
        for comparison in contents.judged
        for judge in (comparison.key.judge, comparison.step.get("inputs", {}).get("judge", {}).get("card"))
    }
    wanted: dict[tuple[str, str, str], str | None] = {
        (judge["card"], *map(system_name, pair)): None
        for judge in config.get("judges") or []
        for pair in judge.get("comparisons") or config.get("comparisons") or []
    }
    begun = list(judged_comparisons(manifest))
    wanted |= {(key.judge, *pair): None for key, _ in begun for pair in file_comparisons(manifest)}
    for (name, candidate, baseline), record in begun:
        card = record["inputs"].get("judge", {}).get("card", name)
        judge = card if (card, candidate, baseline) in wanted else name
        wanted[judge, candidate, baseline] = record.get("results", {}).get("stopped")
    return [
        Unjudged(judge=judge, candidate=candidate, baseline=baseline, stopped=stopped)
        for (judge, candidate, baseline), stopped in wanted.items()
        if (judge, candidate, baseline) not in judged
    ]
