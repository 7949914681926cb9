"""Ask an engine for what is missing, keep the replies as they arrive, and show how far it is."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from instruct.base.output import progress_bar
from instruct.engines.base import Engine, Portion, Request


class Work(Protocol):
    """What is asked: `done` of `total`; `title` says what of."""

    @property
    def title(self) -> str: ...

    @property
    def done(self) -> int: ...

    @property
    def total(self) -> int: ...

    def batches(self) -> Iterator[Iterable[Request]]:
        """The requests without a reply, in batches that are computed together or in one stream."""
        ...

    def take(self, portion: Portion) -> None:
        """Keep replies of one of those batches."""
        ...


@contextlib.contextmanager
def progress_of(title: str) -> Iterator[Callable[[Work], None]]:
    """A progress bar with a title; what is yielded shows the progress of the work."""
    with progress_bar() as progress:
        task = progress.add_task(title, total=None)
        yield lambda work: progress.update(task, description=work.title, completed=work.done, total=work.total)


def ask_engine(engine: Engine, work: Work, show: Callable[[Work], None]) -> None:
    """Ask until the work has no more batches.

    Raises:
        InstructError: the engine, or what takes the replies, gave up; what was kept stays.
    """

    def batches() -> Iterator[Iterable[Request]]:
        for batch in work.batches():
            show(work)
            yield batch

    for portion in engine.complete_batches(batches()):
        work.take(portion)
        show(work)
