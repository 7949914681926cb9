"""The table of `instruct bench`: what is compared with what, and when something may be called better."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from instruct.analysis.measured_results import Bench, BenchDifference, BenchSystem
from instruct.analysis.seeds import score_difference
from instruct.reporting import bench
from instruct.reporting.document import document
from instruct.reporting.render.lines import render_markdown
from instruct.reporting.report import build_report
from instruct.reporting.text import bench_headlines


def measured_of(seeds: int, gain: float) -> bench._Measured:
    """ROUGE-L, cross-entropy and samples of two objectives and their controls, on 40 prompts."""
    rng = np.random.default_rng(0)
    base = rng.uniform(0.2, 0.5, 40)

    def scores(shift: float) -> dict[str, float]:
        return {str(place): float(score) for place, score in enumerate(base + shift + rng.normal(0, 0.01, 40))}

    names = {key: {seed: f"{key}-seed{seed}" for seed in range(1, seeds + 1)} for key in ("mle", "dft")}
    systems = [name for own in names.values() for name in own.values()]
    own = {name: scores(gain * name.startswith("dft")) for name in systems}
    controls = {f"mle-matched-{name}": scores(0) for name in names["dft"].values()}
    measures = {bench.ENTROPY: own, bench.GREEDY: own, bench.SAMPLED: own | controls}
    return bench._Measured(SimpleNamespace(), names, measures)


@pytest.mark.parametrize(
    ("seeds", "gain", "greedy", "entropy"),
    [
        (3, 0.1, "better", "worse"),
        (3, -0.1, "worse", "better"),
        (3, 0.0, "no difference shown", "no difference shown"),
        (2, 0.1, "fewer than 3 seeds", "fewer than 3 seeds"),
        (1, 0.1, "fewer than 3 seeds", "fewer than 3 seeds"),
    ],
)
def test_a_finding_needs_three_seeds_and_knows_what_is_better(seeds, gain, greedy, entropy):
    found = bench._differences(measured_of(seeds, gain))
    findings = {(each.measure, each.second): bench._finding(each, each.p) for each in found}
    control = "MLE at the entropy of dft"
    assert findings == {
        (bench.ENTROPY, "mle"): entropy,
        (bench.GREEDY, "mle"): greedy,
        (bench.SAMPLED, "mle"): greedy,
        (bench.SAMPLED, control): greedy,
    }
    assert all((each.trainings, each.n) == (seeds, 40) for each in found)


@pytest.mark.parametrize(
    ("measure", "finding"),
    [("sst2 (accuracy)", "better"), ("wikitext (word_perplexity)", "higher")],
)
def test_what_is_better_is_not_said_of_a_metric_that_may_be_a_loss(measure, finding):
    (found, *_) = bench._differences(measured_of(3, 0.1))
    assert bench._finding(found.model_copy(update={"measure": measure}), 0.01) == finding


def test_a_measure_that_a_training_lacks_is_not_compared():
    measured = measured_of(3, 0.1)
    del measured.scores[bench.GREEDY]["dft-seed2"]
    shared = [(each.measure, each.second) for each in bench._differences(measured)]
    assert bench.GREEDY not in dict(shared)


def found(measure: str = "ROUGE-L") -> Bench:
    system = BenchSystem(
        name="a|b", trainings=3, learning_rate=3e-4, rates={}, figures={"ROUGE-L": 0.5}, deviations={"ROUGE-L": 0.01},
        minutes=1.25, gib=None,
    )  # fmt: skip
    result = score_difference([{"x": 0.4, "y": 0.7}] * 3, [{"x": 0.3, "y": 0.5}] * 3)
    difference = BenchDifference(
        measure=measure, first="a|b", second="mle", trainings=3, n=2, difference=result.difference,
        interval=[0.1, 0.2], p=result.p, p_holm=0.25, finding="no difference shown",
    )  # fmt: skip
    rows = {"train": 1000, "choose": 100, "test": 2}
    return Bench(rows=rows, systems=[system], differences=[difference], notes=["no judge"])


def test_the_report_shows_every_figure_and_escapes_names(run, write_answers, judge_pairs):
    write_answers("emo", 8)
    write_answers("mle", 8)
    judge_pairs([("first", "second")] * 8)
    report = build_report(run.folder)
    report.bench = found()
    text = render_markdown(document(report))
    assert "1,000 rows to train, 100 rows to choose, 2 rows to test" in text
    assert r"| a\|b | 0.0003 | 3 | 0.5000 ± 0.0100 | " in text
    assert r"| a\|b − mle | ROUGE-L | 3 | 2 | +0.1500 | " in text
    assert "No judge." in text
    said = "a|b against mle, ROUGE-L: no difference shown (+0.1500, 95 % CI +0.1000 to +0.2000; n = 2, 3 seeds)"
    assert said in report.headlines()
    assert said.partition(":")[0] in str(report)


def test_a_judges_claim_has_its_own_sentence_alone():
    assert not bench_headlines(found("win rate − ½ (autoj)"))
