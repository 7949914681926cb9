"""The table of `instruct bench`: what is compared with what, and when something may be called better."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from bench_runs import bench_run
from pages import tables_text

from instruct.analysis.results import Claim
from instruct.logs.read import by_task
from instruct.reporting import bench
from instruct.reporting.compare_logs import compare_logs
from instruct.reporting.document import document
from instruct.reporting.model import Bench
from instruct.reporting.read import read_run
from instruct.reporting.render.lines import render_markdown
from instruct.reporting.report import build_report, write_report
from instruct.reporting.text import claim_headline, finding
from instruct.run.measurements import Details, Measurement, Number, write_numbers, write_values
from instruct.scores.claims import of_family, settle
from instruct.scores.scores import Row, Scores


def found(seeds: int, gain: float, elsewhere: int = 0) -> list[Claim]:
    """The claims of ROUGE-L, cross-entropy and samples of two objectives and a control, on 40 prompts."""
    rng = np.random.default_rng(0)
    base = rng.uniform(0.2, 0.5, 40)
    trainings = {"mle": seeds, "dft": elsewhere or seeds, "mle-matched-dft": elsewhere or seeds}
    scores = []
    for system, seed in [(system, seed) for system, number in trainings.items() for seed in range(1, number + 1)]:
        values = base + gain * (system == "dft") + rng.normal(0, 0.01, 40)
        for measure in (bench.ENTROPY, bench.GREEDY, bench.SAMPLED)[2 * ("matched" in system) :]:
            scores.append(log := Scores("made", Path(), system, measure, seed=str(seed)))
            log.better[measure] = "lower" if measure == bench.ENTROPY else "higher"
            for unit, value in enumerate(values.tolist()):
                log.add(Row(str(unit), {measure: value}), measure)
    systems = {f"mle-seed{seed}": {"objective": "mle", "seed": seed} for seed in range(1, seeds + 1)}
    about = {"objective": "none", "adapter": ["theirs"]} if elsewhere else {"objective": "dft"}
    systems |= {f"dft-seed{seed}": about | {"seed": seed} for seed in range(1, trainings["dft"] + 1)}
    claims = bench.objective_claims({"systems": systems}, by_task(scores))
    settle(claims)
    return claims


@pytest.mark.parametrize(
    ("seeds", "gain", "greedy", "entropy"),
    [
        (3, 0.1, "better", "worse"),
        (3, -0.1, "worse", "better"),
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


@pytest.mark.parametrize(
    ("trainings", "said"),
    [(1, "one training, elsewhere"), (2, "2 trainings, elsewhere"), (3, "better"), (5, "better")],
)
def test_what_was_trained_elsewhere_claims_as_many_trainings_as_there_are(trainings, said):
    (greedy,) = [claim for claim in found(3, 0.1, elsewhere=trainings) if claim.measure == bench.GREEDY]
    assert (finding(greedy), greedy.trainings, greedy.n) == (said, min(3, trainings), 40)
    assert greedy.value == pytest.approx(0.1, abs=0.01)


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


def test_words_are_counted_where_texts_are_measured(tmp_path):
    """Greedy answers have other words than samples, and a report had both as `words`."""
    run = bench_run(tmp_path / "run", {"mle": 1, "dft": 1})
    for name, words in (("mle-seed1", 7.0), ("dft-seed1", 9.0)):
        write_numbers(run, "diversity", name, [Number(metric="words", value=words, n=30)])
    results = {name: {"truncated": 3} for name in run.config()["systems"]}
    run.record("answers", {"status": "done", "inputs": {}, "results": results})
    rows = [row for row in build_report(run.folder).measurements if row.part == bench.OBJECTIVES]
    figures = {(row.system, row.metric): row.value for row in rows}
    assert {key: value for key, value in figures.items() if "words" in key[1]} == {
        ("mle", "words of samples"): 7, ("dft", "words of samples"): 9,
    }  # fmt: skip
    assert figures["mle", "without end"] == 0.1


def about(metric: str, value: float | None, **details: object) -> Measurement:
    details = Details(trainings=3, **details)
    return Measurement(system="dft", part=bench.OBJECTIVES, metric=metric, value=value, details=details)


def test_the_report_shows_every_figure_and_escapes_names(judge_run):
    report = build_report(judge_run([("first", "second")] * 8).folder)
    report.bench = Bench(rows={"train": 1000, "choose": 100, "test": 2}, notes=["no judge"])
    report.measurements = [about("ROUGE-L", 0.5, deviation=0.01), about(bench.RATE, 3e-4), about(bench.MINUTES, 1.25)]
    report.claims = [
        Claim(
            measure="ROUGE-L", kind="metric", candidate="a|b", baseline="mle", family=bench.OBJECTIVES, test="two-way",
            n=2, trainings=3, value=0.15, interval=[0.1, 0.2], p=0.1, adjusted_p=0.25, finding="no difference",
        )
    ]  # fmt: skip
    text = render_markdown(document(report)) + tables_text(document(report))
    assert "different prompts. 5 steps, 3 seeds, 1 learning rate: a trial, not a result." in text
    assert "| dft | 0.0003 | 3 | 0.500 ± 0.010 | 1.25 |" in text
    assert r"| a\|b − mle | ROUGE-L | 3 | 2 | +0.150 | +0.100 to +0.200 | 0.25 | no difference shown |" in text


@pytest.mark.parametrize("trainings", [1, 3])
def test_a_bench_and_its_scores_say_the_same_of_its_trainings(trainings, tmp_path):
    run = bench_run(tmp_path / "small", {"mle": trainings, "dft": trainings})
    write_report(run.folder)
    made = build_report(run.folder).claims
    compared = compare_logs([run.report / "scores.csv"], metrics=[bench.ENTROPY, bench.GREEDY]).claims
    for claims in (made, compared):
        claims = [claim for claim in claims if claim.measure in (bench.ENTROPY, bench.GREEDY)]
        assert len(claims) == 2
        assert {claim.finding == "too few" for claim in claims} == {trainings == 1}
        said = [claim_headline(claim) for claim in claims]
        assert all("too few training seeds to compare dft with mle" in each for each in said) == (trainings == 1)
        assert not any("never varies" in each for each in said)
