"""A comparison has no direction until it is shown: here rates, intervals, counts and findings change sides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, TypeVar

from instruct.analysis.results import Claim, Record, rounded
from instruct.reporting.model import ComparisonReport, Unjudged
from instruct.reporting.text import leads

Compared = ComparisonReport | Claim | Unjudged
Kind = TypeVar("Kind", bound=Record)
Claimed = TypeVar("Claimed", ComparisonReport, Claim, Unjudged, Compared)

_SIDES = {"candidate": "baseline", "win": "loss", "candidate_mean": "baseline_mean"}
_SIDES |= {theirs: ours for ours, theirs in _SIDES.items()}
RATES = {"win_rate", "discrete_win_rate", "win_rates", "value", "labels_only", "judge_only", "score"}
INTERVALS = {
    "interval",
    "excluding",
    "bounds",
    "labels_only_interval",
    "score_interval",
    "interval_seeds",
    "interval_prompts",
}


def mirrored(record: Kind) -> Kind:
    """A comparison or the claim of a win rate, or a part of one, as the other side sees it."""
    values = {name: _mirrored(name, getattr(record, name)) for name in type(record).model_fields}
    changed = {_SIDES.get(name, name): value for name, value in values.items()}
    seen = record.model_copy(update=changed)
    if isinstance(seen, ComparisonReport):
        seen.leads = leads(seen.leading_figures)
        for warning in seen.warnings:  # about a side that has changed
            warning.text = warning.text.replace("the candidate's", f"{seen.baseline}'s")
    return seen


def _mirrored(name: str, value: Any) -> Any:
    """A field's value; the coefficients of style (`term`, `terms`) are those of either side."""
    if isinstance(value, Record):
        return value if name == "term" else mirrored(value)
    if isinstance(value, dict):
        return {key: _mirrored(key, part) for key, part in value.items()}
    if name in INTERVALS and value is not None:
        return [rounded(100 - end) for end in reversed(value)]
    if isinstance(value, list) and name != "terms":
        return [_mirrored(name, part) for part in value]
    if name in RATES and value is not None:
        return rounded(100 - value)
    return _SIDES.get(value, value) if name == "finding" else value


def about(
    claims: Iterable[Claimed], system: str, side: Literal["candidate", "baseline"] = "candidate"
) -> Iterator[Claimed]:
    """The claims about a system, which is on this side of each."""
    for claim in claims:
        if getattr(claim, side) == system:
            yield claim
        elif getattr(claim, _SIDES[side]) == system:
            yield mirrored(claim)


def baselines(comparisons: Sequence[ComparisonReport]) -> list[str]:
    """The systems that others are shown against: the baselines; all, if one stands on both sides."""
    ours, theirs = ([getattr(each, side) for each in comparisons] for side in ("baseline", "candidate"))
    return list(dict.fromkeys(ours if set(ours).isdisjoint(theirs) else [*ours, *theirs]))
