"""The comparisons of a run as `instruct compare` needs them: figures, scores by prompt, and what they rest on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from instruct.data.evaluation import identity
from instruct.reporting.build import build
from instruct.reporting.model import ComparisonReport, Panel
from instruct.reporting.read import read_run
from instruct.run.directory import RunDirectory


@dataclass(frozen=True)
class Entry:
    """A comparison of one run, under the leading policy of its judge.

    `scores`: by prompt, 1 for a win, ½ for a tie, 0 for a loss, a weighted judge's grade, None without a verdict.
    `card` is the hash of the judge's card when it judged; `candidate_answers` and `baseline_answers` map prompt to
    the answer's hash in this process; None: unknown.
    """

    run: str
    judge: str
    model: str
    comparison: ComparisonReport
    scores: Mapping[str, float | None]
    card: str | None
    candidate_answers: Mapping[str, int] | None
    baseline_answers: Mapping[str, int] | None


def entries_of(run: RunDirectory, label: str) -> tuple[list[Entry], list[Panel]]:
    """The comparisons of a run, which is called `label`, and its panels of judges."""
    contents = read_run(run.folder)
    built = build(contents)
    comparisons = [(judge, each) for judge in built.data.judges for each in judge.comparisons]
    found = []
    for (judge, each), outcomes in zip(comparisons, built.outcomes, strict=True):
        sides = [contents.answers.get(name) for name in (each.candidate, each.baseline)]
        answers = [{identity(row): hash(row["output"]) for row in side.rows} if side else None for side in sides]
        card = outcomes.judged.step.get("inputs", {}).get("card")
        scores = outcomes.scores(outcomes.leading)
        found.append(Entry(label, judge.name, judge.model, each, scores, card, *answers))
    return found, built.data.panels
