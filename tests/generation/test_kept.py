"""Kept replies: each is kept as it arrives, other work starts over."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import stored

from instruct.base.errors import InputError
from instruct.base.replies import Completion
from instruct.generation.kept import KeptReplies

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


def test_a_reply_that_is_gone_is_said(tmp_path):
    answered(tmp_path)
    stored.change(tmp_path, "a", "UPDATE work SET engine = 'other'")
    with pytest.raises(InputError, match=r"a\.replies\.sqlite: has no reply to prompt 1 of 5"):
        list(kept_in(tmp_path).replies())


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
