"""Tries what a stranger's text makes a library do, which might never end, in a copy of this process."""

from __future__ import annotations

import os
import resource
import signal
import warnings
from collections.abc import Callable
from pathlib import Path

SECONDS = 5  # of the processor
MIB = 512


def ends_in_bounds(work: Callable[[], object]) -> bool:
    """Whether work ends within `SECONDS` and `MIB`, and is not nested too deep. What else it raises does not count."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # that other threads are not copied
        process = os.fork()
    if process == 0:
        try:
            signal.alarm(10 * SECONDS)  # a lock of a thread that was not copied
            resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
            most = pages * resource.getpagesize() + MIB * 2**20
            resource.setrlimit(resource.RLIMIT_AS, (most, most))
            work()
        except (MemoryError, RecursionError, SyntaxError):
            os._exit(1)
        finally:
            os._exit(0)
    return os.waitpid(process, 0)[1] == 0
