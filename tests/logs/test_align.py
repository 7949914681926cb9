"""Whose each log is, and which rows of two logs are about the same unit."""

from pathlib import Path

import pytest

from instruct.base.errors import InputError
from instruct.logs.align import by_task, differing_settings, evaluations
from instruct.scores.join import join
from instruct.scores.scores import MOST_TEXTS, Row, Scores


def make_log(path, rows, model="m", task="t", **about):
    log = Scores("made", Path(path), model, task, **about)
    for number, row in enumerate(rows, start=1):
        log.add(row, f"{path}, row {number}")
    return log


def rows(units, **about):
    return [Row(unit, {"acc": 1.0}, **about) for unit in units]


def names(*logs, seeds=None):
    return [(each.system, each.seed) for each in evaluations([(None, log) for log in logs], seeds)]


def pair(first, second):
    return [[each] for each in evaluations([("first", first), ("second", second)])]


def test_systems_are_called_like_the_logs_models():
    assert names(make_log("x/a.jsonl", [], "one"), make_log("x/b.jsonl", [], "two")) == [("one", None), ("two", None)]


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (["logs/base/m/samples_t.jsonl", "logs/tuned/m/samples_t.jsonl"], ["base", "tuned"]),
        (["base/samples_t.jsonl", "tuned/m/samples_t.jsonl"], ["base", "tuned/m"]),
        (["logs/2026_base.eval", "logs/2026_tuned.eval"], ["2026_base", "2026_tuned"]),
    ],
)
def test_logs_of_one_model_are_told_apart_by_their_paths(paths, expected):
    assert [system for system, _ in names(*(make_log(path, []) for path in paths))] == expected


def test_models_and_folders_together_name_what_neither_does():
    logs = [make_log(f"{folder}/{model}.jsonl", [], model) for folder in ("x", "y") for model in ("one", "two")]
    assert [system for system, _ in names(*logs)] == ["one (x)", "two (x)", "one (y)", "two (y)"]


def test_seeds_are_trainings_of_one_system():
    logs = [make_log(f"seeds/{seed}/{name}/s.jsonl", []) for seed in (1, 2) for name in ("base", "emo")]
    assert names(*logs, seeds=r"seeds/(?P<seed>\d+)/") == [
        ("base", "1"),
        ("emo", "1"),
        ("base", "2"),
        ("emo", "2"),
    ]


def test_logs_of_one_run_of_the_tool_are_of_one_system():
    logs = [make_log(f"m/samples_{task}_{run}.jsonl", [], task=task, run=run) for run in ("d1", "d2") for task in "abc"]
    assert names(*logs) == [("m (d1)", None)] * 3 + [("m (d2)", None)] * 3


def test_seeds_are_trainings_of_one_system_also_where_each_has_a_model_of_its_own():
    logs = [
        make_log(f"out/org__{name}/samples_{task}_d{run}.jsonl", [], f"org/{name}", task=task, run=f"d{run}")
        for run, name in enumerate(["base", "emo-s1", "emo-s2", "mle-s1", "mle-s2"])
        for task in "ab"
    ]
    systems = [("org/base", None), ("org__emo", "1"), ("org__emo", "2"), ("org__mle", "1"), ("org__mle", "2")]
    assert names(*logs, seeds=r"-s(?P<seed>\d)") == [each for each in systems for _ in "ab"]
    given = [(log.system.partition("-")[0], log) for log in logs]
    found = evaluations(given, r"-s(?P<seed>\d)")
    assert {(each.system, each.seed) for each in found} == {
        ("org/base", None), ("org/emo", "1"), ("org/emo", "2"), ("org/mle", "1"), ("org/mle", "2"),
    }  # fmt: skip


def test_two_models_of_one_folder_are_two_systems_also_with_seeds():
    logs = [make_log(f"{seed}/{name}.eval", [], name, run=name + seed) for seed in "12" for name in ("base", "emo")]
    assert names(*logs, seeds=r"^(?P<seed>\d)/") == [("base", "1"), ("emo", "1"), ("base", "2"), ("emo", "2")]


@pytest.mark.parametrize(
    ("seeds", "problem"), [("(", "is no regular expression"), (r"seeds/(\d+)", "has no group named seed")]
)
def test_a_pattern_of_seeds_is_checked(seeds, problem):
    with pytest.raises(InputError, match=problem):
        names(make_log("a", []), seeds=seeds)


def test_two_logs_that_nothing_tells_apart_are_refused():
    log = make_log("x/a.jsonl", [])
    with pytest.raises(InputError, match=r"is a second log of the task t by the same system as x/a\.jsonl"):
        evaluations([("base", log), ("base", make_log("x/b.jsonl", []))])
    with pytest.raises(InputError, match="all logs are of one system"):
        names(log, make_log("x/a.jsonl", [], task="other"))


def test_a_unit_that_is_there_twice_is_refused_unless_it_was_repeated():
    log = make_log("b", rows(["x"]))
    with pytest.raises(InputError, match="b, row 2: the unit 'x' of the task t is there twice"):
        log.add(Row("x", {"acc": 0.0}), "b, row 2")
    repeated = make_log("a", [Row("x", {"acc": value}, epoch=epoch) for epoch, value in enumerate((0.0, 1.0, 1.0))])
    (each,) = evaluations([("a", repeated), ("b", log)])[:1]
    assert each.means("acc").tolist() == [2 / 3]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_value_that_is_not_finite_is_refused(value):
    with pytest.raises(InputError, match="a, row 1: acc: is not a finite number"):
        make_log("a", [Row("x", {"acc": value})])


def test_a_metric_that_some_rows_lack_is_missing_there():
    log = make_log("a", [Row("x", {"acc": 1.0}), Row("y", {"f1": 0.5}, "timed out"), Row("z", {"acc": 0.0, "f1": 1.0})])
    assert (log.mean("acc"), log.mean("f1")) == (0.5, 0.75)
    assert dict(log.reasons) == {"no value": 1, "timed out": 1}


def test_only_so_many_texts_are_kept():
    log = make_log("a", (Row(str(unit), {"acc": 1.0}, question="q" * 2000) for unit in range(MOST_TEXTS + 2)))
    assert len(log.texts) == MOST_TEXTS
    assert len(log.texts[0][0]) == 600


def test_a_figure_that_the_rows_do_not_have_is_refused():
    log = make_log("samples.jsonl", [Row("x", {"acc": 1.0}), Row("y", {"acc": 0.0})])
    log.check_figure("acc", 0.5, "results.json")
    assert log.figures == {"acc": 0.5}
    with pytest.raises(InputError, match=r"results.json: acc of the task t is 0.6, but .* the mean 0.5"):
        log.check_figure("acc", 0.6, "results.json")


@pytest.mark.parametrize("part", ["doc", "target"])
def test_other_rows_under_the_same_ids_are_refused(part):
    ours = make_log("a", [Row("x", {"acc": 1.0}, **{part: "one"}), Row("y", {"acc": 1.0}, **{part: "two"})])
    theirs = make_log("b", [Row("x", {"acc": 1.0}, **{part: "one"}), Row("y", {"acc": 1.0}, **{part: "other"})])
    words = {"doc": "row", "target": "right answer, or opponent's answer,"}[part]
    with pytest.raises(
        InputError, match=f"a: 1 of 2 units of the task t have another {words} than in b, the first 'y'"
    ):
        join(*pair(ours, theirs), allow=["prompt"])


def test_other_prompts_are_refused_by_name_and_can_be_allowed():
    ours = make_log("a", rows("xy", doc="d", prompt="chat"), settings={"template": "chat", "shots": 5})
    theirs = make_log("b", rows("xy", doc="d", prompt="text"), settings={"template": "none", "shots": 5})
    problem = (
        r"a: other prompts .* in b to 2 of 2 units, the first 'x' \(template: chat, not none\); .*\(allow: template\)"
    )
    for allow in ([], ["shots"]):
        with pytest.raises(InputError, match=problem):
            join(*pair(ours, theirs), allow)
    for allow in (["template"], ["prompt"]):
        assert join(*pair(ours, theirs), allow).differing == ["template: chat, not none"]


def test_other_prompts_without_a_reason_need_any_prompt_to_be_allowed():
    ours, theirs = (make_log(name, rows("x", doc="d", prompt=name)) for name in "ab")
    with pytest.raises(InputError, match="the logs do not say why"):
        join(*pair(ours, theirs), ["template"])
    assert join(*pair(ours, theirs), ["prompt"]).differing == ["prompts"]


def test_settings_count_where_prompts_are_unknown():
    ours, theirs = (make_log(name, rows("x"), settings={"shots": shots}) for name, shots in (("a", 0), ("b", 5)))
    with pytest.raises(InputError, match=r"other prompts .* \(shots: 0, not 5\)"):
        join(*pair(ours, theirs))
    same = make_log("c", rows("x", prompt="p"), settings={"shots": 0})
    other = make_log("d", rows("x", prompt="p"), settings={"shots": 5})
    shared = join(*pair(same, other))  # what was shown is known to be the same
    assert (shared.differing, shared.unchecked) == ([], ["doc", "target"])


def test_units_of_one_side_are_counted():
    shared = join(*pair(make_log("a", rows("xyz")), make_log("b", rows("zyvw"))))
    assert (shared.units, shared.lacking) == (["z", "y"], {"first": 2, "second": 1})
    with pytest.raises(InputError, match="b: no unit of the task t is also in a"):
        join(*pair(make_log("b", rows("q")), make_log("a", rows("x"))))


def test_clusters_are_those_of_either_log():
    shared = join(*pair(make_log("a", rows("xy")), make_log("b", rows("yx", cluster="passage"))))
    assert shared.clusters == {0: "passage", 1: "passage"}


def test_seeds_pair_or_stand_beside_one_baseline():
    logs = [make_log(f"{seed}/{name}/s", rows("x")) for seed in "12" for name in ("base", "emo")]
    systems = by_task(evaluations([(None, log) for log in logs], r"^(?P<seed>\d)/"))["t"]
    assert join(systems["emo"], systems["base"]).seeds == [(0, 2), (1, 3)]
    assert join(systems["emo"], systems["base"][:1]).seeds == [(0, 2), (1, 2)]
    with pytest.raises(InputError, match="has the seeds 1 of emo and 1, 2 of base"):
        join(systems["emo"][:1], systems["base"])


def test_settings_that_differ_are_listed_once():
    logs = [
        make_log(name, [], settings={"shots": 5, "date": name, **more}) for name, more in (("a", {}), ("b", {"x": 1}))
    ]
    systems = by_task(evaluations([("first", logs[0]), ("second", logs[1])]))["t"]
    assert differing_settings(systems) == [
        ("date", {"first": "a", "second": "b"}),
        ("x", {"first": "-", "second": "1"}),
    ]


def test_no_log_at_all_is_refused():
    with pytest.raises(InputError, match="logs: have no rows to compare"):
        evaluations([])
