"""Figures whose packages take longer to import than a report of unchanged verdicts may take: kept beside the run."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.metadata
import json
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np

from instruct.runs import write_atomically

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


@dataclass
class _Memory:
    known: dict[str, Any]
    used: dict[str, Any] = field(default_factory=dict)


_memory: ContextVar[_Memory | None] = ContextVar("_memory", default=None)


@contextlib.contextmanager
def remembering(path: Path) -> Iterator[None]:
    """Within this, functions marked `remembered` take their results from the file, and leave them there.

    What was not asked for is forgotten. A file that cannot be read or written costs time and nothing else.
    """
    known: Any = None
    with contextlib.suppress(OSError, ValueError):
        known = json.loads(path.read_text(encoding="utf-8"))
    memory = _Memory(known if isinstance(known, dict) else {})
    token = _memory.set(memory)
    try:
        yield
    finally:
        _memory.reset(token)
    if memory.used != memory.known:
        with contextlib.suppress(OSError):
            write_atomically(path, json.dumps(memory.used, indent=0) + "\n")


def remembered(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Mark a function of numbers and arrays whose result JSON gives back as it was (lists, not tuples).

    A result is known by the arguments, the function's source file and the versions of scipy and statsmodels.
    """

    @functools.wraps(function)
    def call(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        memory = _memory.get()
        if memory is None:
            return function(*args, **kwargs)
        key = hashlib.sha256(_source(function) + b"".join(map(_bytes, [*args, *kwargs.items()]))).hexdigest()
        memory.used[key] = memory.known[key] if key in memory.known else function(*args, **kwargs)
        return memory.used[key]

    return call


@functools.cache
def _source(function: Callable[..., object]) -> bytes:
    versions = [importlib.metadata.version(name) for name in ("scipy", "statsmodels")]
    file = Path(function.__code__.co_filename).read_bytes()
    return hashlib.sha256(file).digest() + repr((function.__qualname__, versions)).encode()


def _bytes(argument: object) -> bytes:
    if isinstance(argument, np.ndarray):
        return repr((argument.dtype.str, argument.shape)).encode() + np.ascontiguousarray(argument).tobytes()
    return repr(argument).encode()
