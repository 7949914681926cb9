"""The rule for claiming that one system beats another, which every output follows."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

from instruct.analysis.inference import Estimate
from instruct.analysis.results import Claim, CompleteCase, Finding, rounded

# A claim is made if its test, corrected for the number of claims made together, rejects at this level.
ALPHA = 0.05
# The tests of the claims with a margin, and their findings.
MARGIN_TESTS: dict[str, Finding] = {"not worse": "not worse", "equivalent": "equivalent"}
# Six coin tosses all agree in 2 of 64 cases: with fewer than six decided pairs no result is significant at 5 %.
LEAST_DECIDED = 6
# With two trainings nobody knows how much a training seed changes: Student's t has one degree of freedom.
LEAST_SEEDS = 3
# The smallest step of report.json: an interval that ends here does not include 50.
_BESIDE = 1e-6


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


def holm(p_values: Sequence[float | None], about: Sequence[Hashable] | None = None) -> list[float | None]:
    """Holm's step-down correction: rejecting those up to alpha makes any false rejection as rare as alpha.

    Args:
        p_values: None for a test that is not defined, which does not count.
        about: what each hypothesis is about (None: something else each). Of those about the same thing, such as no
            difference and one beyond a margin, only one can be true, or those that the first false rejection among
            them decides: they count once, as long as one of them is not rejected.

    Source: Holm, Scandinavian Journal of Statistics 6 (1979); statsmodels' multipletests gives the same. Shaffer, JASA
    81 (1986), for hypotheses that cannot all be true.
    """
    about = range(len(p_values)) if about is None else about
    known = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
    corrected: list[float | None] = [None] * len(p_values)
    largest = 0.0
    for rank, (p, place) in enumerate(known):
        left = len({about[place] for _, place in known[rank:]})
        largest = max(largest, min(1.0, left * p))
        corrected[place] = largest
    return corrected


def make_claim(estimate: Estimate, **fields: Any) -> Claim:
    """The claim that an estimate makes; `fields`: the others, and those that are written in another way."""
    claim = Claim(**{"value": estimate.value, "interval": estimate.interval, "p": estimate.p} | fields)
    claim._one_sided = estimate.one_sided
    return claim


def add_margin(claim: Claim, margin: float, **about: Any) -> None:
    """Add the claims that the candidate is not worse by more than a margin, and that the two are equivalent within it.

    Nothing is added where no one-sided test is defined.

    Args:
        margin: in the unit of the value.
        about: further params.

    Source: Schuirmann, Journal of Pharmacokinetics and Biopharmaceutics 15 (1987), two one-sided tests.
    """
    better = -1 if claim.better == "lower" else 1

    def p_of(of: Claim | CompleteCase, *signs: int) -> float | None:
        tests = of._one_sided
        return max(tests(claim.null - sign * margin, sign) for sign in signs) if tests else None

    def within(test: str, *signs: int) -> Claim | None:
        complete = claim.complete_case and CompleteCase(interval=None, p=p_of(claim.complete_case, *signs))
        told = {"test": test, "interval": None, "p": p_of(claim, *signs), "complete_case": complete}
        made = claim.model_copy(update=told | {"params": {"margin": margin, **about}})
        return made if made.p is not None and made.enough is not None else None

    claim.not_worse, claim.equivalent = within("not worse", better), within("equivalent", 1, -1)


def of_family(claims: Iterable[Claim], family: str) -> list[Claim]:
    """The claims that are corrected together."""
    return [claim for claim in claims if claim.family == family]


def settle(claims: Iterable[Claim]) -> None:
    """Correct the p-values of the claims of each family that were made together, and set what may be said.

    Claims without a family are not corrected, and those about the primary outcome apart. The interval of a win rate is
    made to agree with the finding. A claim that holds among the complete cases alone is `reversible`: the missing
    verdicts could reverse it.
    """
    families: dict[tuple[str, bool], list[Claim]] = {}
    for claim in claims:
        if claim.family:
            families.setdefault((claim.family, claim.primary is True), []).append(claim)
        else:
            decide(claim, claim.p, claim.complete.p)
    for compared in families.values():
        about, together = zip(
            *((id(claim), each) for claim in compared for each in (claim, claim.not_worse, claim.equivalent) if each),
            strict=True,
        )
        tested = len({key for key, each in zip(about, together, strict=True) if each.p is not None})
        adjusted = holm([each.p for each in together], about), holm([each.complete.p for each in together], about)
        for claim, p, of_complete in zip(together, *adjusted, strict=True):
            claim.complete.adjusted_p, claim.adjusted_p, claim.claims = of_complete, p, tested
            decide(claim, p, of_complete)


def decide(claim: Claim, p: float | None, of_complete: float | None) -> None:
    """Set what may be said by corrected p-values: of the claim, and of its complete cases."""
    if claim.enough is not None:
        _find(claim, p, of_complete)
    shown = claim.finding not in (None, "no difference") or (claim.finding is None and p is not None and p <= ALPHA)
    if not shown and claim.value is not None and claim.interval:
        tested = Estimate(claim.value, claim.interval, p, claim._one_sided)
        claim.excluding = rounded(tested.excluding())
    claim._one_sided = claim.complete._one_sided = None  # what is settled is data


def _find(claim: Claim, p: float | None, of_complete: float | None) -> None:
    def finding(of: float | None) -> Finding:
        if claim.test not in MARGIN_TESTS:
            return finding_of(of, claim.gain, bool(claim.enough))
        rejected = MARGIN_TESTS[claim.test] if of is not None and of <= ALPHA else "no difference"
        return rejected if claim.enough else "too few"

    made, among_complete = finding(p), finding(of_complete)
    if claim.kind == "rate":
        claim.complete.interval = agreeing_interval(claim.complete.interval, among_complete)
        claim.interval = agreeing_interval(claim.interval, made)
    claim.finding = made if made == among_complete else "reversible"


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
    every = (complete, lost, won)
    ends = [each.interval for each in every if each.interval]
    interval = [min(low for low, _ in ends), max(high for _, high in ends)] if ends else None
    tests = [each.one_sided for each in every if each.one_sided]

    def most(at: float, sign: int) -> float:
        return max(test(at, sign) for test in tests)

    return Estimate(complete.value, interval, p, most if len(tests) == len(every) else None)
