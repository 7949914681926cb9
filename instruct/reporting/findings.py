"""Which systems a report says are better: the claims of each judge, and of its panels, tested together."""

from __future__ import annotations

from collections.abc import Sequence

from instruct.analysis.claims import LEAST_SEEDS, agreeing_interval, enough_decided, finding_of
from instruct.analysis.holm import holm
from instruct.analysis.results import SeedSpread
from instruct.reporting.model import ComparisonReport, Panel, ReportData

_Claim = SeedSpread | ComparisonReport | Panel


def settle(report: ReportData) -> None:
    """Set every finding by its test, corrected for all claims of the judge, and make the interval agree with it.

    Systems trained with several seeds claim over all of them; the comparisons of single seeds are detail, and corrected
    among themselves. The majorities of panels are corrected like the claims of one judge.
    """
    for judge in report.judges:
        alone = [each for each in judge.comparisons if not each.spread]
        _settle_together([*(spread for spread in report.seeds if spread.judge == judge.name), *alone])
        _settle_together([each for each in judge.comparisons if each.spread])
    for one_seed in (False, True):
        _settle_together([each for each in report.panels if each.one_seed == one_seed])


def _settle_together(claims: Sequence[_Claim]) -> None:
    tests = [(claim, claim if isinstance(claim, SeedSpread) else claim.significance) for claim in claims]
    tested = [(claim, test) for claim, test in tests if test]  # a majority of an older report has no test
    made = sum(test.p is not None for _, test in tested)
    for (claim, test), adjusted in zip(tested, holm([test.p for _, test in tested]), strict=True):
        test.adjusted_p, test.claims = adjusted, made
        if isinstance(claim, SeedSpread):
            claim.finding = finding_of(adjusted, claim.mean, len(claim.seeds) >= LEAST_SEEDS)
            claim.interval_both = agreeing_interval(claim.interval_both, claim.finding)
        else:
            figures = claim.leading_figures
            graded = figures.interval if figures.graded else None
            units = figures.n_judged if figures.conversations is None else figures.conversations
            enough = enough_decided(figures.win, figures.loss, units)
            figures.finding = finding_of(adjusted, figures.win_rate, enough, graded)
            figures.interval = agreeing_interval(figures.interval, figures.finding)
