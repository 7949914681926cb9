"""The table of `instruct bench`: what is compared with what, and when something may be called better."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from bench_runs import bench_run

from instruct.analysis.results import Claim
from instruct.logs.read import by_task
from instruct.reporting import bench
from instruct.reporting.read import read_run
from instruct.reporting.report import build_report
from instruct.reporting.text import finding
from instruct.run.measurements import write_values
from instruct.scores.claims import of_family, settle
from instruct.scores.scores import Row, Scores


def found(seeds: int, gain: float) -> list[Claim]:
    """The claims of ROUGE-L, cross-entropy and samples of two objectives and a control, on 40 prompts."""
    rng = np.random.default_rng(0)
    base = rng.uniform(0.2, 0.5, 40)
    scores = []
    for system, seed in itertools.product(("mle", "dft", "mle-matched-dft"), range(1, seeds + 1)):
        values = base + gain * (system == "dft") + rng.normal(0, 0.01, 40)
        for measure in (bench.ENTROPY, bench.GREEDY, bench.SAMPLED)[2 * ("matched" in system) :]:
            scores.append(log := Scores("made", Path(), system, measure, seed=str(seed)))
            log.better[measure] = "lower" if measure == bench.ENTROPY else "higher"
            for unit, value in enumerate(values.tolist()):
                log.add(Row(str(unit), {measure: value}), measure)
    systems = {
        f"{objective}-seed{seed}": {"objective": objective, "seed": seed}
        for objective in ("mle", "dft")
        for seed in range(1, seeds + 1)
    }
    claims = bench.objective_claims({"systems": systems}, by_task(scores))
    settle(claims)
    return claims


@pytest.mark.parametrize(
    ("seeds", "gain", "greedy", "entropy"),
    [
        (3, 0.1, "better", "worse"),
        (3, 0.0, "no difference shown", "no difference shown"),
        (2, 0.1, "fewer than 3 seeds", "fewer than 3 seeds"),
    ],
)
def test_a_finding_needs_three_seeds_and_knows_what_is_better(seeds, gain, greedy, entropy):
    claims = found(seeds, gain)
    assert {(claim.measure, claim.baseline): finding(claim) for claim in claims} == {
        (bench.ENTROPY, "mle"): entropy,
        (bench.GREEDY, "mle"): greedy,
        (bench.SAMPLED, "mle"): greedy,
        (bench.SAMPLED, "MLE at the entropy of dft"): greedy,
    }
    assert all((claim.trainings, claim.n) == (seeds, 40) for claim in claims)


def test_a_task_or_group_is_a_measure_and_a_metric_that_may_be_a_loss_is_not_called_better(tmp_path):
    """Right or wrong answers of dft in two tasks of a group, with clusters and the same ids; a loss; one missing."""
    run = bench_run(tmp_path / "run", {"mle": 3, "dft": 3})
    contents = read_run(run.folder)

    def log(name: str, task: str, metric: str) -> Scores:
        made = Scores("lm-eval", Path(name), name, task)
        for unit in range(20):
            value = (int(name[-1]) + unit) % 5 < 2 + 2 * name.startswith("dft")
            missing = (name, task, unit) == ("dft-seed1", "a", 0)
            made.add(Row(str(unit), {metric: None if missing else float(value)}, cluster=str(unit // 2)), name)
        return made

    names = [*contents.config["systems"]]
    vars(contents)["tasks"] = {
        "group": {name: [log(name, "a", "acc"), log(name, "b", "acc")] for name in names},
        "text": {name: [log(name, "c", "word_perplexity")] for name in names},
        "lacking": {name: [log(name, "d", "acc")] for name in names if name != "dft-seed2"},
    }
    scores = bench.bench_scores(contents)
    claims = bench.objective_claims(contents.config, by_task(scores))
    settle(claims)
    of_tasks = {claim.measure: claim for claim in claims if "(" in claim.measure}
    assert {measure: (finding(claim), claim.n) for measure, claim in of_tasks.items()} == {
        "group (acc)": ("better", 39), "text (word_perplexity)": ("higher", 20)
    }  # fmt: skip
    assert of_tasks["group (acc)"].missing == 1
    of_group = next(log for log in scores if log.task == "group")
    assert (len(set(of_group.units)), len(set(of_group.clusters))) == (40, 20)


def test_what_a_training_lacks_or_failed_in_is_not_compared(tmp_path):
    """dft has no answers to one training, and likelihoods of other texts to another; answers of emo failed."""
    run = bench_run(tmp_path / "run", {"mle": 3, "dft": 3, "emo": 3})
    (run.outputs / "dft-seed2.json").unlink()
    write_values(run, "perplexity", "dft-seed1", {"id": ["another"], "nats": [1.0], "tokens": [1]})
    path = run.outputs / "emo-seed2.json"
    path.write_text(json.dumps([row | {"failed": "HTTP 400"} for row in json.loads(path.read_text())]))
    report = build_report(run.folder)
    assert [row.system for row in report.measurements if row.metric == bench.GREEDY] == ["mle"]
    claims = {(claim.candidate, claim.measure): claim for claim in of_family(report.claims, bench.OBJECTIVES)}
    assert claims.keys() == {("emo", bench.GREEDY), ("emo", bench.ENTROPY)}
    failed = claims["emo", bench.GREEDY]
    assert (failed.value, failed.finding) == (None, "too few")
