"""The rule for claiming that one system beats another, which every output follows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from instruct.analysis.inference import Estimate
from instruct.analysis.results import Claim, Finding

# A claim is made if its test, corrected for the number of claims made together, rejects at this level.
ALPHA = 0.05
# Six coin tosses all agree in 2 of 64 cases: with fewer than six decided pairs no result is significant at 5 %.
LEAST_DECIDED = 6
# With two trainings nobody knows how much a training seed changes: Student's t has one degree of freedom.
LEAST_SEEDS = 3
# The smallest step of report.json: an interval that ends here does not include 50.
_BESIDE = 1e-6


def finding_of(p: float | None, rate: float | None, enough: bool = True) -> Finding:
    """Which system may be said to beat the other.

    Args:
        p: of the test that decides, corrected for the number of claims; None where it is not defined.
        rate: the candidate's win rate in percent.
        enough: whether there are LEAST_DECIDED decided pairs, or LEAST_SEEDS seeds.
    """
    if not enough:
        return "too few"
    if p is None or p > ALPHA or rate is None or rate == 50:
        return "no difference"
    return "candidate" if rate > 50 else "baseline"


def enough_decided(wins: int, losses: int, units: int) -> bool:
    """Whether there are enough decided pairs for a claim, of `units` drawn at random (pairs, or conversations)."""
    return min(wins + losses, units) >= LEAST_DECIDED


def agreeing_interval(interval: Sequence[float] | None, finding: Finding) -> list[float] | None:
    """The interval of a win rate in percent, extended to 50 where nothing is claimed, and cut there where it is.

    Both keep its coverage: a longer interval covers more, and a test at 5 % that rejects 50 for one side rejects every
    rate on the other one.
    """
    if interval is None:
        return None
    low, high = interval
    if finding == "candidate":
        return [max(low, 50 + _BESIDE), max(high, 50 + _BESIDE)]
    if finding == "baseline":
        return [min(low, 50 - _BESIDE), min(high, 50 - _BESIDE)]
    return [min(low, 50.0), max(high, 50.0)]


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


def of_family(claims: Iterable[Claim], family: str) -> list[Claim]:
    """The claims that are corrected together."""
    return [claim for claim in claims if claim.family == family]


def settle(claims: Iterable[Claim]) -> None:
    """Correct the p-values of the claims of each family that were made together, and set what may be said.

    Claims without a family are not corrected. The interval of a win rate is made to agree with the finding. A claim
    that holds among the complete cases alone is `reversible`: the missing verdicts could reverse it.
    """
    families: dict[str, list[Claim]] = {}
    for claim in claims:
        if claim.family:
            families.setdefault(claim.family, []).append(claim)
        else:
            _decide(claim, claim.p, claim.complete.p)
    for together in families.values():
        tested = sum(claim.p is not None for claim in together)
        adjusted = holm([claim.p for claim in together]), holm([claim.complete.p for claim in together])
        for claim, p, of_complete in zip(together, *adjusted, strict=True):
            claim.complete.adjusted_p, claim.adjusted_p, claim.claims = of_complete, p, tested
            _decide(claim, p, of_complete)


def _decide(claim: Claim, p: float | None, of_complete: float | None) -> None:
    if claim.enough is None:
        return
    rate = None if claim.gain is None else 50 + claim.gain
    claim.finding = finding_of(p, rate, claim.enough)
    among_complete = finding_of(of_complete, rate, claim.enough)
    if claim.is_rate:
        claim.complete.interval = agreeing_interval(claim.complete.interval, among_complete)
        claim.interval = agreeing_interval(claim.interval, claim.finding)
    if claim.finding != among_complete:
        claim.finding = "reversible"


def bounded(complete: Estimate, lost: Estimate, won: Estimate, null: float = 50.0) -> Estimate:
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
    ends = [each.interval for each in (complete, lost, won) if each.interval]
    interval = [min(low for low, _ in ends), max(high for _, high in ends)] if ends else None
    return Estimate(complete.value, interval, p)
