"""The judgement store: what was committed stays, what is not a store is refused."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instruct.errors import InputError
from instruct.judging.store import Completion, Judgment, JudgmentStore, completion_key


def judged(instruction: str, position: str = "first", verdict: str = "first", **changes: str) -> Judgment:
    fields = {"judge": "j", "candidate": "c", "baseline": "b", "dataset": "d", "key": "k", **changes}
    return Judgment(instruction=instruction, position=position, verdict=verdict, **fields)


def test_what_was_stored_is_read_back(tmp_path):
    completion = Completion("1\nbecause", {"1": -0.25, "2": -1.5}, "stop", 12, 3)
    with JudgmentStore(tmp_path / "s.sqlite") as store:
        store.add_completions([("a", completion), ("b", Completion("", None, None))])
        store.add_judgments([judged("q2"), judged("q1"), judged("q2", "second", "failed", key="x")])
    with JudgmentStore(tmp_path / "s.sqlite") as store:
        assert store.completion("a") == completion
        assert store.completion("b") == Completion("", None, None)
        assert store.completion("c") is None
        found = store.judgments("j", "c", "b")
        assert [(j.instruction, j.position) for j in found] == [("q2", "first"), ("q1", "first"), ("q2", "second")]
        assert store.comparisons() == [("j", "c", "b")]
        assert store.judgments("j", "b", "c") == []


def test_a_completion_is_never_overwritten_and_a_verdict_is(tmp_path):
    with JudgmentStore(tmp_path / "s.sqlite") as store:
        store.add_completions([("a", Completion("paid for"))])
        store.add_completions([("a", Completion("another"))])
        assert store.completion("a") == Completion("paid for")
        store.add_judgments([judged("q", verdict="failed")])
        store.add_judgments([judged("q", verdict="second")])
        assert [j.verdict for j in store.judgments("j", "c", "b")] == ["second"]


def test_removing_verdicts_leaves_the_others_and_the_completions(tmp_path):
    with JudgmentStore(tmp_path / "s.sqlite") as store:
        store.add_completions([("k", Completion("1"))])
        gone, kept = judged("q"), judged("q", "second")
        store.add_judgments([gone, kept])
        store.remove_judgments([gone])
        assert store.judgments("j", "c", "b") == [kept]
        assert store.completion("k") == Completion("1")


def test_a_portion_is_committed_whole_or_not_at_all(tmp_path):
    with JudgmentStore(tmp_path / "s.sqlite") as store:
        with pytest.raises(sqlite3.IntegrityError):
            store.add_judgments([judged("q"), judged("r", verdict="perhaps")])
        assert store.judgments("j", "c", "b") == []
        store.add_judgments([judged("q")])
        assert len(store.judgments("j", "c", "b")) == 1


WRITER = """
import sys
from instruct.judging.store import Completion, JudgmentStore
with JudgmentStore(sys.argv[1]) as store:
    for number in range(100000):
        store.add_completions([(str(number), Completion(f"reply {number}"))])
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
                assert store.completion(number) == Completion(f"reply {number}")


def test_two_processes_write_the_same_store(tmp_path):
    path = tmp_path / "s.sqlite"
    with JudgmentStore(path) as store:
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER.replace("100000", "40"), str(path)], stdout=subprocess.PIPE
        )
        for number in range(40):
            store.add_completions([(f"ours {number}", Completion("x"))])
            time.sleep(0.002)
        process.communicate()
        assert process.returncode == 0
        assert all(store.completion(str(number)) and store.completion(f"ours {number}") for number in range(40))


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
    with pytest.raises(InputError, match=r"other\.sqlite: is a judgement store of version 99, not 1"):
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
