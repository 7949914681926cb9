"""Differences on others' logs, beside those of scipy, statsmodels and formulas written here."""

import json
import math

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from made_logs import make_log
from pages import rows_of
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests

from instruct import compare_logs
from instruct.base.errors import InputError
from instruct.logs.source import Columns
from instruct.reporting.log_claims import MAIN, OTHERS, PARTS_OF_GROUPS

RNG = np.random.default_rng(7)


@pytest.fixture(autouse=True)
def _draws_of_its_own():
    """Each test draws the same, in whatever order they run."""
    global RNG
    RNG = np.random.default_rng(7)


def right(n, share):
    return (RNG.random(n) < share).astype(float)


@pytest.mark.parametrize("times", [1, 5])
def test_right_or_wrong_is_mcnemars_test_also_of_clusters(times):
    ours, theirs = right(400 // times, 0.6), right(400 // times, 0.5)
    above, below = int((ours > theirs).sum()), int((ours < theirs).sum())
    logs = [
        make_log(system, np.repeat(values, times), clusters=np.repeat(np.arange(400 // times), times))
        for system, values in (("base", theirs), ("tuned", ours))
    ]
    (claim,) = compare_logs(logs).claims
    assert (claim.candidate, claim.baseline, claim.n) == ("tuned", "base", 400)
    assert claim.params.get("clusters", 400) == 400 // times
    assert claim.value == pytest.approx(100 * (ours - theirs).mean(), abs=1e-12)
    exact = mcnemar([[0, above], [below, 0]], exact=True).pvalue
    assert claim.p == pytest.approx(exact, rel=1e-9 if times == 1 else 0.2)  # rows that repeat each other count as one
    assert (claim.params["candidate_above"], claim.params["baseline_above"]) == (times * above, times * below)
    assert (claim.interval[0] > 0 or claim.interval[1] < 0) == (claim.p <= 0.05)


def test_values_without_bounds_have_students_test():
    ours, theirs = RNG.random(60), RNG.random(60) + 3
    (claim,) = compare_logs([make_log("base", theirs), make_log("tuned", ours)]).claims
    expected = scipy.stats.ttest_rel(ours, theirs)
    student = expected.confidence_interval()
    assert (claim.test, claim.in_points) == ("Student", False)
    assert claim.value == pytest.approx((ours - theirs).mean(), abs=1e-12)
    assert claim.p == pytest.approx(expected.pvalue)
    assert claim.interval == pytest.approx([student.low, student.high], rel=1e-9)


def test_the_main_metrics_of_tasks_are_one_family():
    logs = [
        make_log(system, {"acc": right(150, share), "other": right(150, share)}, task)
        for task, shares in (("a", (0.5, 0.6)), ("b", (0.5, 0.7)), ("c", (0.5, 0.5)))
        for system, share in zip(("base", "tuned"), shares, strict=True)
    ]
    compared = compare_logs(logs)
    for family, metric in ((MAIN, "acc"), (OTHERS, "other")):
        claims = [claim for claim in compared.claims if claim.family == family]
        assert {claim.measure for claim in claims} == {metric}
        adjusted = multipletests([claim.p for claim in claims], method="holm")[1]
        assert [claim.adjusted_p for claim in claims] == pytest.approx(adjusted, rel=1e-9)


@pytest.mark.parametrize("by_size", [True, False])
def test_a_group_is_the_tools_mean_and_never_surer_than_strata(by_size):
    sizes = (40, 160, 800)
    ours, theirs = ([right(n, share) for n in sizes] for share in (0.6, 0.55))
    logs = [
        make_log(system, values, task, groups={"mmlu": by_size})
        for system, tasks in (("base", theirs), ("tuned", ours))
        for task, values in zip("abc", tasks, strict=True)
    ]
    compared = compare_logs(logs)
    (claim,) = compared.main
    gains = [one - other for one, other in zip(ours, theirs, strict=True)]
    weights = np.array(sizes) / sum(sizes) if by_size else np.full(3, 1 / 3)
    assert claim.task == "mmlu"
    assert claim.value == pytest.approx(100 * sum(w * g.mean() for w, g in zip(weights, gains, strict=True)), abs=1e-12)
    variances = [np.append(own, [-1, 1]).var() / len(own) for own in gains]
    half = 196 * math.sqrt(sum(w**2 * v for w, v in zip(weights, variances, strict=True)))
    assert 2 * half <= claim.interval[1] - claim.interval[0] <= 2.2 * half
    assert [each.family for each in compared.claims].count(PARTS_OF_GROUPS) == 3


def test_seeds_are_crossed_with_units():
    base = right(200, 0.5)
    logs = [make_log("base", base)] + [make_log("emo", right(200, 0.6), folder=f"s{seed}/") for seed in (1, 2, 3)]
    (claim,) = compare_logs(logs, seeds=r"s(?P<seed>\d)/").claims
    assert (claim.trainings, claim.test, claim.n) == (3, "two-way", 200)
    assert claim.value == pytest.approx(100 * (np.mean([log.mean("acc") for log in logs[1:]]) - base.mean()))
    (two,) = compare_logs(logs[:3], seeds=r"s(?P<seed>\d)/").claims
    assert two.finding == "too few"


@pytest.mark.parametrize("shift", [0, 5])
def test_missing_values_are_bounded(shift):
    """Of a metric from 0 to 1; of others the claim is about the units with a value, and says so."""
    ours, theirs = right(300, 0.75) + shift, right(300, 0.5) + shift
    ours[:40] = math.nan
    compared = compare_logs([make_log("base", theirs), make_log("tuned", ours)])
    (claim,) = compared.claims
    complete, lost, won = (
        compare_logs([make_log("base", others), make_log("tuned", own)]).claims[0]
        for own, others in (
            (ours[40:], theirs[40:]), (np.nan_to_num(ours, nan=0.0), theirs), (np.nan_to_num(ours, nan=1.0), theirs)
        )
    )  # fmt: skip
    assert (claim.n, claim.missing, claim.value) == (260, 40, pytest.approx(complete.value))
    ends = [complete.interval] if shift else [complete.interval, lost.interval, won.interval]
    assert claim.interval == pytest.approx([min(low for low, _ in ends), max(high for _, high in ends)])
    assert claim.p >= complete.p
    assert (", n = 260, 40 missing)" if shift else "with 40 missing lost or won") in compared.headlines()[0]
    assert any("rows without a value (timed out: 40)" in caution.text for caution in compared.cautions)


def test_a_metric_that_is_better_lower_is_told_so():
    """It is enough that one log says it."""
    logs = [make_log("base", {"ppl": RNG.random(50) + 2}), make_log("tuned", {"ppl": RNG.random(50)})]
    logs[1].better["ppl"] = "lower"
    compared = compare_logs(logs)
    assert compared.claims[0].finding == "candidate"
    assert compared.headlines()[0].startswith("t: tuned beats base: ppl -")


def test_every_pair_of_systems_has_ranks_and_simultaneous_intervals():
    shares = {"bad": 0.3, "base": 0.5, "good": 0.7, "same": 0.5}
    logs = [make_log(system, right(400, share)) for system, share in shares.items()]
    compared = compare_logs(logs, all_pairs=True)
    assert len(compared.claims) == 6
    for claim in compared.claims:
        low, high = claim.params["simultaneous"]
        assert low < claim.interval[0]
        assert high > claim.interval[1]
    ranks = {row.system: row.rank_interval for row in compared.standings}
    assert (ranks["good"], ranks["bad"]) == ([1, 1], [4, 4])
    assert len(compare_logs(logs, baseline="base").claims) == 3


def test_what_is_not_compared_is_named():
    tasks = {"a": ("base", "emo", "gem"), "b": ("emo", "gem"), "c": ("gem",)}
    logs = [make_log(system, right(40, 0.5), task) for task, systems in tasks.items() for system in systems]
    compared = compare_logs(logs)
    assert [caution.text for caution in compared.cautions] == [
        "c: only one system has logs", "b: emo is not compared", "b: gem is not compared",
    ]  # fmt: skip


def test_what_the_logs_do_not_have_is_refused():
    with pytest.raises(InputError, match="baseline: no log is of 'x'; the systems are base, tuned"):
        compare_logs([make_log("base", right(9, 0.5)), make_log("tuned", right(9, 0.5))], baseline="x")


def test_data_frames_are_compared_by_named_columns():
    frames = {
        name: pd.DataFrame({"id": range(30), "score": right(30, share), "passage": np.repeat(range(10), 3)})
        for name, share in (("one", 0.2), ("two", 0.8))
    }
    columns = Columns(unit="id", metric=("score",), cluster="passage")
    (claim,) = compare_logs(frames, columns=columns).claims
    assert (claim.candidate, claim.measure, claim.n, claim.params["clusters"]) == ("two", "score", 30, 10)
    assert claim.value == pytest.approx(100 * (frames["two"]["score"] - frames["one"]["score"]).mean())


def test_both_means_stand_beside_their_difference():
    """Of a task in points, of one in the metric's unit, and of a group by its number of rows."""
    logs = [
        make_log(system, values, task, groups={"group": True} if task in "ab" else {})
        for system, gain in (("base", 0), ("tuned", 1))
        for task, values in (("a", [gain] * 30), ("b", [0] * 40 + [gain] * 50), ("c", np.arange(40) + 3 * gain))
    ]
    compared = compare_logs(logs)
    means = {claim.task: claim.params["means"] for claim in compared.claims}
    assert means == {
        "a": [100, 0], "b": [pytest.approx(100 * 50 / 90), 0], "c": [22.5, 19.5],
        "group": [pytest.approx(100 * 80 / 120), 0],
    }  # fmt: skip
    header, *rows = rows_of(compared.to_html()).splitlines()
    assert "candidate's mean | other's mean" in header
    assert [row for row in rows if "22.5 | 19.5" in row and "+3.00" in row]


def test_a_comparison_is_written_in_every_form_and_escaped(tmp_path):
    logs = [make_log("base", right(80, 0.5)), make_log("<script>x</script>", right(80, 0.9), settings={"shots": "|5|"})]
    compared = compare_logs(logs)
    for ending in ("html", "md", "csv", "json"):
        compared.write(tmp_path / f"it.{ending}")
    page = (tmp_path / "it.html").read_text()
    assert "<script>x" not in page
    assert "&lt;script&gt;x&lt;/script&gt; beats base" in page
    assert "&lt;b&gt;" in page  # an answer
    markdown = (tmp_path / "it.md").read_text()
    assert "<script" not in markdown
    content = json.loads((tmp_path / "it.json").read_text())
    assert content["claims"][0]["finding"] == "candidate"
    assert content["settings"][0]["values"] == ["-", "|5|"]
    assert len((tmp_path / "it.csv").read_text().splitlines()) == 2
    assert compared.frame()["value"].tolist() == [compared.claims[0].value]
