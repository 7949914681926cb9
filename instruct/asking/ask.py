"""Ask an engine for what is missing, keep the replies as they arrive, and show how far it is.

Fixed batches of several systems are formed again, whatever was stored of them, and get the same replies.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from instruct.asking.kept import KeptReplies
from instruct.base.output import progress_bar
from instruct.base.replies import Failure, Reply
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


@dataclass(eq=False)
class _Batch:
    """A missing batch of a system: its places without a reply, by request; and replies that are not kept yet."""

    kept: KeptReplies
    number: int
    waiting: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    arrived: dict[int, Reply] = field(default_factory=dict)


class FixedBatches:
    """The missing batches of several systems, see `Work`. A prompt without a reply is kept as failed.

    Args:
        what: is asked for, in the title.
        requests: of the prompts at these places of a system.
        apart: a reply depends on its own request alone, so that all are asked in one stream, replies are kept as they
            arrive, and only what has none is asked; else a batch is asked and kept as a whole.
    """

    def __init__(
        self,
        what: str,
        systems: Sequence[KeptReplies],
        requests: Callable[[KeptReplies, Sequence[int]], list[Request]],
        apart: bool,
    ) -> None:
        self._what, self._requests, self._apart = what, requests, apart
        self._missing = [_Batch(kept, number) for kept in systems for number in kept.missing]
        self._batch_of: dict[str, _Batch] = {}  # by request
        self.title = what
        self.total = sum(len(kept.batches) for kept in systems)
        self.done = self.total - len(self._missing)

    def batches(self) -> Iterator[Iterable[Request]]:
        """See `Work`."""
        batches = map(self._asked, self._missing)
        yield from [itertools.chain.from_iterable(batches)] if self._apart else batches

    def _asked(self, batch: _Batch) -> list[Request]:
        kept = batch.kept
        self.title = f"{self._what} of {kept.system}"
        places: Sequence[int] = kept.without_reply(batch.number) if self._apart else kept.places(batch.number)
        batch.waiting = {kept.request_key(place): place for place in places}
        self._batch_of |= dict.fromkeys(batch.waiting, batch)
        if not places:  # another process has asked them meanwhile
            self._finish(batch)
        return self._requests(kept, places)

    def take(self, portion: Portion) -> None:
        """See `Work`; replies of several batches may come in any order."""
        # Replies of a stream may be of several batches; the time of all is that of the first.
        first = self._batch_of[portion.replies[0][0].key] if self._apart and portion.replies else None
        (first or self._missing[portion.batch]).seconds += portion.seconds
        changed: set[_Batch] = set()
        for request, reply in portion.replies:
            batch = self._batch_of[request.key]
            batch.arrived[batch.waiting[request.key]] = reply
            if not (isinstance(reply, Failure) and not reply.tried):  # else nobody knows what its reply would have been
                del batch.waiting[request.key]
            changed.add(batch)
        for batch in changed:
            if not batch.waiting:
                self._finish(batch)
            elif self._apart:
                batch.kept.keep_some(batch.number, batch.arrived, 0.0, finished=False)
                batch.arrived.clear()

    def _finish(self, batch: _Batch) -> None:
        batch.kept.keep_some(batch.number, batch.arrived, batch.seconds)
        self.title = f"{self._what} of {batch.kept.system}"
        self.done += 1
