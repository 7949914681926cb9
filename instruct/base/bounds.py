"""What a file of a stranger may take of the machine: memory, and of a chat template also time."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import resource
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from instruct.base.errors import InputError, one_line

# What rendering a chat may take; one of 100,000 tokens takes some MB and some 10 ms.
_TEMPLATE_BYTES = 512 * 2**20
_TEMPLATE_SECONDS = 5.0
_TEMPLATE_BITS = 4096  # of a whole number
_POLL = 0.25
_LIMITS = (MemoryError, RecursionError, OverflowError, SyntaxError, TimeoutError)


@contextlib.contextmanager
def bounded_memory(more: int) -> Iterator[None]:
    """Let an allocation fail (MemoryError) that would give the process more than so many further bytes meanwhile."""
    with _LIMITED:
        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        most = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() + more
        limits = [most, *(each for each in (soft, hard) if each != resource.RLIM_INFINITY)]
        resource.setrlimit(resource.RLIMIT_AS, (min(limits), hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


class _Watch:
    """A thread that raises TimeoutError in another one when its time is up. It ends while there is nothing to watch."""

    turn = threading.Lock()
    thread: threading.Thread | None = None
    watched: tuple[int, float] | None = None
    """A thread's id, and the end of its time on its own clock."""

    def begin(self, seconds: float) -> None:
        with self.turn:
            self.watched = threading.get_ident(), time.thread_time() + seconds
            if self.thread is None or not self.thread.is_alive():
                self.thread = threading.Thread(target=self._watch, daemon=True)
                self.thread.start()

    def end(self) -> None:
        with self.turn:
            self.watched = None
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(threading.get_ident()), None)

    def _watch(self) -> None:
        while True:
            time.sleep(_POLL)
            with self.turn:
                if self.watched is None:
                    self.thread = None
                    return
                thread, end = self.watched
                if time.clock_gettime(time.pthread_getcpuclockid(thread)) > end:
                    self.watched = None
                    late = ctypes.py_object(TimeoutError)
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), late)


_WATCH = _Watch()
_LIMITED = threading.RLock()
for _lock in (_LIMITED, _WATCH.turn):  # else a child that is forked meanwhile keeps the limit
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


@contextlib.contextmanager
def _template_bounds() -> Iterator[None]:
    with bounded_memory(_TEMPLATE_BYTES):
        _WATCH.begin(_TEMPLATE_SECONDS)
        try:
            yield
        finally:
            _WATCH.end()


class TemplateError(InputError):
    """A chat template cannot be used, whatever the chat is."""


class RejectedChatError(InputError):
    """A chat template rejects a chat, for this reason."""

    def __init__(self, name: str, error: Exception, remedy: str) -> None:
        self.reason = one_line(error, 120)
        super().__init__(f"{name}: its chat template rejects a chat ({self.reason}); {remedy}")


def apply_template(tokenizer: Any, chats: Any, remedy: str = "use another model", **more: Any) -> Any:
    """A chat as text, or of a list of chats each; `more`: arguments of `apply_chat_template`.

    Raises:
        TemplateError: it needs more memory or time than any chat does, or is nested too deep.
        RejectedChatError: whatever else it raises.
    """
    import jinja2

    _bound_templates()
    name = one_line(getattr(tokenizer, "name_or_path", ""), 200) or "the tokenizer"
    try:
        return tokenizer.apply_chat_template(chats, tokenize=False, **more)
    except (*_LIMITS, jinja2.TemplateError, TypeError, ValueError, LookupError, ArithmeticError) as error:
        # Jinja makes a TypeError of a TimeoutError whose place has no line.
        limit = next((each for each in (error, error.__context__) if isinstance(each, _LIMITS)), None)
        if limit is None:
            raise RejectedChatError(name, error, remedy) from None
        raise TemplateError(
            f"{name}: its chat template needs more than {_TEMPLATE_BYTES >> 20} MiB or {_TEMPLATE_SECONDS:g} s for a "
            f"chat, or is nested too deep ({type(limit).__name__}); {remedy}"
        ) from None


@functools.cache
def _bound_templates() -> None:
    """Let transformers compile and render chat templates within bounds."""
    import jinja2.environment
    from jinja2.filters import do_round
    from jinja2.sandbox import ImmutableSandboxedEnvironment
    from transformers.utils import chat_template_utils

    class Template(jinja2.environment.Template):
        def render(self, *arguments: Any, **named: Any) -> str:
            with _template_bounds():
                return super().render(*arguments, **named)

    class Environment(ImmutableSandboxedEnvironment):
        template_class = Template
        # These, and `round`, can compute for hours in a step that nothing interrupts.
        intercepted_binops = frozenset({"*", "**"})

        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, **named)
            self.filters["round"] = lambda value, precision=0, *how: do_round(value, min(precision, 99), *how)

        def compile(self, *arguments: Any, **named: Any) -> Any:
            with _template_bounds():
                return super().compile(*arguments, **named)

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            if isinstance(left, int) and isinstance(right, int):
                bits = left.bit_length()
                if (bits * abs(right) if operator == "**" else bits + right.bit_length()) > _TEMPLATE_BITS:
                    raise OverflowError("a number is too large")
            return super().call_binop(context, operator, left, right)

    chat_template_utils.ImmutableSandboxedEnvironment = Environment
