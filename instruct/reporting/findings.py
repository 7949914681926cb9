"""Which systems a report says are better: the claims of each judge, tested together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from instruct.analysis.claims import LEAST_DECIDED, LEAST_SEEDS, agreeing_interval, finding_of
from instruct.analysis.holm import holm
from instruct.analysis.results import SeedSpread
from instruct.reporting.model import ComparisonReport, JudgeReport
from instruct.reporting.seeds import spread_with


def settle(judges: Iterable[JudgeReport], spreads: Sequence[SeedSpread]) -> None:
    """Set every finding by its test, corrected for all claims of the judge, and make the interval agree with it.

    Systems trained with several seeds claim over all of them; the comparisons of single seeds are detail, and corrected
    among themselves.
    """
    for judge in judges:
        of_one_seed = [bool(spread_with(spreads, judge, each)) for each in judge.comparisons]
        alone = [each for each, single in zip(judge.comparisons, of_one_seed, strict=True) if not single]
        _settle_together([*(spread for spread in spreads if spread.judge == judge.name), *alone])
        _settle_together([each for each, single in zip(judge.comparisons, of_one_seed, strict=True) if single])


def _settle_together(claims: Sequence[SeedSpread | ComparisonReport]) -> None:
    tests = [claim if isinstance(claim, SeedSpread) else claim.significance for claim in claims]
    made = sum(test.p is not None for test in tests)
    for claim, test, adjusted in zip(claims, tests, holm([test.p for test in tests]), strict=True):
        test.adjusted_p, test.claims = adjusted, made
        if isinstance(claim, SeedSpread):
            claim.finding = finding_of(adjusted, claim.mean, len(claim.seeds) >= LEAST_SEEDS)
            claim.interval_both = agreeing_interval(claim.interval_both, claim.finding)
        else:
            figures = claim.leading_figures
            figures.finding = finding_of(adjusted, figures.win_rate, figures.win + figures.loss >= LEAST_DECIDED)
            figures.interval = agreeing_interval(figures.interval, figures.finding)
