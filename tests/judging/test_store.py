"""The judgement store: what was committed stays, what is not a store is refused."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instruct.engines.base import Completion
from instruct.errors import InputError
from instruct.judging.comparison import Comparison
from instruct.judging.store import LEASE_SECONDS, Judgment, JudgmentStore, completion_key


def judged(instruction: str, position: str = "first", verdict: str = "first", **changes: Any) -> Judgment:
    fields = {"judge": "j", "candidate": "c", "baseline": "b", "pair": 0, "dataset": "d", "key": "k", **changes}
    return Judgment(instruction=instruction, position=position, verdict=verdict, **fields)


def add(store: JudgmentStore, key: str, completion: Completion, usd: float = 0.0) -> None:
    store.add_replies("j", [(key, completion, usd)])


def stored(store: JudgmentStore, key: str) -> Completion | None:
    return store.completions([key]).get(key)


def test_what_was_stored_is_read_back(tmp_path):
    choice = {"logprobs": {"content": [{"token": "m", "logprob": -0.1}]}, "text": "m"}
    completion = Completion("1\nbecause", {"1": -0.25, "2": -1.5}, "stop", 12, 3, choice, "a-model")
    second = judged("q2", "second", "failed", key="x", reason="timed out")
    rated = judged("q1", key="a b", pair=1, ratings=(7.0, 4.5), preference=1.25, trimmed=True)
    with JudgmentStore(tmp_path / "s.sqlite") as store:
        store.add_replies("j", [("a", completion, 0.25), ("b", Completion(""), 0.0), ("x", None, 0.5)])
        store.add_judgments([second, rated, judged("q2")])
    with JudgmentStore(tmp_path / "s.sqlite") as store:
        assert store.completions(["a", "b", "c", "x"]) == {"a": completion, "b": Completion("")}
        assert store.judgments(Comparison("j", "c", "b")) == [judged("q2"), second, rated]  # by pair, then by position
        assert store.comparisons() == [("j", "c", "b")]
        assert store.judgments(Comparison("j", "b", "c")) == []
        assert (store.spent_usd(), store.spent_usd("j"), store.spent_usd("another")) == (0.75, 0.75, 0.0)


def test_a_completion_is_never_overwritten_and_a_verdict_is(tmp_path):
    with JudgmentStore(tmp_path / "s.sqlite") as store:
        add(store, "a", Completion("paid for"), 0.25)
        add(store, "a", Completion("another"), 0.5)
        assert stored(store, "a") == Completion("paid for")
        assert store.spent_usd() == 0.75  # both were paid
        store.add_judgments([judged("q", verdict="failed")])
        store.add_judgments([judged("q", verdict="second")])
        assert [j.verdict for j in store.judgments(Comparison("j", "c", "b"))] == ["second"]


def test_removing_verdicts_leaves_the_others_and_the_completions(tmp_path):
    with JudgmentStore(tmp_path / "s.sqlite") as store:
        add(store, "k", Completion("1"))
        gone, kept = judged("q"), judged("q", "second")
        store.add_judgments([gone, kept])
        store.remove_judgments([gone])
        assert store.judgments(Comparison("j", "c", "b")) == [kept]
        assert stored(store, "k") == Completion("1")


def test_a_portion_is_committed_whole_or_not_at_all(tmp_path):
    with JudgmentStore(tmp_path / "s.sqlite") as store:
        with pytest.raises(sqlite3.IntegrityError):
            store.add_judgments([judged("q"), judged("r", verdict="perhaps")])
        assert store.judgments(Comparison("j", "c", "b")) == []
        store.add_judgments([judged("q")])
        assert len(store.judgments(Comparison("j", "c", "b"))) == 1


def test_a_key_is_leased_to_one_at_a_time_and_asked_for_no_more_once_stored(tmp_path):
    path = tmp_path / "s.sqlite"
    with JudgmentStore(path) as one, JudgmentStore(path) as other:
        assert one.lease([("a", 0.0), ("b", 0.0)]) == {"a": "granted", "b": "granted"}
        assert other.lease([("a", 0.0), ("c", 0.0)]) == {"a": "held", "c": "granted"}
        assert one.others_at_work()
        add(one, "a", Completion("1"))
        assert other.lease([("a", 0.0), ("b", 0.0)]) == {"a": "stored", "b": "held"}
        one.end_leases()
        assert other.lease([("b", 0.0)]) == {"b": "granted"}
        other.end_leases()
        assert not one.others_at_work()


def test_a_lease_ends_with_its_time_and_is_put_off_by_whom_it_belongs_to(tmp_path, monkeypatch):
    path = tmp_path / "s.sqlite"
    elsewhere = "another-machine:1:00"  # whose processes cannot be looked for here
    with JudgmentStore(path, holder=elsewhere) as one, JudgmentStore(path) as other:
        one.lease([("a", 0.0)])
        now = time.time()
        monkeypatch.setattr(time, "time", lambda: now + LEASE_SECONDS - 1)
        assert other.lease([("a", 0.0)]) == {"a": "held"}
        with one.again() as thread:
            thread.renew_leases()
        monkeypatch.setattr(time, "time", lambda: now + LEASE_SECONDS + 1)
        assert other.lease([("a", 0.0)]) == {"a": "held"}
        monkeypatch.setattr(time, "time", lambda: now + 2 * LEASE_SECONDS)
        assert other.lease([("a", 0.0)]) == {"a": "granted"}


def test_the_leases_of_a_process_that_was_killed_end_at_once(tmp_path):
    path = tmp_path / "s.sqlite"
    program = (
        "import sys, os, signal; from instruct.judging.store import JudgmentStore; "
        "JudgmentStore(sys.argv[1]).lease([('a', 0.5)]); os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", program, str(path)]).returncode == -signal.SIGKILL
    with JudgmentStore(path) as store:
        assert store.lease([("a", 0.5)], budget_usd=0.5) == {"a": "granted"}


def test_what_is_spent_and_what_is_under_way_stay_within_the_budget(tmp_path):
    path = tmp_path / "s.sqlite"
    with JudgmentStore(path) as one, JudgmentStore(path) as other:
        wanted = [("a", 0.4), ("b", 0.4), ("c", 0.4), ("d", 0.1)]
        assert one.lease(wanted, budget_usd=1.0) == {
            "a": "granted", "b": "granted", "c": "unaffordable", "d": "granted",
        }  # fmt: skip
        assert other.lease([("c", 0.4)], budget_usd=1.0) == {"c": "unaffordable"}
        one.add_replies("j", [("a", Completion("1"), 0.1), ("b", None, 0.0)])  # cost less than was set aside
        assert other.lease([("c", 0.4)], budget_usd=1.0) == {"c": "granted"}
        assert other.lease([("e", 0.5)], budget_usd=1.0) == {"e": "unaffordable"}


FULL = """
import resource, signal, sys
from instruct.errors import InstructError
from instruct.engines.base import Completion
from instruct.judging.store import JudgmentStore
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with JudgmentStore(sys.argv[1]) as store:
    resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, 600_000))
    try:
        for number in range(1000):
            store.add_replies("j", [(str(number), Completion("x" * 5000), 0.0)])
            print(number, flush=True)
    except InstructError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
"""


def test_a_full_disk_is_one_clear_error_and_the_store_stays_whole(tmp_path):
    """The system itself refuses to let the file grow, as a full disk does."""
    path = tmp_path / "s.sqlite"
    done = subprocess.run([sys.executable, "-c", FULL, str(path)], capture_output=True, text=True)
    committed = done.stdout.split()
    assert done.returncode == 1
    assert len(committed) > 10
    assert "s.sqlite: could not be written" in done.stderr
    assert "free the disk" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    with JudgmentStore(path) as store:
        assert store._db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert set(store.completions(map(str, range(1000)))) == set(committed)
        add(store, "more", Completion("there is room again"))


WRITER = """
import sys
from instruct.engines.base import Completion
from instruct.judging.store import JudgmentStore
with JudgmentStore(sys.argv[1]) as store:
    for number in range(100000):
        store.add_replies("j", [(str(number), Completion(f"reply {number}"), 0.0)])
        print(number, flush=True)
"""


def test_a_killed_writer_loses_nothing_that_it_had_committed(tmp_path):
    path = tmp_path / "s.sqlite"
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True)
    committed = [process.stdout.readline() for _ in range(25)]
    os.kill(process.pid, signal.SIGKILL)
    committed += process.stdout.readlines()
    process.wait()
    with JudgmentStore(path) as store:
        for line in committed:
            if line.endswith("\n"):
                number = line.strip()
                assert stored(store, number) == Completion(f"reply {number}")


def test_two_processes_write_the_same_store(tmp_path):
    path = tmp_path / "s.sqlite"
    with JudgmentStore(path) as store:
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER.replace("100000", "40"), str(path)], stdout=subprocess.PIPE
        )
        for number in range(40):
            add(store, f"ours {number}", Completion("x"))
            time.sleep(0.002)
        process.communicate()
        assert process.returncode == 0
        wanted = [name for number in range(40) for name in (str(number), f"ours {number}")]
        assert set(store.completions(wanted)) == set(wanted)


def test_what_is_not_a_store_of_this_version_is_refused(tmp_path):
    text = tmp_path / "text.sqlite"
    text.write_text("not a database, but long enough to be taken for one by its length alone" * 20)
    with pytest.raises(InputError, match="is no judgement store"):
        JudgmentStore(text)
    other = tmp_path / "other.sqlite"
    with JudgmentStore(other):
        pass
    database = sqlite3.connect(other)
    database.execute("PRAGMA user_version = 99")
    database.close()
    with pytest.raises(InputError, match=r"other\.sqlite: is a judgement store of version 99, not 2"):
        JudgmentStore(other)
    foreign = tmp_path / "foreign.sqlite"
    database = sqlite3.connect(foreign)
    database.execute("CREATE TABLE something (x)")
    database.close()
    with pytest.raises(InputError, match="version 0"):
        JudgmentStore(foreign)


@given(st.text(), st.text())
def test_keys_tell_prompts_apart(first, second):
    assert (completion_key({"prompt": first}) == completion_key({"prompt": second})) == (first == second)
