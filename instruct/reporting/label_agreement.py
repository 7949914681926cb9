"""How far a judge agrees with the people who labeled some of a run's pairs, and whether they contradict its finding."""

from __future__ import annotations

from collections.abc import Iterable

from instruct.analysis.outcomes import outcome_of_score
from instruct.analysis.panel import READABLE, cohen_kappa
from instruct.judging.human_agreement import HumanAgreement, set_words
from instruct.judging.interchange.labels import Labels
from instruct.reporting.comparison import Outcomes
from instruct.reporting.model import JudgeReport

# The name of the set under `human_agreement`, next to those of the judge's card.
THIS_RUN = "this run's labels"


def add_label_agreement(judge: JudgeReport, found: Iterable[Outcomes], labels: Labels | None) -> None:
    """Put the judge's agreement with the run's labels into its report; nothing without labels by people.

    Each pair counts under the leading policy. Several people's labels of a pair are a win if their mean is above 1/2.
    """
    if labels is None or labels.by != "people":
        return
    pairs = [
        (outcome_of_score(score), pair.outcome)
        for outcomes in found
        for pair in outcomes.pairs
        if (score := labels.of(*outcomes.judged.key[1:]).get(pair.instruction)) is not None
    ]
    if not pairs:
        return
    # As in `instruct validate`: a missing verdict is wrong, and a class of its own.
    said = [(label, outcome if outcome in READABLE else "none") for label, outcome in pairs]
    measured: HumanAgreement = {
        "pairs": len(said),
        "accuracy": round(100 * sum(label == outcome for label, outcome in said) / len(said), 2),
    }
    if (kappa := cohen_kappa(said)) is not None:
        measured["kappa"] = round(kappa, 4)
    words = set_words(THIS_RUN, measured)
    judge.agreement = f"{judge.agreement}; {words}" if judge.human_agreement else words
    judge.human_agreement = {**(judge.human_agreement or {}), THIS_RUN: measured}
