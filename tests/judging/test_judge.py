"""Judging a comparison, with a fake server as the judge."""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from collections import Counter

import pytest
from counted import claimed, outcomes
from scoring import LABELS

from instruct.analysis.outcomes import pair_results
from instruct.engines.server import CONCURRENCY
from instruct.judging.asking import Judge
from instruct.judging.comparison import ComparisonKey
from instruct.judging.money import Price
from instruct.judging.options import JudgeOptions
from instruct.judging.presentations import Answers, plan_comparison
from instruct.judging.store import JudgmentStore
from instruct.judging.work import JudgingMode, judge_plan


def judge(path, pair, url: str, card_name: str = "pandalm", options=None, price=None):
    resolved = Judge(JudgeOptions(card=card_name, base_url=url, **(options or {})))
    if price:
        resolved.price = price
    with JudgmentStore(path) as store, resolved.open() as engine:
        counts = judge_plan(resolved, plan_comparison(resolved, *pair, engine), store, engine)
        return counts, store.judgments(ComparisonKey(resolved.card.name, pair[0].name, pair[1].name))


def test_both_orders_are_asked_once_and_never_again(tmp_path, fake_server, pair):
    url, requests = fake_server()
    counts, judgments = judge(tmp_path / "s.sqlite", pair, url)
    assert (counts.asked, counts.stored) == (40, 0)
    assert counts.verdicts == Counter(judged.verdict for judged in judgments)
    assert {(j.instruction, j.position) for j in judgments} == {
        (f"Question {index}?", position) for index in range(20) for position in ("first", "second")
    }
    prompts = [request["body"]["prompt"] for request in requests()]
    assert sum("### Response 1:\nA good answer to 7" in prompt for prompt in prompts) == 1
    assert sum("### Response 2:\nA good answer to 7" in prompt for prompt in prompts) == 1

    again, same = judge(tmp_path / "s.sqlite", pair, url)
    assert (again.asked, again.stored, again.verdicts) == (0, 40, counts.verdicts)
    assert sorted(same, key=str) == sorted(judgments, key=str)
    assert len(requests()) == 40


def test_failures_are_kept_until_retried(tmp_path, fake_server, pair):
    faults = {"Question 3?": "400", "Question 7?": "filter"}
    url, _ = fake_server(faults)
    counts, judgments = judge(tmp_path / "s.sqlite", pair, url)
    failed = {judged.instruction: judged.reason for judged in judgments if judged.verdict == "failed"}
    assert failed == {"Question 3?": "HTTP 400", "Question 7?": "content filter"}
    assert counts.verdicts["failed"] == 4
    assert outcomes(judgments, "strict")["Question 3?"] == "failed"

    # The server has recovered on a different port: keys include the endpoint, so give it the same name.
    well, requests = fake_server()
    resolved = Judge(JudgeOptions(card="pandalm", base_url=well))
    with JudgmentStore(tmp_path / "s.sqlite") as store, resolved.open() as engine:
        engine.identity = {**engine.identity, "endpoint": url}
        same = judge_plan(resolved, plan_comparison(resolved, *pair, engine), store, engine)
        assert (same.asked, same.verdicts, len(requests())) == (0, counts.verdicts, 0)
        mode = JudgingMode(retry_failed=True)
        again = judge_plan(resolved, plan_comparison(resolved, *pair, engine), store, engine, mode)
    assert (again.asked, again.verdicts.get("failed", 0)) == (4, 0)
    assert len(requests()) == 4


def test_two_ratings_make_a_verdict_and_each_is_asked_for_once(tmp_path, fake_server, make_answers):
    """Each answer is rated alone, so a baseline's rating is reused in every comparison with it."""
    url, requests = fake_server()
    ours, theirs, third = (make_answers(name, 6, text) for name, text in [("a", "One"), ("b", "Two"), ("c", "Three")])
    resolved = Judge(JudgeOptions(card="autoj_single", base_url=url))
    with JudgmentStore(tmp_path / "s.sqlite") as store, resolved.open() as engine:
        counts = judge_plan(resolved, plan_comparison(resolved, ours, theirs, engine), store, engine)
        assert counts.asked == len(requests()) == 12
        for judged in store.judgments(ComparisonKey("autoj_single", "a", "b")):
            first, second = judged.ratings
            assert judged.verdict == ("tie" if first == second else "first" if first > second else "second")
            assert len(store.completions(judged.key.split())) == 2
        assert judge_plan(resolved, plan_comparison(resolved, third, theirs, engine), store, engine).asked == 6


def test_nothing_is_sent_past_the_budget_and_a_larger_one_resumes(tmp_path, fake_server, pair):
    url, requests = fake_server()
    price = Price(1000.0, 1000.0)
    small = {"budget_usd": 3.0}  # three attempts may cost almost that, and one costs some cents
    counts, judgments = judge(tmp_path / "s.sqlite", pair, url, options=small, price=price)
    assert "the budget of 3 USD is used up" in str(counts.stopped)
    assert 0 < counts.asked == len(requests()) == len(judgments) < 40
    assert counts.usd <= 3.0
    done, judgments = judge(tmp_path / "s.sqlite", pair, url, options={"budget_usd": 1000.0}, price=price)
    assert (done.stopped, len(judgments), len(requests())) == (None, 40, 40)


def test_a_request_that_there_is_no_money_to_repeat_is_left_for_a_rerun(tmp_path, fake_server, pair):
    url, _ = fake_server({"Question": ["malformed"]})
    price = Price(1000.0, 1000.0)
    counts, judgments = judge(tmp_path / "s.sqlite", pair, url, options={"budget_usd": 4.0}, price=price)
    assert "is used up" in str(counts.stopped)
    assert counts.usd <= 4.0
    assert [j for j in judgments if j.verdict == "failed"] == []
    done, judgments = judge(tmp_path / "s.sqlite", pair, url, options={"budget_usd": 1000.0}, price=price)
    assert (done.stopped, len(judgments), done.verdicts.get("failed")) == (None, 40, None)


@pytest.mark.parametrize("card", ["pandalm", "autoj_single", LABELS])
def test_identical_answers_are_a_tie_for_every_judge_and_are_never_asked_about(tmp_path, fake_server, card):
    rows = [{"dataset": "d", "instruction": f"Q{n}?", "output": "the same", "generator": "g"} for n in range(6)]
    url, requests = fake_server()
    sides = Answers("a", rows), Answers("b", rows)
    counts, judgments = judge(tmp_path / "s.sqlite", sides, url, card, options={"orders": "both"})
    assert (len(requests()), counts.asked, counts.without_request) == (0, 0, len(judgments))
    assert {(judged.verdict, judged.reason, judged.key) for judged in judgments} == {("tie", "identical outputs", "")}
    assert len(judgments) == (6 if card == "autoj_single" else 12)
    counts = claimed(pair_results(judgments, "strict")).counts
    assert (counts.n, counts.tie, counts.identical) == (6, 6, 6)


def test_verdicts_on_changed_answers_are_removed(tmp_path, fake_server, pair):
    ours, theirs = pair
    url, requests = fake_server()
    judge(tmp_path / "s.sqlite", pair, url)
    rows = [{**ours.rows[0], "output": "a new answer"}, *ours.rows[1:10]]
    fewer = Answers(ours.name, rows), dataclasses.replace(theirs, rows=theirs.rows[:10])
    counts, judgments = judge(tmp_path / "s.sqlite", fewer, url)
    assert counts.asked == 2
    assert len(requests()) == 42
    assert {judged.instruction for judged in judgments} == {f"Question {index}?" for index in range(10)}


KILLED = """
import json, sys
from pathlib import Path
from instruct.judging.asking import Judge
from instruct.judging.presentations import plan_comparison
from instruct.judging.work import judge_plan
from instruct.judging.options import JudgeOptions
from instruct.judging.presentations import Answers
from instruct.judging.store import JudgmentStore
ours, theirs = (Answers(name, rows) for name, rows in json.loads(Path(sys.argv[2]).read_text()))
judge = Judge(JudgeOptions(card="pandalm", base_url=sys.argv[3]))
with JudgmentStore(sys.argv[1]) as store, judge.open() as engine:
    judge_plan(judge, plan_comparison(judge, ours, theirs, engine), store, engine)
"""


def test_after_a_kill_only_uncommitted_requests_are_asked(tmp_path, fake_server, make_answers, run_and_kill):
    """After a SIGKILL and a rerun, the verdicts are those of an undisturbed run."""
    pair = make_answers("ours", 100, "One"), make_answers("theirs", 100, "Two")
    url, requests = fake_server()
    path, answers = tmp_path / "killed.sqlite", tmp_path / "answers.json"
    answers.write_text(json.dumps([[side.name, side.rows] for side in pair]))
    run_and_kill([sys.executable, "-c", KILLED, str(path), str(answers), url], lambda: len(requests()) >= 110, 60)
    time.sleep(0.3)  # requests in flight reach the server's log

    def committed() -> int:
        with JudgmentStore(path) as store:
            return store._db.execute("SELECT COUNT(*) FROM completions").fetchone()[0]

    before, stored = len(requests()), committed()
    assert 0 < stored < 200
    assert before - stored <= CONCURRENCY
    counts, judgments = judge(path, pair, url)
    assert counts.asked == len(requests()) - before == 200 - stored
    undisturbed, expected = judge(tmp_path / "undisturbed.sqlite", pair, url)
    assert counts.verdicts == undisturbed.verdicts
    assert set(judgments) == set(expected)


def test_a_prompt_without_an_answer_is_a_failed_pair_that_nobody_is_asked_about(tmp_path, fake_server, pair):
    url, requests = fake_server()
    for side, index, reason in ((0, 3, "HTTP 400"), (1, 5, "content filter")):
        pair[side].rows[index] |= {"output": "", "failed": reason}
    for side in (0, 1):
        pair[side].rows[7] |= {"output": "", "failed": "too long"}
    counts, judgments = judge(tmp_path / "s.sqlite", pair, url)
    assert (counts.asked, counts.without_request, counts.unanswered_pairs) == (34, 6, 6)
    failed = {judged.pair: judged.reason for judged in judgments if judged.verdict == "failed"}
    assert failed == {
        3: "no answer of ours: HTTP 400",
        5: "no answer of theirs: content filter",
        7: "no answer of ours: too long; no answer of theirs: too long",
    }
    tally = claimed(pair_results(judgments, "strict")).counts
    assert (tally.n, tally.failed) == (20, 3)
    low, high = tally.bounds
    assert high - low == pytest.approx(100 * 3 / 20)
    again, same = judge(tmp_path / "s.sqlite", pair, url)
    assert (again.asked, len(requests())) == (0, 34)
    assert sorted(same, key=str) == sorted(judgments, key=str)
