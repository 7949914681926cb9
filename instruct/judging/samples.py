"""A judge asked several times about each pair: the requests of each further sample, and the verdicts read from them.

The first sample is the judge's verdict, stored as it is without further ones. The others keep their replies, under keys
that are made from the first one's, and are read when a report needs them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from instruct.base.errors import InputError
from instruct.base.replies import Reply
from instruct.judging.asking import Judge
from instruct.judging.cards import JudgeCard
from instruct.judging.presentations import Plan
from instruct.judging.store import Judgment, JudgmentStore
from instruct.judging.verdicts import Reading, read_replies
from instruct.run.replies import completion_key

# The reason of a verdict that a sample does not have.
NOT_ASKED = "this sample has no reply"


def sample_key(key: str, sample: int) -> str:
    """The key of another sample of a reply; of two replies, separated by a space, the keys of both."""
    return " ".join(completion_key({"sample": sample, "of": part}) for part in key.split())


def further_plans(judge: Judge, plan: Plan) -> list[Plan]:
    """The presentations of a plan once more for each sample after the first; local models draw by the sample's seed."""
    local = judge.engine != "server"
    return [
        Plan(
            plan.comparison,
            [
                replace(
                    each,
                    requests=tuple(
                        replace(asked, key=sample_key(asked.key, sample), seed=sample if local else None)
                        for asked in each.requests
                    ),
                )
                for each in plan.presentations
            ],
            [],
        )
        for sample in range(1, judge.options.samples)
    ]


def check_samples(judge: Judge) -> None:
    """Refuse several samples of a judge whose replies are always the same: InputError."""
    card, options = judge.card, judge.options
    if options.samples == 1:
        return
    if options.stop_when:
        raise InputError("--samples: judging that stops early asks each pair once; drop --stop-when or --samples")
    if card.protocol == "reward" or card.verdict.labels:
        raise InputError(
            f"judge {card.name}: reads its verdict from scores, which are the same each time; drop --samples"
        )
    if judge.engine != "server" and not card.decoding.temperature:
        raise InputError(
            f"judge {card.name}: decodes at temperature 0, so its reply is the same each time; drop --samples, or "
            "use a copy of the card with decoding.temperature"
        )


def read_samples(
    card: JudgeCard,
    judgments: Sequence[Judgment],
    answers: tuple[Mapping[str, str], Mapping[str, str]],
    samples: int,
    store: JudgmentStore,
) -> list[list[Judgment]]:
    """The verdicts of each sample after the first, in the order of the first one's.

    Args:
        answers: the candidate's and the baseline's, by what identifies the pair.
    """
    return [
        [_sampled(card, one, answers, replies, sample) for one in judgments]
        for sample in range(1, samples)
        for replies in [store.completions(sample_key(part, sample) for one in judgments for part in one.key.split())]
    ]


def _sampled(
    card: JudgeCard,
    first: Judgment,
    answers: tuple[Mapping[str, str], Mapping[str, str]],
    replies: Mapping[str, Reply],
    sample: int,
) -> Judgment:
    if not first.key:  # nothing was asked
        return first
    keys = sample_key(first.key, sample).split()
    reading = Reading("failed", reason=NOT_ASKED)
    if all(key in replies for key in keys):
        ours, theirs = (side.get(first.instruction, "") for side in answers)
        shown = (ours, theirs) if first.position == "first" else (theirs, ours)
        reading = read_replies(card, [replies[key] for key in keys], shown)
    return replace(
        first,
        key=" ".join(keys),
        verdict=reading.verdict,
        reason=reading.reason,
        preference=reading.preference,
        ratings=reading.ratings,
    )
