"""Kept replies: finished batches are kept in any order, other work starts over, an earlier journal is taken over."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
import stored
from hypothesis import given, settings
from hypothesis import strategies as st

from instruct.asking.kept import KeptReplies
from instruct.base.errors import InputError, InstructError
from instruct.base.replies import Completion

PROMPTS = ["one", "two", "three", "four", "two"]
BATCHES = [range(0, 2), range(2, 4), range(4, 5)]
TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)


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
def test_a_damaged_record_of_what_was_compared_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.checked").write_text(content)
    with pytest.raises(InputError, match=r"a\.checked: is damaged; restore it, or delete it$"):
        kept_in(tmp_path)


def test_batches_in_any_order_are_resumed(tmp_path: Path) -> None:
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


def test_the_same_prompt_in_another_batch_has_a_reply_of_its_own(tmp_path: Path) -> None:
    ask_missing(tmp_path)
    assert PROMPTS[1] == PROMPTS[4]
    assert [each.text for each in kept_in(tmp_path).replies()] == list("abcde")


def test_replies_under_another_fingerprint_stay_until_the_work_starts(tmp_path: Path) -> None:
    ask_missing(tmp_path)
    other = kept_in(tmp_path, "other")
    assert (other.missing, list(other.replies())) == ([0, 1, 2], [])
    assert kept_in(tmp_path).missing == []
    other.start("vllm 1 cpu")
    assert kept_in(tmp_path).missing == [0, 1, 2]
    assert stored.replies(tmp_path, "a") == []


def test_another_engine_or_version_starts_over(tmp_path: Path) -> None:
    ask_missing(tmp_path)
    kept = kept_in(tmp_path)
    kept.start("vllm 1 cpu")
    assert kept.missing == []
    kept.start("vllm 2 cpu")
    assert kept.missing == [0, 1, 2]
    assert kept_in(tmp_path).missing == [0, 1, 2]


def test_nothing_is_written_before_the_work_starts(tmp_path: Path) -> None:
    assert kept_in(tmp_path).missing == [0, 1, 2]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("DELETE FROM completions WHERE rowid = 3", "1 replies of a finished batch are missing"),
        ("UPDATE batches SET engine = 'other'", "replies of a finished batch are missing"),
        ("DROP TABLE completions", "no such table: completions"),
    ],
)
def test_a_damaged_store_is_refused_in_one_line(tmp_path: Path, statement: str, problem: str) -> None:
    ask_missing(tmp_path)
    stored.change(tmp_path, "a", statement)
    with pytest.raises(InputError, match=rf"a\.replies\.sqlite: is damaged \(.*{problem}\); delete it") as caught:
        list(kept_in(tmp_path).replies())
    assert "\n" not in str(caught.value)


def test_another_file_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "a.replies.sqlite").write_text("not a database" * 50)
    with pytest.raises(
        InputError, match=r"is not a store of answers \(.*\); delete it, and its prompts are asked again$"
    ):
        kept_in(tmp_path)


def test_a_store_that_another_process_writes_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_killed_writer_loses_no_batch_and_leaves_no_part_of_one(tmp_path: Path) -> None:
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


def journal(texts: list[str], fingerprint: str = "f", engine: str = "vllm 1 cpu") -> list[bytes]:
    """The lines of a journal as earlier versions wrote it."""
    parts = [[texts[place] for place in places] for places in BATCHES]
    lines: list[dict[str, Any]] = [{"fingerprint": fingerprint, "engine": engine, "batches": 3}]
    for number, part in enumerate(parts):
        tokens, finish = [len(text) for text in part], ["stop"] * len(part)
        lines.append({"batch": number, "seconds": number / 8, "tokens": tokens, "finish": finish, "texts": part})
    return [json.dumps(line).encode() + b"\n" for line in lines]


@settings(deadline=None, max_examples=30)  # it waits for the disk
@given(texts=st.lists(TEXTS, min_size=5, max_size=5), cut=st.floats(0, 1), noise=st.binary(max_size=8))
def test_a_journal_cut_anywhere_is_taken_over_up_to_its_last_whole_batch(
    texts: list[str], cut: float, noise: bytes
) -> None:
    whole = b"".join(journal(texts))
    end = round(cut * len(whole))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.batches.jsonl"
        path.write_bytes(whole[:end] + noise.replace(b"\n", b""))
        batches = max(0, whole[:end].count(b"\n") - 1)
        kept = kept_in(Path(folder))
        assert kept.missing == list(range(batches, 3))
        assert list(kept.replies()) == [reply(text) for text in texts[: 2 * batches]]
        assert kept.minutes == sum(number / 8 for number in range(batches)) / 60
        assert path.exists() == (batches == 0)
        kept.start("vllm 1 cpu")
        assert kept.missing == list(range(batches, 3))
        assert not path.exists()


def test_a_journal_of_other_work_stays_until_the_work_starts(tmp_path: Path) -> None:
    path = tmp_path / "a.batches.jsonl"
    path.write_bytes(b"".join(journal(list("abcde"), "other")))
    kept = kept_in(tmp_path)
    assert kept.missing == [0, 1, 2]
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    kept.start("vllm 1 cpu")
    assert not path.exists()


def test_a_journal_of_another_engine_is_taken_over_and_starts_over(tmp_path: Path) -> None:
    (tmp_path / "a.batches.jsonl").write_bytes(b"".join(journal(list("abcde"))))
    kept = kept_in(tmp_path)
    assert (kept.engine, kept.missing) == ("vllm 1 cpu", [])
    kept.start("vllm 2 cpu")
    assert kept.missing == [0, 1, 2]


def test_a_call_that_was_stopped_while_it_took_a_journal_over_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.batches.jsonl").write_bytes(b"".join(journal(list("abcde"))))
    keep = KeptReplies.keep

    def stopped(self: KeptReplies, batch: int, *others: Any) -> None:
        if batch == 2:
            raise KeyboardInterrupt
        keep(self, batch, *others)

    with monkeypatch.context() as patch:
        patch.setattr(KeptReplies, "keep", stopped)
        with pytest.raises(KeyboardInterrupt):
            kept_in(tmp_path)
    assert stored.finished(tmp_path, "a") == 2
    assert list(kept_in(tmp_path).replies()) == [reply(text) for text in "abcde"]
    assert [file.name for file in tmp_path.iterdir()] == ["a.replies.sqlite"]


def test_taking_over_stops_at_the_first_line_that_is_no_batch(tmp_path: Path) -> None:
    lines = journal(list("abcde"))
    beyond = lines[3].replace(b'"batch": 2', b'"batch": 3')
    for bad in (b"{}\n", b"[1]\n", b"\xff\n", beyond, lines[2].replace(b'"stop", ', b"")):
        stored.path_of(tmp_path, "a").unlink(missing_ok=True)
        (tmp_path / "a.batches.jsonl").write_bytes(lines[0] + lines[1] + bad + lines[3])
        assert kept_in(tmp_path).missing == [1, 2], bad
