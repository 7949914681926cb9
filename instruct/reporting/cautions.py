"""What a reader must know before believing a report's figures: warnings about how they were made and what they say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from instruct.analysis.style import length_warning
from instruct.base.errors import counted, one_line
from instruct.data.evaluation import REFERENCED
from instruct.data.overlap import overlap_text
from instruct.data.tokens import MOST_CUT
from instruct.judging.comparison import FILES
from instruct.reporting.model import (
    ComparisonReport,
    JudgeReport,
    OverlapReport,
    ReportData,
    ReportWarning,
    SystemReport,
    claim_warning,
    compared_by,
    note_warning,
)
from instruct.reporting.read import Judged, RunContents, elsewhere_of, seeds_of
from instruct.reporting.text import contradicted, rate_and_interval, span, unread
from instruct.scores.samples import LEAST_DECIDED
from instruct.training.options import without_seed

# Below this percentage of pairs with the same verdict in both orders, the report warns.
LEAST_CONSISTENCY = 80.0
# From this percentage on a fault, or a difference in length, is a warning; below it is only in the table. Judges prefer
# longer answers: asking one model for fewer or for more words moved its win rate on AlpacaEval from 22.9 to 64.3 %
# (Dubois et al. 2024, arXiv 2404.04475).
FAULTY_PERCENT = 5
# Beyond this percentage of wins, or of losses, a common baseline decides nearly all pairs alike.
EXTREME_PERCENT = 5
# A seed lies far from the others if its win rate is this many points, and this many times their spread, beyond them.
FAR_POINTS, FAR_SPREADS = 10, 3
LONGER_PERCENT = 20
MT_BENCH = ("mt_bench", "mt_bench_single")


def comparison_warnings(
    contents: RunContents,
    judged: Judged,
    comparison: ComparisonReport,
    systems: Mapping[str, SystemReport],
    overlap: OverlapReport | None,
) -> list[ReportWarning]:
    """What a reader must know about a comparison whose claims are settled.

    Args:
        comparison: its own warnings, about parts of its figures, stay between the others.
        systems: those whose answers are available, by name.
    """
    manifest, names = contents.manifest, (comparison.candidate, comparison.baseline)
    about_answers = [
        *left_out_warnings(manifest, *names),
        *training_warnings(manifest, *names),
        *overlap_warnings(manifest, overlap, *names),
        *health_warnings(*names, comparison.claim.finding, systems),
    ]
    return [
        *figure_warnings(comparison),
        *_doubts(judged, comparison),
        *map(claim_warning, answers_warnings(contents, judged.step)),
        *comparison.warnings,
        *map(claim_warning, about_answers),
    ]


def figure_warnings(comparison: ComparisonReport) -> list[ReportWarning]:
    """What a comparison's figures say about themselves."""
    claim, counts, texts = comparison.claim, comparison.counts, []
    if claim.finding == "too few":
        decided = f"{counted(counts.decided, 'pair')} with a winner of {claim.n} judged"
        least, needed = LEAST_DECIDED, "decided pairs"
        units = claim.params.get("clusters", claim.n)
        if "clusters" in claim.params and units < LEAST_DECIDED <= counts.decided:
            decided += f", all of them in {counted(units, 'cluster')}"
            needed = "clusters"
        texts.append(f"too few: {decided}; a finding needs at least {least} {needed}")
    if (people := comparison.with_labels) and contradicted(comparison):
        texts.append(
            f"people's labels contradict the judge: with them the win rate of {comparison.candidate} is "
            f"{rate_and_interval(people)}"
        )
    if missing := counts.unread:
        texts.append(
            f"{missing} of {counted(counts.n, 'pair')} {'has' if counts.n == 1 else 'have'} no verdict "
            f"({unread(counts)}): with them lost or won the win rate of {comparison.candidate} is "
            f"{span(counts.bounds, claim.error)} %"
            + "; most have none, so the others are no fair sample"
            * (2 * missing > counts.n)
        )
    consistency = comparison.consistency
    if consistency is not None and consistency < LEAST_CONSISTENCY:
        pairs = counted(comparison.consistency_n, "pair")
        changed = f"{round(comparison.consistency_n * (1 - consistency / 100))} of {pairs} ({100 - consistency:.1f} %)"
        texts.append(f"inconsistent: the verdict changed with the order of the answers for {changed}")
    return list(map(claim_warning, texts))


def _doubts(judged: Judged, figures: ComparisonReport) -> Iterator[ReportWarning]:
    """What a reader must know about the verdicts."""
    card, both = judged.card, max(judged.times.values()) == 2
    if figures.partial:
        yield claim_warning(
            f"PARTIAL: judging has not finished{f' ({figures.stopped})' if figures.stopped else ''}: "
            f"{figures.pairs_judged} of {counted(figures.pairs_expected, 'pair')} judged{' in both orders' * both}; "
            "rerun the judge command to resume"
        )
    if judged.prompts and (unknown := len(judged.times.keys() - judged.prompts)):
        yield claim_warning(f"{counted(unknown, 'verdict')} on prompts that are not among the candidate's answers")
    ours = judged.sides[0] if card and card.name in MT_BENCH and not judged.imported else None
    asked = ours.by_pair.values() if ours else ()
    if unlike := sum((row["dataset"] in REFERENCED) != bool(row.get("reference")) for row in asked):
        yield claim_warning(
            f"references: {unlike} of {counted(len(asked), 'prompt')} judged otherwise than by FastChat, which shows "
            f"its reference_answer/gpt-4.jsonl for {', '.join(REFERENCED)} alone; put that file beside the questions"
        )
    if card and figures.orders != "alone" and judged.leading != card.leading_policy:
        yield claim_warning(
            f"the judge's card puts the policy {card.leading_policy} first, which needs both orders; "
            "the pairs were shown in one"
        )
    if figures.trimmed:
        pairs = counted(len(judged.times), "pair")
        yield note_warning(f"the answers of {figures.trimmed} of {pairs} were trimmed to fit the judge's context")
    if figures.length and (warning := length_warning(figures.length)):
        yield claim_warning(warning)


def identical_warnings(judged: Judged) -> Iterator[ReportWarning]:
    """Verdicts that another tool made may prefer one of two identical answers."""
    outputs = [{pair: row["output"] for pair, row in side.by_pair.items()} if side else {} for side in judged.sides]
    same = dict(outputs[0].items() & outputs[1].items())
    if preferred := sum(pair.instruction in same and pair.outcome in ("win", "loss") for pair in judged.pairs):
        yield note_warning(f"{counted(preferred, 'verdict')} for one of two identical answers")


def answers_warnings(contents: RunContents, step: Mapping[str, Any]) -> Iterator[str]:
    """Which answers are not those that were judged.

    Args:
        step: the manifest's record of the judging, {} if there is none, as for imported verdicts.
    """
    for name, judged in step.get("inputs", {}).get("answers", {}).items():
        path = contents.run.answers_path(name)
        answers = contents.answers.get(path.stem)
        if answers is None or answers.sha256 != judged:
            gone = f"are gone: lengths and texts are left out; restore {path}"
            changed = "have changed since they were judged; judge again"
            yield f"the answers of {one_line(path.stem, 60)} {changed if answers else gone}"


def judge_warnings(judge: JudgeReport) -> list[ReportWarning]:
    """What a reader must know about the judge before its figures."""
    texts = [judge.warning] if judge.warning else []
    if judge.other_model:
        texts.append("another model than the card's was asked; do not compare these figures with published ones")
    return [claim_warning(text) for text in (*texts, *judge.warnings)]


def training_warnings(manifest: Mapping[str, Any], *systems: str) -> list[str]:
    """What was out of the ordinary in the text that compared systems were trained on, or asked by."""
    names_by_text: dict[str, list[str]] = {}
    asked_by = manifest["steps"].get("answers", {}).get("inputs", {}).get("template")
    for name in systems:
        step = manifest["steps"].get(f"train/{name}", {})
        template, results = step.get("inputs", {}).get("template"), step.get("results", {})
        answers, rows = results.get("answers", {}), results.get("rows", {})
        ends, cut = answers.get("ends", 0), answers.get("cut", 0)
        out = rows.get("rejected", 0) + rows.get("malformed", 0)
        texts = [
            f"{cut:,} of {counted(ends, 'answer')} ({100 * cut / ends:.1f} %) lost the end token to max_length"
            if cut > MOST_CUT * ends
            else "",
            f"{counted(answers['empty'], 'empty thought')}, which teach not to think" if answers.get("empty") else "",
            f"{out:,} of {counted(rows.get('read', 0), 'row')} left out as unusable" if out else "",
            f"it used the template {template}, the answers were asked for with {asked_by}"
            if template and asked_by and template != asked_by
            else "",
        ]
        for text in filter(None, texts):
            names_by_text.setdefault(text, []).append(name)
    return [f"the training of {' and '.join(names)}: {text}" for text, names in names_by_text.items()]


def left_out_warnings(manifest: Mapping[str, Any], *systems: str) -> list[str]:
    """How many prompts of compared files were left out, because not all files have them."""
    left_out = manifest["steps"].get(FILES, {}).get("inputs", {}).get("left_out", {})
    counts = [(name, *left_out[name]) for name in systems if name in left_out]
    parts = " and ".join(f"{out:,} of {counted(every, 'prompt')} of {name}" for name, out, every in counts if out)
    if not parts:
        return []
    others = f" of {len(left_out)} files" if len(left_out) > 2 else ""
    return [f"compared on the common prompts{others}: {parts} left out"]


def baseline_warnings(report: ReportData) -> Iterator[ReportWarning]:
    """Systems that were compared through a baseline against which nearly every pair is won, or lost."""
    made = [comparison.claim for _, comparison in compared_by(report.judges)]
    rates = {(claim.judge, claim.candidate, claim.baseline): claim.value for claim in made}
    for claim in report.paired:
        sides = [rates.get((claim.judge, name, str(claim.through))) for name in (claim.candidate, claim.baseline)]
        known = [rate for rate in sides if rate is not None]
        if len(known) == 2 and (min(known) > 100 - EXTREME_PERCENT or max(known) < EXTREME_PERCENT):
            yield claim_warning(
                f"{claim.candidate} and {claim.baseline} have {known[0]:.1f} and {known[1]:.1f} % against "
                f"{claim.through}: that one decides nearly every pair alike, so it can hardly tell the two apart; "
                f"judge {claim.candidate} against {claim.baseline} directly"
            )


def seed_warnings(report: ReportData) -> Iterator[ReportWarning]:
    """Trainings whose win rate lies far from that of all other seeds."""
    for claim in report.seeds:
        rates = dict(zip(claim.params["seeds"], claim.params["win_rates"], strict=True)) if claim.n else {}
        for seed, rate in rates.items():
            others = [other for number, other in rates.items() if number != seed]
            low, high = min(others), max(others)
            gap = max(low - rate, rate - high)
            if len(others) > 1 and gap > max(FAR_POINTS, FAR_SPREADS * (high - low)):
                yield claim_warning(
                    f"{claim.candidate} against {claim.baseline}: seed {seed} has a win rate of {rate:.1f} %, the "
                    f"others {low:.1f} to {high:.1f}; look whether that training failed, because no test over "
                    f"{claim.trainings} seeds allows for trainings that sometimes fail"
                )


def elsewhere_warnings(config: Mapping[str, Any]) -> Iterator[ReportWarning]:
    """What nobody here knows about systems that were trained elsewhere."""
    seeds, trainings = seeds_of(config), dict[str, list[str]]()
    for name, source in elsewhere_of(config).items():
        trainings.setdefault(without_seed(name, seeds.get(name)), []).append(one_line(source, 200))
    for name, sources in trainings.items():
        few = "one training supports no claim on how it was trained; " if len(sources) == 1 else ""
        yield claim_warning(
            f"{one_line(name, 60)} was trained elsewhere ({', '.join(sources)}): {few}its rows are not known, and may "
            "contain those of the test"
        )


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


def health_warnings(
    candidate: str, baseline: str, finding: str | None, systems: Mapping[str, SystemReport]
) -> list[str]:
    """What a reader must know about two systems' answers before believing a verdict on them.

    `systems`: those whose answers are available, by name; `finding` as in Claim.
    """
    both = [systems[name] for name in (candidate, baseline) if name in systems]
    winner = {"candidate": candidate, "baseline": baseline}.get(finding or "")
    warnings = [warning for system in both for warning in _faults(system)]
    return warnings + (_longer(both, winner) if len(both) == 2 else [])


def _faults(system: SystemReport) -> list[str]:
    health, n = system.health, system.n
    limit = "cut off at the length limit"
    parts = {"empty": health.empty, limit: health.truncated or 0, "repetitive": health.repeated}
    said = [
        f"{count} of {n} ({100 * count / n:.0f} %) are {fault}"
        for fault, count in parts.items()
        if 100 * count >= FAULTY_PERCENT * n
    ]
    if health.failed:
        said.insert(0, f"{health.failed} of {n} ({100 * health.failed / n:.0f} %) are missing: refused, or failed")
    return [f"the answers of {one_line(system.name, 60)}: {', '.join(said)}"] if said else []


def _longer(both: Sequence[SystemReport], winner: str | None) -> list[str]:
    """A warning if one side's answers are much longer."""
    shorter, longer = sorted(both, key=lambda system: system.health.mean_characters)
    least, most = shorter.health.mean_characters, longer.health.mean_characters
    if most == least or 100 * (most - least) < LONGER_PERCENT * least:
        return []
    name, other = (one_line(system.name, 60) for system in (longer, shorter))
    by = f"{100 * (most / least - 1):.0f} % longer" if least else "longer"
    who = f"the winner's answers ({name})" if winner == longer.name else f"the answers of {name}"
    lost = ", and yet they lost" if winner == shorter.name else ""
    return [
        f"{who} are {by} than those of {other} (mean {most:.0f} and {least:.0f} characters){lost}; judges tend to "
        "prefer longer answers"
    ]
