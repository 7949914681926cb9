"""Whose each log is, and which rows of two logs are about the same unit."""

from pathlib import Path

import pytest

from instruct.base.errors import InputError
from instruct.logs.read import by_task, evaluations
from instruct.scores.join import join
from instruct.scores.scores import Row, Scores


def make_log(path, rows=(), model="m", task="t", **about):
    log = Scores("made", Path(path), model, task, **about)
    for number, row in enumerate(rows, start=1):
        log.add(row, f"{path}, row {number}")
    return log


def rows(units, **about):
    return [Row(unit, {"acc": 1.0}, **about) for unit in units]


def pair(first, second):
    return [[each] for each in evaluations([("first", first), ("second", second)])]


def joined(ours, theirs, allow=(), **about):
    return join(*pair(make_log("a", ours, **about.get("a", {})), make_log("b", theirs, **about.get("b", {}))), allow)


SYSTEMS = [("org/base", None), ("org__emo", "1"), ("org__emo", "2"), ("org__mle", "1"), ("org__mle", "2")]
TRAININGS = {
    f"out/org__{name}/samples_{task}_d{run}.jsonl": {"model": f"org/{name}", "task": task, "run": f"d{run}"}
    for run, name in enumerate(["base", "emo-s1", "emo-s2", "mle-s1", "mle-s2"])
    for task in "ab"
}


@pytest.mark.parametrize(
    ("logs", "seeds", "expected"),
    [
        ({"x/a.jsonl": {"model": "one"}, "x/b.jsonl": {"model": "two"}}, None, ["one", "two"]),
        ({"logs/base/m/samples_t.jsonl": {}, "logs/tuned/m/samples_t.jsonl": {}}, None, ["base", "tuned"]),
        (
            {f"{folder}/{model}.jsonl": {"model": model} for folder in "xy" for model in ("one", "two")}, None,
            ["one (x)", "two (x)", "one (y)", "two (y)"],
        ),
        ({f"m/{run}.jsonl": {"run": run} for run in ("d1", "d2")}, None, ["m (d1)", "m (d2)"]),
        (TRAININGS, r"-s(?P<seed>\d)", [each for each in SYSTEMS for _ in "ab"]),  # each has a model name of its own
    ],
)  # fmt: skip
def test_logs_are_told_apart_by_models_paths_runs_and_seeds(logs, seeds, expected):
    found = evaluations([(None, make_log(path, **about)) for path, about in logs.items()], seeds)
    assert [(each.system, each.seed) for each in found] == [
        each if isinstance(each, tuple) else (each, None) for each in expected
    ]


@pytest.mark.parametrize(
    ("named", "seeds", "problem"),
    [
        ({"a": None}, r"seeds/(\d+)", "has no group named seed"),
        ({"x/a": "base", "x/b": "base"}, None, "x/b: is a second log of the task t by the same system as x/a; drop"),
    ],
)
def test_logs_that_nothing_tells_apart_are_refused(named, seeds, problem):
    with pytest.raises(InputError, match=problem):
        evaluations([(name, make_log(path)) for path, name in named.items()], seeds)


def test_repeats_of_a_unit_are_averaged_and_only_these():
    log = make_log("a", [Row("x", {"acc": value}, epoch=epoch) for epoch, value in enumerate((0.0, 1.0, 1.0))])
    assert log.means("acc").tolist() == [2 / 3]
    log = make_log("b", rows(["x"]))
    with pytest.raises(InputError, match="b, row 2: the unit 'x' of the task t is there twice"):
        log.add(Row("x", {"acc": 0.0}), "b, row 2")


@pytest.mark.parametrize("part", ["doc", "target"])
def test_other_rows_under_the_same_ids_are_refused(part):
    ours, theirs = ([*rows("x", **{part: "one"}), *rows("y", **{part: each})] for each in ("two", "other"))
    with pytest.raises(InputError, match=r"a: 1 of 2 units of the task t have another .* than in b, the first 'y'"):
        joined(ours, theirs, allow=["prompt"])


@pytest.mark.parametrize(
    ("settings", "prompts", "problem", "allowed", "said"),
    [
        (
            {"template": ("chat", "none"), "shots": (5, 5)}, ("chat", "text"),
            r"b to 2 of 2 units, the first 'x' \(template: chat, not none\); .*`allow` 'template'",
            ["template"], "template: chat, not none",
        ),
        ({}, ("one", "other"), r"b to 2 of 2 units, the first 'x' \(the logs do not say why", ["prompt"], "prompts"),
        ({"shots": (0, 5)}, (None, None), r"b \(shots: 0, not 5\)", ["shots"], "shots: 0, not 5"),
    ],
)  # fmt: skip
def test_other_prompts_are_refused_by_name_and_can_be_allowed(settings, prompts, problem, allowed, said):
    sides = [rows("xy", doc="d", prompt=prompt) for prompt in prompts]
    about = {
        name: {"settings": {setting: values[side] for setting, values in settings.items()}}
        for side, name in enumerate("ab")
    }
    for allow in ([], ["limit"]):
        with pytest.raises(InputError, match=f"a: other prompts of the task t than in {problem}"):
            joined(*sides, allow, **about)
    for allow in (allowed, ["prompt"]):
        assert joined(*sides, allow, **about).differing == [said]


def test_units_of_one_side_are_counted():
    shared = joined(rows("xyz"), rows("zyvw"))
    assert (shared.units, shared.lacking) == (["z", "y"], {"first": 2, "second": 1})
    with pytest.raises(InputError, match="a: no unit of the task t is also in b"):
        joined(rows("x"), rows("q"))


def test_seeds_pair_or_stand_beside_one_baseline():
    logs = [make_log(f"{seed}/{name}/s", rows("x")) for seed in "12" for name in ("base", "emo")]
    systems = by_task(evaluations([(None, log) for log in logs], r"^(?P<seed>\d)/"))["t"]
    assert join(systems["emo"], systems["base"]).seeds == [(0, 2), (1, 3)]
    assert join(systems["emo"], systems["base"][:1]).seeds == [(0, 2), (1, 2)]
    with pytest.raises(InputError, match="has the seeds 1 of emo and 1, 2 of base"):
        join(systems["emo"][:1], systems["base"])
