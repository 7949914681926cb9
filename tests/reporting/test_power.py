"""Plans from a pilot's logs, beside statsmodels and simulated comparisons."""

import math

import numpy as np
import pytest
from bench_runs import bench_run, judge_seeds
from made_logs import make_log
from statsmodels.stats.power import zt_ind_solve_power

from instruct.base.errors import InputError
from instruct.reporting.power import plan_units
from instruct.reporting.report import write_report

pytestmark = pytest.mark.usefixtures("without_figures")


def right(rng, n, chance):
    return (rng.random(n) < chance).astype(float)


@pytest.mark.parametrize("claims", [1, 4])
def test_units_are_statsmodels(claims):
    rng = np.random.default_rng(0)
    ours, theirs = right(rng, 500, 0.6), right(rng, 500, 0.5)
    (row,) = plan_units([make_log("base", theirs), make_log("tuned", ours)], 3, claims=claims).rows
    effect = 3 / (100 * (ours - theirs).std(ddof=1))
    expected = zt_ind_solve_power(effect_size=effect, alpha=0.05 / claims, power=0.8, ratio=0)
    assert row.units == math.ceil(expected)


def test_units_in_clusters_need_more():
    rng = np.random.default_rng(0)
    clusters = np.repeat(np.arange(100), 4)
    values = np.repeat(right(rng, 100, 0.5), 4), np.repeat(right(rng, 100, 0.5), 4)
    logs = [make_log(name, of, clusters=clusters) for name, of in zip(("base", "tuned"), values, strict=True)]
    (row,) = plan_units(logs, 5).rows
    (alone,) = plan_units([make_log(name, of) for name, of in zip(("base", "tuned"), values, strict=True)], 5).rows
    assert row.units == pytest.approx(4 * alone.units, rel=0.02)
    assert row.clusters == pytest.approx(row.units / 4, abs=1)


def test_samples_of_each_unit_save_units_down_to_a_floor():
    rng = np.random.default_rng(0)
    chances = rng.random(2000)
    logs = [
        make_log(name, (rng.random((2000, 4)) < (chances + shift)[:, None]).astype(float).ravel(), samples=4)
        for name, shift in (("base", 0.0), ("tuned", rng.normal(0, 0.2, 2000)))
    ]
    rows = {row.samples: row.units for row in plan_units(logs, 2).rows}
    assert list(rows) == [1, 2, 4, 8]
    assert rows[1] > 1.4 * rows[4] > rows[8]
    means = [[np.mean(log.values["acc"][4 * unit : 4 * unit + 4]) for unit in range(2000)] for log in logs]
    effect = 2 / (100 * np.subtract(*means).std(ddof=1))
    normal = zt_ind_solve_power(effect_size=effect, alpha=0.05, power=0.8, ratio=0)
    assert normal <= rows[4] <= 1.1 * normal  # the test of the mean of grades finds a little less


def test_seeds_that_vary_more_than_the_difference_need_more_seeds():
    rng = np.random.default_rng(0)
    logs = [
        make_log(name, right(rng, 400, 0.5 + (name == "emo") * shift), folder=f"s{seed}/")
        for seed, shift in enumerate((0.0, 0.1, 0.2))
        for name in ("base", "emo")
    ]
    rows = {row.seeds: row.units for row in plan_units(logs, 10, seeds=r"s(?P<seed>\d)/").rows}
    assert rows[3] is None
    assert rows[10] is not None


@pytest.mark.parametrize(
    ("values", "arguments", "problem"),
    [
        ([[1]], {"difference": 1}, "base/t.jsonl: the task t has 1 independent units with a value; a plan needs 2"),
        ([[0] * 30, [1] * 30], {"difference": 1}, "the same value on every unit"),
    ],
)
def test_what_cannot_be_planned_is_refused(values, arguments, problem):
    with pytest.raises(InputError, match=problem):
        plan_units([make_log(name, of) for name, of in zip(("base", "tuned"), values, strict=False)], **arguments)


def test_a_bench_and_named_logs_are_read_as_for_a_comparison(tmp_path, instruct):
    run = bench_run(tmp_path / "bench", {"mle": 3, "dft": 3, "gem": 3})
    judge_seeds(run)
    write_report(run.folder)
    plan = plan_units([run.folder], 0.1, metric="cross-entropy")
    pairs = {("test", f"the pilot's difference of mle and {other}") for other in ("dft", "gem")}
    assert {(row.task, row.assuming) for row in plan.rows} == pairs
    assert {row.task for row in plan_units([run.folder], 5).rows} == {"test", "j against mle"}
    header, *lines = (run.report / "scores.csv").read_text().splitlines(keepends=True)
    named = []
    for system in ("mle", "dft"):
        path = tmp_path / f"{system}.csv"
        path.write_text("".join([header, *(line for line in lines if line.startswith(system))]))
        named.append(f"of {system}={path}")
    code, out, err = instruct("power", "--from", *named, "--difference", "5")
    assert (code, err) == (0, "")
    assert "ROUGE-L" in out
