"""The comparisons of a run as `instruct compare` needs them: figures, scores by prompt, and what they rest on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from instruct.data.evaluation import identity
from instruct.reporting.build import build
from instruct.reporting.model import ComparisonReport
from instruct.reporting.read import read_run
from instruct.run.directory import RunDirectory


@dataclass(frozen=True)
class Entry:
    """A comparison of one run, under the leading policy of its judge.

    `scores`: by prompt, 1 for a win, ½ for a tie, 0 for a loss, a weighted judge's grade, None without a verdict.
    `card` is the hash of the judge's card when it judged, `baseline_answers` maps prompt to answer, `candidate_sha256`
    and `baseline_sha256` are those of the answers; None: unknown.
    """

    run: str
    judge: str
    model: str
    comparison: ComparisonReport
    scores: Mapping[str, float | None]
    card: str | None
    baseline_answers: Mapping[str, str] | None
    candidate_sha256: str | None
    baseline_sha256: str | None


def entries_of(run: RunDirectory, label: str) -> list[Entry]:
    """The comparisons of a run, which is called `label`."""
    contents = read_run(run.folder)
    built = build(contents)
    comparisons = [(judge, each) for judge in built.data.judges for each in judge.comparisons]
    found = []
    for (judge, each), outcomes in zip(comparisons, built.outcomes, strict=True):
        baseline = contents.answers.get(each.baseline)
        answers = {identity(row): row["output"] for row in baseline.rows} if baseline else None
        card = outcomes.judged.step.get("inputs", {}).get("card")
        scores = outcomes.scores(outcomes.leading)
        sha256 = {name: side.sha256 for name, side in contents.answers.items()}
        sides = (sha256.get(each.candidate), sha256.get(each.baseline))
        found.append(Entry(label, judge.name, judge.model, each, scores, card, answers, *sides))
    return found
