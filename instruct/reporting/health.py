"""The health of answers: empty, cut off, caught in a loop, and how long; and warnings for the verdicts on them."""

from __future__ import annotations

import math
import statistics
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from instruct.base.errors import one_line
from instruct.measuring.texts.diversity import repeated_fraction
from instruct.reporting.model import Health, LengthHistogram, SystemReport, recorded
from instruct.reporting.read import SystemAnswers

# More than half of the 4-grams occur earlier in the answer: of 805 published answers, 2 by GPT-4 and 5 by
# text-davinci-003.
REPEATED_ABOVE = 0.5
REPEATED_RULE = "more than half of an answer's 4-grams repeat an earlier one (seq-rep-4, Welleck et al. 2020)"
_MOST_BARS = 30

# From this percentage on a fault, or a difference in length, is a warning; below it is only in the table. Judges prefer
# longer answers: asking one model for fewer or for more words moved its win rate on AlpacaEval from 22.9 to 64.3 %
# (Dubois et al. 2024, arXiv 2404.04475).
FAULTY_PERCENT = 5
LONGER_PERCENT = 20


def system_reports(manifest: dict[str, Any], answers: Mapping[str, SystemAnswers]) -> dict[str, SystemReport]:
    """What report.json holds about each system's answers; a prompt without an answer counts as failed."""
    outputs = {name: [row["output"] for row in each.rows if not row.get("failed")] for name, each in answers.items()}
    edges = histogram_edges([len(output) for texts in outputs.values() for output in texts] or [0])
    results = manifest["steps"].get("answers", {}).get("results", {})
    systems = {}
    for name, each in answers.items():
        made = results.get(name, {})
        if made.get("sha256") != each.sha256:
            made = {}  # the manifest describes other answers
        health = answers_health(outputs[name], edges, made, failed=len(each.rows) - len(outputs[name]))
        systems[name] = recorded(
            SystemReport,
            health,
            name=name,
            generator=str(each.rows[0]["generator"]),
            sha256=each.sha256,
            n=len(each.rows),
            mean_thinking_tokens=made.get("mean_thinking_tokens"),
            engine=made.get("engine"),
            health=health,
        )
    return systems


def answers_health(outputs: Sequence[str], edges: Sequence[int], made: Mapping[str, Any], failed: int = 0) -> Health:
    """What report.json holds about one system's answers.

    Args:
        outputs: the answers.
        edges: of the length histogram, the same for all systems (histogram_edges).
        made: what the run recorded for these answers: `truncated`, `mean_tokens`; {} if nothing.
        failed: how many prompts have no answer, which is not among the outputs.
    """
    lengths = [len(output) for output in outputs]
    tokens = made.get("mean_tokens")
    return Health(
        failed=failed,
        empty=sum(not output.strip() for output in outputs),
        truncated=made.get("truncated"),
        repeated=sum(repeated_fraction(output) > REPEATED_ABOVE for output in outputs),
        mean_characters=round(statistics.fmean(lengths or [0]), 6),
        median_characters=float(statistics.median(lengths or [0])),
        mean_tokens=None if tokens is None else round(tokens, 6),
        length_histogram=_histogram(lengths, edges),
    )


def histogram_edges(lengths: Iterable[int]) -> list[int]:
    """Edges of about 30 bars of a round width for 99 % of the lengths; a last bar holds the longer ones."""
    ordered = sorted(lengths)
    most = max(ordered[math.ceil(0.99 * len(ordered)) - 1], 1)
    power = 10 ** max(0, math.floor(math.log10(most / _MOST_BARS)))
    width = next(step * power for step in (1, 2, 5, 10) if step * power * _MOST_BARS >= most)
    edges = list(range(0, (most // width + 2) * width, width))
    return edges if ordered[-1] < edges[-1] else [*edges, ordered[-1] + 1]


def _histogram(lengths: Iterable[int], edges: Sequence[int]) -> LengthHistogram:
    counts = [0] * (len(edges) - 1)
    for length in lengths:
        counts[bisect_right(edges, length) - 1] += 1
    return LengthHistogram(edges=list(edges), counts=counts)


def health_warnings(candidate: str, baseline: str, finding: str, systems: Mapping[str, SystemReport]) -> list[str]:
    """What a reader must know about two systems' answers before believing a verdict on them.

    `systems`: those whose answers are available, by name; `finding` as in TallyFigures.
    """
    both = [systems[name] for name in (candidate, baseline) if name in systems]
    winner = {"candidate": candidate, "baseline": baseline}.get(finding)
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
