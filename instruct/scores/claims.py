"""The rule for claiming that one system beats another, which every output follows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from instruct.analysis.inference import FEW_UNITS, weakest
from instruct.analysis.results import Claim, Finding, rounded
from instruct.scores.samples import Sample

# A claim is made if its test, corrected for the number of claims made together, rejects at this level.
ALPHA = 0.05
# Those in a claim's params.
_INTERVALS = {"interval_seeds", "interval_prompts", "simultaneous"}


def finding_of(p: float | None, gain: float | None, enough: bool = True) -> Finding:
    """Which system may be said to beat the other.

    Args:
        p: of the test that decides, corrected for the number of claims; None where it is not defined.
        gain: by how much the candidate is better.
        enough: whether there is enough for a finding, see `Claim`.
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
        estimate = weakest(estimate, [sample.at(0.0), sample.at(1.0)])
    if not sample.share:
        params["unbounded"] = True
    drawn = params.get("clusters", sample.n)
    if estimate.p is None and estimate.test.startswith("Student") and drawn >= FEW_UNITS:
        params["constant"] = True
    if simultaneous > 1:
        params["simultaneous"] = estimate.within(0.95 ** (1 / simultaneous))
    value, interval, error = estimate.value, estimate.interval, estimate.error
    if sample.kind != "metric":
        interval, error = rounded(interval), rounded(error)
    if sample.kind == "rate":
        value = rounded(value)
    claim = Claim(
        kind=sample.kind,
        test=estimate.test,
        n=sample.n,
        missing=sample.missing,
        value=None if math.isnan(value) else value,
        standard_error=error,
        interval=interval,
        p=estimate.p,
        enough=sample.enough if sample.enough is None else sample.enough and estimate.p is not None,
        trainings=sample.trainings,
        counts=sample.counts,
        params=params,
        **about,
    )
    claim._estimate = estimate
    return claim


def stated(claim: Claim) -> Claim:
    """The claim as people read it: with too few units there are counts and the difference, and nothing that says how
    certain it is."""
    if claim.finding != "too few":
        return claim
    unsaid = dict.fromkeys(("interval", "excluding", "standard_error", "p", "adjusted_p"))
    return claim.model_copy(update={**unsaid, "params": claim.params | dict.fromkeys(_INTERVALS & claim.params.keys())})


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

    Claims without a family are not corrected.
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
    """Set what may be said by a corrected p-value: the finding, and what is excluded, corrected alike."""
    if claim.enough is not None:
        claim.finding = finding_of(p, claim.gain, claim.enough)
    shown = claim.has_winner or (claim.finding is None and p is not None and p <= ALPHA)
    if not shown and claim._estimate is not None:
        claim.excluding = rounded(claim._estimate.within(1 - 2 * ALPHA / max(1, claim.claims)))
    claim._estimate = None  # what is settled is data
