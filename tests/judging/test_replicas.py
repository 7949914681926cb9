"""Several servers of one model: asked in turn, under the keys of the first."""

from __future__ import annotations

import pytest

from instruct.base.errors import InputError
from instruct.judging.asking import Judge
from instruct.judging.options import JudgeOptions
from instruct.judging.presentations import plan_comparison
from instruct.judging.store import JudgmentStore
from instruct.judging.work import judge_plan


def judged(pair, path, urls: list[str]) -> dict:
    judge = Judge(JudgeOptions(card="pandalm", orders="one", base_url=urls[0], replicas=urls[1:]))
    with JudgmentStore(path) as store, judge.open() as engine:
        counts = judge_plan(judge, plan_comparison(judge, *pair, engine), store, engine)
        assert sum(counts.verdicts.values()) == 20
        judgments = store.judgments(next(iter(store.comparisons())))
        return {(each.instruction, each.position): (each.key, each.verdict) for each in judgments} | {"": counts.asked}


def test_servers_are_asked_in_turn_under_the_keys_of_the_first(fake_server, pair, tmp_path):
    (one, first), (two, second) = fake_server(), fake_server()
    assert judged(pair, tmp_path / "a.sqlite", [one, two])[""] == 20
    assert {len(first()), len(second())} == {10}
    assert judged(pair, tmp_path / "a.sqlite", [one])[""] == 0  # the same requests
    alone = judged(pair, tmp_path / "b.sqlite", [one])
    assert alone == judged(pair, tmp_path / "c.sqlite", [one, two])


def test_a_server_that_is_down_is_made_up_for_by_the_others(fake_server, pair, tmp_path):
    url, requests = fake_server()
    found = judged(pair, tmp_path / "a.sqlite", [url, "http://127.0.0.1:9/v1"])
    assert found.pop("") == 20
    assert "failed" not in {verdict for _, verdict in found.values()}
    assert len(requests()) == 20


def test_several_servers_are_the_user_s_own():
    replicas = ["https://api.openai.com/v1"]
    judge = Judge(JudgeOptions(card="pandalm", base_url="http://127.0.0.1:9/v1", replicas=replicas))
    with pytest.raises(InputError, match="several `base_url` are servers of your own"), judge.open():
        pass
    with pytest.raises(ValueError, match="replicas: are further servers next to base_url"):
        JudgeOptions(card="pandalm", replicas=["http://127.0.0.1:9/v1"])
