"""Ctrl-C ends a command in time, also inside a native call, in which Python runs no handler."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

from instruct.base.interrupts import GRACE, INTERRUPTED

LINE = "instruct: interrupted; rerun the command to resume"
# A lock that this thread has already: it waits for ever, costs nothing, and leaves Python no turn.
NATIVE = """
    lock, libc = ctypes.create_string_buffer(64), ctypes.CDLL(None)
    libc.pthread_mutex_lock(lock)
    libc.pthread_mutex_lock(lock)
"""
IN_ORDER = """
    try:
        time.sleep(100)
    finally:
        say("cleaned")
"""
CHILD = """
    if not os.fork():
        with suppress(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1)
        os._exit(0)
    os.wait()
"""
PROGRAM = """
import ctypes, os, signal, sys, time
from contextlib import suppress
from instruct.base.output import Result, run_guarded, say

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a shell's background job

def work():
    say("begun"){work}
sys.exit(run_guarded(work))
"""


def started(work: str) -> subprocess.Popen:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(work=work)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout
    assert process.stdout.readline() == "begun\n"
    time.sleep(0.5)  # into the work
    return process


def ended(process: subprocess.Popen) -> tuple[float, str]:
    """The seconds until an interrupted process has ended, and what it printed after that."""
    begun = time.monotonic()
    process.send_signal(signal.SIGINT)
    try:
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (process.returncode, err.splitlines()[-1:]) == (INTERRUPTED, [LINE]), err
    assert err.count(LINE) == 1
    assert "Traceback" not in err
    return time.monotonic() - begun, out


@pytest.mark.slow
def test_what_does_not_end_is_ended_in_time():
    """An interrupted child does not count as a second Ctrl-C."""
    seconds, _ = ended(started(CHILD + NATIVE))
    assert GRACE - 0.5 < seconds < GRACE + 5


def test_a_second_one_ends_at_once():
    process = started(NATIVE)
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    seconds, _ = ended(process)
    assert seconds < GRACE - 0.5


def test_python_ends_in_order():
    seconds, printed = ended(started(IN_ORDER))
    assert (printed, seconds < GRACE - 0.5) == ("cleaned\n", True)
