"""Processes that begin with the libraries loaded: forked from a server that has imported them (`multiprocessing`'s
forkserver), so that one more costs a second instead of ten.

They lock files, print, and are killed like those that a shell started. What is imported, and what an import prints, is
not tested by them.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

FORKED = multiprocessing.get_context("forkserver")
LOADED = ["torch", "transformers", "peft", "trl", "datasets", "lm_eval.evaluator", "matplotlib.pyplot"]


def start(target: Callable[..., None], *arguments: Any) -> Any:
    """A process that calls `target`, which is a function of a module."""
    FORKED.set_forkserver_preload(LOADED)
    process = FORKED.Process(target=target, args=arguments)
    process.start()
    return process


def run(
    command: Sequence[object], cwd: str | Path, env: Mapping[str, str] | None = None, timeout: float = 600
) -> subprocess.CompletedProcess[str]:
    """What `subprocess.run` gives for `python SCRIPT ...` and `python -m MODULE ...`, both outputs captured as text."""
    words = [str(word) for word in command]
    assert words[0] == sys.executable
    with tempfile.TemporaryDirectory() as folder:
        printed = [Path(folder, name) for name in ("stdout", "stderr")]
        process = start(_run, words[1:], str(cwd), dict(os.environ if env is None else env), printed)
        process.join(timeout)
        if process.exitcode is None:
            process.kill()
            raise subprocess.TimeoutExpired(words, timeout)
        return subprocess.CompletedProcess(words, process.exitcode, *(path.read_text() for path in printed))


def _run(words: list[str], cwd: str, env: dict[str, str], printed: list[Path]) -> None:
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    for descriptor, path in enumerate(printed, 1):
        os.dup2(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600), descriptor)
    sys.stdout = sys.__stdout__ = open(1, "w", buffering=1, closefd=False)  # noqa: SIM115
    sys.stderr = sys.__stderr__ = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
    try:
        if words[0] == "-m":
            sys.argv = words[1:]
            sys.path.insert(0, cwd)
            runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = words
            sys.path.insert(0, str(Path(words[0]).parent))
            runpy.run_path(words[0], run_name="__main__")
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
