"""The rule for claiming that one system beats another, which every output follows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from instruct.analysis.inference import Estimate, agree
from instruct.analysis.results import NULL, Claim, Finding, rounded
from instruct.scores.samples import Sample

# A claim is made if its test, corrected for the number of claims made together, rejects at this level.
ALPHA = 0.05


def finding_of(p: float | None, gain: float | None, enough: bool = True) -> Finding:
    """Which system may be said to beat the other.

    Args:
        p: of the test that decides, corrected for the number of claims; None where it is not defined.
        gain: by how much the candidate is better.
        enough: whether there are LEAST_DECIDED decided pairs, FEW_PAIRS graded ones, or LEAST_SEEDS seeds.
    """
    if not enough:
        return "too few"
    if p is None or p > ALPHA or not gain:
        return "no difference"
    return "candidate" if gain > 0 else "baseline"


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's step-down correction: rejecting those up to alpha makes any false rejection as rare as alpha.

    Args:
        p_values: None for a test that is not defined, which does not count.

    Source: Holm, Scandinavian Journal of Statistics 6 (1979); statsmodels' multipletests gives the same.
    """
    known = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
    corrected: list[float | None] = [None] * len(p_values)
    largest = 0.0
    for rank, (p, place) in enumerate(known):
        largest = max(largest, min(1.0, (len(known) - rank) * p))
        corrected[place] = largest
    return corrected


def claim_of(sample: Sample, simultaneous: int = 1, **about: Any) -> Claim:
    """The claim that a sample makes, which holds whatever its missing values would have been.

    Args:
        simultaneous: how many intervals are to hold at once.
        about: the claim's further fields: the measure, the systems, whose verdicts.
    """
    estimate, params = sample.at(math.nan), {**sample.params, **about.pop("params", {})}
    if sample.missing and sample.n and sample.share:
        estimate = bounded(estimate, sample.at(0.0), sample.at(1.0), NULL[sample.kind])
    if sample.missing and not sample.share:
        params["unbounded"] = True
    if simultaneous > 1:
        params["simultaneous"] = estimate.excluding(0.95 ** (1 / simultaneous))
    value, interval = (None if math.isnan(estimate.value) else estimate.value), estimate.interval
    claim = Claim(
        kind=sample.kind,
        test=sample.test,
        n=sample.n,
        missing=sample.missing,
        value=rounded(value) if sample.kind == "rate" else value,
        interval=rounded(interval) if sample.kind == "rate" else interval,
        p=estimate.p,
        enough=sample.enough,
        trainings=sample.trainings,
        counts=sample.counts,
        params=params,
        **about,
    )
    claim._one_sided = estimate.one_sided
    return claim


def mirrored(claim: Claim) -> Claim:
    """The claim of a win rate, as the baseline sees it."""
    counts, sides = claim.counts, {"candidate": "baseline", "baseline": "candidate"}
    if counts is not None:
        discrete, bounds = _mirrored(counts.discrete_win_rate), _mirrored(counts.bounds)
        swapped = {"win": counts.loss, "loss": counts.win, "discrete_win_rate": discrete, "bounds": bounds}
        counts = counts.model_copy(update=swapped)
    over_seeds = {name: _mirrored(claim.params.get(name)) for name in ("interval_seeds", "interval_prompts")}
    over_seeds["win_rates"] = [_mirrored(rate) for rate in claim.params.get("win_rates", ())]
    return claim.model_copy(
        update={
            "candidate": claim.baseline,
            "baseline": claim.candidate,
            "value": _mirrored(claim.value),
            "interval": _mirrored(claim.interval),
            "excluding": _mirrored(claim.excluding),
            "finding": sides.get(str(claim.finding), claim.finding),
            "counts": counts,
            "params": claim.params | {name: value for name, value in over_seeds.items() if name in claim.params},
        }
    )


def _mirrored(rate: Any) -> Any:
    """The other side's rate in percent, or its interval."""
    if isinstance(rate, list):
        return [rounded(100 - end) for end in reversed(rate)]
    return None if rate is None else rounded(100 - rate)


def of_family(claims: Iterable[Claim], family: str) -> list[Claim]:
    """The claims that are corrected together."""
    return [claim for claim in claims if claim.family == family]


def settle(claims: Iterable[Claim]) -> None:
    """Correct the p-values of the claims of each family that were made together, and set what may be said.

    Claims without a family are not corrected. The interval of a win rate is made to agree with the finding.
    """
    families: dict[str, list[Claim]] = {}
    for claim in claims:
        if claim.family:
            families.setdefault(claim.family, []).append(claim)
        else:
            decide(claim, claim.p)
    for compared in families.values():
        tested = sum(claim.p is not None for claim in compared)
        for claim, p in zip(compared, holm([claim.p for claim in compared]), strict=True):
            claim.adjusted_p, claim.claims = p, tested
            decide(claim, p)


def decide(claim: Claim, p: float | None) -> None:
    """Set what may be said by a corrected p-value."""
    if claim.enough is not None:
        claim.finding = finding_of(p, claim.gain, claim.enough)
        if claim.kind == "rate" and claim.value is not None:
            found = p if claim.has_winner else None
            claim.interval = agree(Estimate(claim.value, claim.interval, found), claim.null).interval
    shown = claim.finding not in (None, "no difference") or (claim.finding is None and p is not None and p <= ALPHA)
    if not shown and claim.value is not None and claim.interval:
        tested = Estimate(claim.value, claim.interval, p, claim._one_sided)
        claim.excluding = rounded(tested.excluding())
    claim._one_sided = None  # what is settled is data


def bounded(complete: Estimate, lost: Estimate, won: Estimate, null: float) -> Estimate:
    """An estimate whose p-value and interval hold whatever the missing verdicts would have been.

    The p-value is the largest: that of the worst case for the side that leads; 1 if the worst case turns the sides
    around. The interval reaches from the lower end of `lost` to the upper end of `won`.

    Args:
        complete: from what is not missing. lost, won: with everything missing lost, or won, by the candidate.

    Source: Manski, American Economic Review 80 (1990); Horowitz and Manski, JASA 95 (2000), for intervals of bounds.
    """
    worst = lost if complete.value > null else won
    p = None if complete.p is None else 1.0
    if complete.p is not None and worst.p is not None and (worst.value - null) * (complete.value - null) > 0:
        p = max(complete.p, worst.p)
    every = (complete, lost, won)
    ends = [each.interval for each in every if each.interval]
    interval = [min(low for low, _ in ends), max(high for _, high in ends)] if ends else None
    tests = [each.one_sided for each in every if each.one_sided]

    def most(at: float, sign: int) -> float:
        return max(test(at, sign) for test in tests)

    return Estimate(complete.value, interval, p, most if len(tests) == len(every) else None)
