"""Several judges of one comparison: who voted, how they agree, and their majority."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from instruct.analysis.outcomes import PairResult
from instruct.analysis.panel import agreements, majority, votes
from instruct.analysis.results import Sequential
from instruct.analysis.sequential import sequential
from instruct.analysis.statistics import tally_pairs
from instruct.data.evaluation import identity
from instruct.reporting.comparison import Outcomes, in_conversations, leading_figures, significance, stop_rule
from instruct.reporting.model import Panel
from instruct.reporting.read import SystemAnswers


def panels_of(found: Sequence[Outcomes], answers: Mapping[str, SystemAnswers]) -> list[Panel]:
    """One for each comparison on which several judges of the same evaluation sets gave a verdict."""
    members: dict[tuple[str, ...], list[Outcomes]] = {}
    for outcomes in found:
        members.setdefault((*outcomes.judged.key[1:], *outcomes.judged.eval_sets), []).append(outcomes)
    panels = []
    for (candidate, baseline, *_), judged in members.items():
        outcomes_of = {one.judged.key.judge: {pair.instruction: pair.outcome for pair in one.pairs} for one in judged}
        identical = {pair.instruction for one in judged for pair in one.pairs if pair.tie == "identical"}
        voted = votes(outcomes_of, identical)
        if sum(map(bool, voted.values())) < 2:
            continue
        together = {pair: name for one in judged for pair, name in one.judged.conversations.items()}
        most = in_conversations(majority(outcomes_of, identical), together)
        prompts = {identity(row) for row in answers[candidate].rows} if candidate in answers else set()
        looked, counts = _sequential(judged, most, prompts), tally_pairs(most)
        panels.append(
            Panel(
                candidate=candidate,
                baseline=baseline,
                policies={one.judged.key.judge: one.leading for one in judged},
                votes=voted,
                agreements=agreements({name: outcomes_of[name] for name in voted if voted[name]}, identical),
                majority=leading_figures(counts, looked),
                significance=significance(counts, looked),
            )
        )
    return panels


def _sequential(judged: Sequence[Outcomes], most: Sequence[PairResult], prompts: set[str]) -> Sequential | None:
    """The confidence sequence of a panel with members that were to stop early, over the pairs that all of these judged.

    A majority over pairs whose number was chosen by its own votes must not be tested as if it had been fixed.
    """
    early = [(one, rule) for one in judged if (rule := stop_rule(one))]
    if not early:
        return None
    seen = set.intersection(*({pair.instruction for pair in one.pairs} for one, _ in early))
    pairs = prompts or {pair.instruction for pair in most}
    return sequential([pair for pair in most if pair.instruction in seen], pairs, early[0][1])
