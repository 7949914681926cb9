"""Comparisons of systems trained with different seeds, put together in the report."""

from __future__ import annotations

import pytest
import yaml
from pages import LOSS, TIE, WIN, rows_of

from instruct.reporting.report import build_report, write_report

pytestmark = pytest.mark.usefixtures("without_figures")


@pytest.fixture
def judged(run, card, judge_pairs, write_answers):
    """Three seeds of emo against those of mle, two of them against a baseline; a comparison across seeds."""
    card("j")
    config = run.config()
    config["systems"] = {
        f"{name}-seed{seed}": {"objective": name, "seed": seed} for name in ("mle", "emo") for seed in (1, 2, 3)
    }
    (run.folder / "config.yaml").write_text(yaml.safe_dump(config))
    for seed, wins in ((2, 7), (1, 5), (3, 6)):
        judge_pairs([WIN] * wins + [LOSS] * (10 - wins), candidate=f"emo-seed{seed}", baseline=f"mle-seed{seed}")
    for seed in (1, 2):
        judge_pairs([WIN] * 5 + [TIE] * 5, candidate=f"emo-seed{seed}", baseline="baseline")
    judge_pairs([WIN] * 10, candidate="emo-seed1", baseline="mle-seed2")
    return run


def test_the_spread_is_that_of_the_comparisons_and_pairs_seed_with_seed(judged):
    report = build_report(judged.folder)
    second, first = report.seeds
    assert (first.candidate, first.baseline, first.params["seeds"]) == ("emo", "mle", [1, 2, 3])
    assert first.params["win_rates"] == [50.0, 70.0, 60.0]
    assert (first.value, first.params["standard_deviation"], first.n) == (60.0, 10.0, 10)
    assert (second.candidate, second.baseline, second.params["seeds"]) == ("emo", "baseline", [1, 2])
    assert (second.params["win_rates"], second.params["standard_deviation"]) == ([75.0, 75.0], 0.0)
    assert second.params["interval_seeds"] is None  # of a few equal win rates
    assert second.interval[0] < 75 < second.interval[1]  # the prompts differ
    assert [each.finding for each in report.seeds] == ["too few", "no difference"]
    assert [each for each in report.paired if each.candidate[-1] != each.baseline[-1]] == []
    row = "j | strict | emo | mle | 1, 2, 3 | 50.0, 70.0, 60.0 | 60 | 10 | 35–85"
    assert row in rows_of(report.to_html())


def test_a_seed_that_was_compared_the_other_way_round_counts_alike(judged, judge_pairs):
    for judge in ("k", "l"):
        for seed, wins in ((1, 5), (2, 9), (3, 2)):
            sides, outcomes = (f"emo-seed{seed}", f"mle-seed{seed}"), ([WIN] * wins + [LOSS] * (10 - wins))
            if judge == "l" and seed != 1:
                sides, outcomes = sides[::-1], [LOSS if outcome == WIN else WIN for outcome in outcomes]
            judge_pairs(outcomes, judge=judge, candidate=sides[0], baseline=sides[1])
    one, other = [each for each in build_report(judged.folder).seeds if each.judge in ("k", "l")]
    assert (one.candidate, one.value) == (other.candidate, other.value)
    assert one.params == other.params


def test_the_headline_of_one_seed_is_shown_with_the_figures_of_all(judged):
    """A reader who stops at the top of the page would quote one training of three."""
    page = write_report(judged.folder)[1].with_suffix(".html").read_text()
    assert page.count("One of 3 training seeds; over all of them: win rate 60 % (95 % CI ") == 3
    assert page.count("training seeds; over all of them") == 5  # not that of emo-seed1 with mle-seed2
