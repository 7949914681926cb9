"""Fixed batches of several systems: whatever was stored of them, they are formed again and get the same replies."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from instruct.asking.kept import KeptReplies
from instruct.base.replies import Failure, Reply
from instruct.engines.base import Portion, Request


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
        self._missing = [(kept, number) for kept in systems for number in kept.missing]
        # By the batch's place among the missing: its places without a reply, by request; seconds; what is not kept yet.
        self._asked: dict[int, _Batch] = {}
        self._batch_of: dict[str, int] = {}
        self.title = what
        self.total = sum(len(kept.batches) for kept in systems)
        self.done = self.total - len(self._missing)

    def batches(self) -> Iterator[Iterable[Request]]:
        """See `Work`."""
        batches = map(self._batch, range(len(self._missing)))
        yield from [itertools.chain.from_iterable(batches)] if self._apart else batches

    def _batch(self, index: int) -> list[Request]:
        kept, number = self._missing[index]
        self.title = f"{self._what} of {kept.system}"
        places: Sequence[int] = kept.without_reply(number) if self._apart else kept.places(number)
        self._asked[index] = _Batch({kept.request_key(place): place for place in places})
        if not places:  # another process has asked them meanwhile
            self._finish(index)
        self._batch_of |= dict.fromkeys(map(kept.request_key, places), index)
        return self._requests(kept, places)

    def take(self, portion: Portion) -> None:
        """See `Work`; replies of several batches may come in any order."""
        changed: set[int] = set()
        # Replies of a stream may be of several batches; the time of all is that of the first.
        timed = self._batch_of[portion.replies[0][0].key] if self._apart and portion.replies else portion.batch
        if timed in self._asked:
            self._asked[timed].seconds += portion.seconds
        for request, reply in portion.replies:
            index = self._batch_of[request.key]
            batch = self._asked[index]
            batch.arrived[batch.waiting[request.key]] = reply
            if not (isinstance(reply, Failure) and not reply.tried):  # else nobody knows what its reply would have been
                del batch.waiting[request.key]
            changed.add(index)
        for index in changed:
            batch = self._asked[index]
            kept, number = self._missing[index]
            if not batch.waiting:
                self._finish(index)
            elif self._apart:
                kept.keep_some(number, batch.arrived, 0.0, finished=False)
                batch.arrived.clear()

    def _finish(self, index: int) -> None:
        kept, number = self._missing[index]
        batch = self._asked.pop(index)
        kept.keep_some(number, batch.arrived, batch.seconds)
        self.title = f"{self._what} of {kept.system}"
        self.done += 1


@dataclass
class _Batch:
    waiting: dict[str, int]
    seconds: float = 0.0
    arrived: dict[int, Reply] = field(default_factory=dict)
