"""Kept replies: finished batches are kept in any order, other work starts over."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
import stored

from instruct.asking.kept import KeptReplies
from instruct.base.errors import InputError, InstructError
from instruct.base.replies import Completion

PROMPTS = ["one", "two", "three", "four", "two"]
BATCHES = [range(0, 2), range(2, 4), range(4, 5)]


def kept_in(folder: Path, fingerprint: str = "f") -> KeptReplies:
    return KeptReplies(folder, "a", fingerprint, PROMPTS, 2)


def reply(text: str) -> Completion:
    return Completion(text, None, "stop", None, len(text) + 1)


def ask_missing(folder: Path, engine: str = "vllm 1 cpu", texts: str = "abcde") -> list[int]:
    """Keep what is missing; returns the numbers of those batches."""
    kept = kept_in(folder)
    kept.start(engine)
    asked = kept.missing
    for number in asked:
        kept.keep(number, [reply(texts[place]) for place in BATCHES[number]], number / 8)
    assert not kept.missing
    return asked


@pytest.mark.parametrize("content", ["{", "[]", '{"engine": "e"}'])
def test_a_damaged_record_of_what_was_compared_is_named(tmp_path, content):
    (tmp_path / "a.checked").write_text(content)
    with pytest.raises(InputError, match=r"a\.checked: is damaged; restore it, or delete it$"):
        kept_in(tmp_path)


def test_batches_in_any_order_are_resumed(tmp_path):
    kept = kept_in(tmp_path)
    kept.start("e")
    kept.keep(2, [reply("e")], 0.25)
    again = kept_in(tmp_path)
    assert (again.engine, again.missing, [each.text for each in again.replies()]) == ("e", [0, 1], ["e"])
    again.keep(1, [reply("c"), reply("d")], 0.25)
    again.keep(0, [reply("a"), reply("b")], 0.5)
    assert kept_in(tmp_path).missing == []
    assert list(kept_in(tmp_path).replies()) == [reply(text) for text in "abcde"]
    assert kept_in(tmp_path).minutes == 1 / 60


def test_the_same_prompt_in_another_batch_has_a_reply_of_its_own(tmp_path):
    ask_missing(tmp_path)
    assert PROMPTS[1] == PROMPTS[4]
    assert [each.text for each in kept_in(tmp_path).replies()] == list("abcde")


def test_replies_under_another_fingerprint_stay_until_the_work_starts(tmp_path):
    ask_missing(tmp_path)
    other = kept_in(tmp_path, "other")
    assert (other.missing, list(other.replies())) == ([0, 1, 2], [])
    assert kept_in(tmp_path).missing == []
    other.start("vllm 1 cpu")
    assert kept_in(tmp_path).missing == [0, 1, 2]
    assert stored.replies(tmp_path, "a") == []


def test_another_engine_or_version_starts_over(tmp_path):
    ask_missing(tmp_path)
    kept = kept_in(tmp_path)
    kept.start("vllm 1 cpu")
    assert kept.missing == []
    kept.start("vllm 2 cpu")
    assert kept.missing == [0, 1, 2]
    assert kept_in(tmp_path).missing == [0, 1, 2]


def test_nothing_is_written_before_the_work_starts(tmp_path):
    assert kept_in(tmp_path).missing == [0, 1, 2]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("DELETE FROM completions WHERE rowid = 3", r"is damaged \(.*1 replies of a finished batch are missing\)"),
        ("UPDATE batches SET engine = 'other'", r"is damaged \(.*replies of a finished batch are missing\)"),
        ("DROP TABLE completions", r"is no store of answers of this program \(its table completions\)"),
    ],
)
def test_a_damaged_store_is_refused_in_one_line(tmp_path, statement, problem):
    ask_missing(tmp_path)
    stored.change(tmp_path, "a", statement)
    with pytest.raises(InputError, match=rf"a\.replies\.sqlite: {problem}; delete it") as caught:
        list(kept_in(tmp_path).replies())
    assert "\n" not in str(caught.value)


def test_another_file_is_refused_in_one_line(tmp_path):
    (tmp_path / "a.replies.sqlite").write_text("not a database" * 50)
    with pytest.raises(
        InputError, match=r"is not a store of answers \(.*\); delete it, and its prompts are asked again$"
    ):
        kept_in(tmp_path)


def test_a_store_that_another_process_writes_is_refused(tmp_path, monkeypatch):
    ask_missing(tmp_path)
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda path, **how: connect(path, **how | {"timeout": 0.1}))
    other = connect(tmp_path / "a.replies.sqlite", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(InstructError, match=r"database is locked.*end the process that locks it"):
        kept_in(tmp_path)
    other.close()
    assert kept_in(tmp_path).missing == []


WRITER = """
import sys
from pathlib import Path
from instruct.asking.kept import KeptReplies
from instruct.base.replies import Completion
kept = KeptReplies(Path(sys.argv[1]), "a", "f", list(range(4000)), 4)
kept.start("e")
for number in kept.missing:
    kept.keep(number, [Completion(f"reply {place}") for place in kept.places(number)], 1)
    print(number, flush=True)
"""


def test_a_killed_writer_loses_no_batch_and_leaves_no_part_of_one(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(25)]
    os.kill(process.pid, signal.SIGKILL)
    lines += process.stdout.readlines()
    process.wait()
    whole = [line for line in lines if line.endswith("\n")]
    kept = KeptReplies(tmp_path, "a", "f", list(range(4000)), 4)
    done = 1000 - len(kept.missing)
    assert len(whole) <= done <= len(whole) + 1
    assert [each.text for each in kept.replies()] == [f"reply {place}" for place in range(4 * done)]
    assert len(stored.replies(tmp_path, "a")) == 4 * done
