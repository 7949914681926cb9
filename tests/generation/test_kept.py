"""Kept replies: each is kept as it arrives, other work starts over."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
import stored

from instruct.base.errors import InputError, InstructError
from instruct.base.replies import Completion, Failure
from instruct.generation.kept import KeptReplies, forgive

PROMPTS = ["one", "two", "three", "four", "two"]


def kept_in(folder: Path, fingerprint: str = "f") -> KeptReplies:
    return KeptReplies(folder, "a", fingerprint, PROMPTS)


def answered(folder: Path, engine: str = "vllm 1 cpu") -> KeptReplies:
    """With a reply to each prompt that is missing."""
    kept = kept_in(folder)
    kept.start(engine, "checked")
    kept.add([(place, Completion("abcde"[place])) for place in kept.missing], 30)
    return kept_in(folder)


def test_replies_in_any_order_are_resumed(tmp_path):
    kept = kept_in(tmp_path)
    kept.start("e", "checked")
    kept.add([(4, Completion("e")), (1, Completion("b"))], 30)
    again = kept_in(tmp_path)
    assert (again.engine, again.work.weights, again.missing) == ("e", "checked", [0, 2, 3])
    with pytest.raises(InputError, match=r"a\.replies\.sqlite: has no reply to prompt 1 of 5; rerun the command"):
        list(again.replies())
    again.add([(place, Completion("abcde"[place])) for place in (0, 2, 3)], 15)
    assert [reply.text for reply in kept_in(tmp_path).replies()] == list("abcde")  # one that is asked twice has two
    assert (kept_in(tmp_path).missing, kept_in(tmp_path).work.seconds) == ([], 45)


def test_a_failure_is_asked_again_twice_unless_it_is_for_good(tmp_path):
    kept = answered(tmp_path)
    stored.change(tmp_path, "a", "DELETE FROM completions WHERE text IN ('a', 'b')")
    for left in ([0], [0], []):
        kept = kept_in(tmp_path)
        kept.add([(0, Failure("HTTP 500")), (1, Failure("too long", permanent=True))], 0)
        assert kept_in(tmp_path).missing == left
    assert [reply.reason for reply in kept_in(tmp_path).replies() if isinstance(reply, Failure)] == [
        "HTTP 500",
        "too long",
    ]
    assert forgive(tmp_path, "a")
    assert kept_in(tmp_path).missing == [0, 1]


def test_other_work_and_other_engines_start_over(tmp_path):
    answered(tmp_path)
    other = kept_in(tmp_path, "other")
    assert other.missing == [0, 1, 2, 3, 4]
    assert kept_in(tmp_path).missing == []  # until the other work starts
    other.start("vllm 1 cpu")
    assert kept_in(tmp_path).missing == [0, 1, 2, 3, 4]
    kept = answered(tmp_path)
    kept.start("vllm 1 cpu", "checked")
    assert kept.missing == []
    kept.start("vllm 2 cpu")
    assert kept.missing == [0, 1, 2, 3, 4]
    assert stored.replies(tmp_path, "a") == []


def test_a_reply_that_is_gone_is_said(tmp_path):
    answered(tmp_path)
    stored.change(tmp_path, "a", "UPDATE work SET engine = 'other'")
    with pytest.raises(InputError, match=r"a\.replies\.sqlite: has no reply to prompt 1 of 5"):
        list(kept_in(tmp_path).replies())


def test_a_store_that_another_process_writes_is_refused(tmp_path, monkeypatch):
    answered(tmp_path)
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda path, **how: connect(path, **how | {"timeout": 0.1}))
    other = connect(tmp_path / "a.replies.sqlite", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(InstructError, match=r"database is locked.*end the process that locks it"):
        kept_in(tmp_path)
    other.close()


WRITER = """
import sys
from pathlib import Path
from instruct.generation.kept import KeptReplies
from instruct.base.replies import Completion
kept = KeptReplies(Path(sys.argv[1]), "a", "f", list(range(4000)))
kept.start("e")
for place in kept.missing:
    kept.add([(place, Completion(f"reply {place}"))], 1)
    print(place, flush=True)
"""


def test_a_killed_writer_loses_no_reply(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(25)]
    os.kill(process.pid, signal.SIGKILL)
    lines += process.stdout.readlines()
    process.wait()
    written = sum(line.endswith("\n") for line in lines)
    kept = KeptReplies(tmp_path, "a", "f", list(range(4000)))
    assert written <= 4000 - len(kept.missing) <= written + 1
