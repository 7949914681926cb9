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
LOST = """
    while True:
        with suppress(KeyboardInterrupt):
            time.sleep(100)
"""
IN_ORDER = """
    try:
        time.sleep(100)
    finally:
        say("cleaned")
"""
# As pydantic does while it builds a model.
ANOTHER_ERROR = """
    try:
        time.sleep(100)
    except KeyboardInterrupt as error:
        raise ValueError("no model") from error
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
sys.exit(run_guarded(work, {how}))
"""


def started(work: str, how: str = "") -> subprocess.Popen:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(work=work, how=how)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout
    if not how:  # else stdout is for the result
        assert process.stdout.readline() == "begun\n"
    time.sleep(2 if how else 0.5)  # into the work
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
@pytest.mark.parametrize(
    ("work", "how"), [(CHILD + NATIVE, ""), (NATIVE, "quiet=True"), (LOST, "")], ids=["native", "quiet", "lost"]
)
def test_what_does_not_end_is_ended_in_time(work, how):
    """An interrupted child does not count as a second Ctrl-C."""
    seconds, _ = ended(started(work, how))
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


def test_a_command_that_is_not_interrupted_is_left_alone():
    """The process goes on, and Ctrl-C is as before."""
    program = PROGRAM.format(work="", how="").replace("sys.exit(", "print(").rstrip()
    after = "\nos.kill(os.getpid(), 2)\ntime.sleep(100)"
    done = subprocess.run([sys.executable, "-c", program + after], capture_output=True, text=True, timeout=60)
    assert done.stdout == "begun\n0\n"
    assert done.stderr.splitlines()[-1] == "KeyboardInterrupt"


def test_what_a_library_makes_of_it_is_still_an_interrupt():
    seconds, _ = ended(started(ANOTHER_ERROR))
    assert seconds < GRACE - 0.5


@pytest.mark.slow
def test_the_command_can_be_interrupted_at_any_moment(tmp_path):
    """From the first moments, in which it loads, to the last ones."""
    command = [sys.executable, "-X", "faulthandler", "-m", "instruct", "list", "judges"]
    begun = time.monotonic()
    assert subprocess.run(command, capture_output=True).returncode == 0
    lasts = time.monotonic() - begun
    for moment in range(20):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        time.sleep(0.06 + moment / 20 * lasts)  # before that, Python itself begins
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        if "__main__.py" in err or "Traceback" not in err:  # else Python itself was beginning
            assert process.returncode in (0, INTERRUPTED, -signal.SIGINT), err
            assert "Traceback" not in err
