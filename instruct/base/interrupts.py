"""Ctrl-C ends a command in time: Python's own handler runs only after a native call, which can take minutes."""

from __future__ import annotations

import contextlib
import functools
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator

INTERRUPTED = 130
# Seconds in which an interrupted command may end in order.
GRACE = 4.0


@contextlib.contextmanager
def watched_interrupts() -> Iterator[None]:
    """Watch for Ctrl-C, also while a native call computes; after one, until the process has ended.

    The first one raises KeyboardInterrupt as ever, also where a library has made another error of it. If the process
    still runs after `GRACE` seconds, or at the second one, it is ended. What is stored stays whole, as after a kill;
    child processes end when their standard input does. Python lets only the main thread watch.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    watch = _Watch()
    if signal.getsignal(signal.SIGINT) in (signal.default_int_handler, signal.SIG_DFL):
        signal.signal(signal.SIGINT, _interrupt)
    _Held.raised = False
    try:
        yield
    except BaseException as error:
        if not _Held.raised and not isinstance(error, KeyboardInterrupt):
            watch.close()
            raise
        # The next one is for the thread alone: here it would print a traceback.
        signal.signal(signal.SIGINT, lambda number, frame: None)
        watch.say()
        raise KeyboardInterrupt from error
    watch.close()


class _Watch:
    """A thread that C's signal handler wakes: it needs no turn of the main thread."""

    def __init__(self) -> None:
        self._stderr = os.dup(2) if sys.__stderr__ else -1  # the user's, wherever stderr leads meanwhile
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._writing, False)
        self._unsaid = threading.Lock()
        self._unwatched = False
        self._before = signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        _leave_children_alone()
        threading.Thread(target=self._watch, daemon=True).start()

    def close(self) -> None:
        signal.set_wakeup_fd(self._before)
        os.close(self._writing)  # which ends the thread
        if self._stderr >= 0:
            os.close(self._stderr)

    def say(self) -> None:
        """Say, once, that the command was interrupted."""
        if self._unsaid.acquire(blocking=False):
            with contextlib.suppress(OSError):
                cursor = "\x1b[?25h" if os.isatty(self._stderr) else ""  # a progress bar hides it
                os.write(self._stderr, f"{cursor}instruct: interrupted; rerun the command to resume\n".encode())

    def _watch(self) -> None:
        if self._interrupted(None):
            self._interrupted(time.monotonic() + GRACE)
            if not self._unwatched:
                self.say()
                os._exit(INTERRUPTED)
        os.close(self._reading)

    def _interrupted(self, until: float | None) -> bool:
        """Wait for SIGINT; False: it is late, or `close` was called."""
        ready = select.poll()
        ready.register(self._reading, select.POLLIN)
        while True:
            left = None if until is None else max(0.0, until - time.monotonic()) * 1000
            if not ready.poll(left):
                return False
            number = os.read(self._reading, 1)
            if not number:
                self._unwatched = True
                return False
            if number[0] == signal.SIGINT:
                return True


class _Held:
    """Whether Ctrl-C waits, whether one does, and whether one was raised."""

    waits = False
    pending = False
    raised = False


def hold_interrupts() -> None:
    """Let Ctrl-C wait until `release_interrupts`: what is paid for is being stored."""
    _Held.waits = True


def release_interrupts() -> None:
    """Raise KeyboardInterrupt if there was a Ctrl-C since `hold_interrupts`."""
    pending, _Held.waits, _Held.pending = _Held.pending, False, False
    if pending:
        _Held.raised = True
        raise KeyboardInterrupt


def _interrupt(number: int, frame: object) -> None:
    """Raise KeyboardInterrupt, but not while PyTorch is imported, whose C++ would abort: there the thread ends it."""
    if _Held.waits:
        _Held.pending = True
        return
    torch = sys.modules.get("torch")
    if torch is None or not getattr(torch.__spec__, "_initializing", False):
        _Held.raised = True
        raise KeyboardInterrupt


@functools.cache
def _leave_children_alone() -> None:
    """A terminal interrupts forked children, too: that is no second Ctrl-C."""

    def stop_watching() -> None:
        with contextlib.suppress(ValueError):  # forked by a thread
            signal.set_wakeup_fd(-1)

    os.register_at_fork(after_in_child=stop_watching)
