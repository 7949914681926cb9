"""Fixed batches of several systems: whatever was stored of them, they are formed again and get the same replies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from instruct.asking.kept import KeptReplies
from instruct.base.replies import Completion, Failure, Reply
from instruct.engines.base import Portion, Request


class FixedBatches:
    """The missing batches of several systems, see `Work`. A batch is kept when all its replies are there.

    Args:
        what: is asked for, in the title.
        requests: of the prompts at these places of a system.
        refused: what is raised if there is no reply to a request.
    """

    def __init__(
        self,
        what: str,
        systems: Sequence[KeptReplies],
        requests: Callable[[KeptReplies, range], list[Request]],
        refused: Callable[[KeptReplies, int, Failure], Exception],
    ) -> None:
        self._what, self._requests, self._refused = what, requests, refused
        self._missing = [(kept, number) for kept in systems for number in kept.missing]
        self._arrived: dict[int, tuple[float, dict[str, Reply]]] = {}
        self.title = what
        self.total = sum(len(kept.batches) for kept in systems)
        self.done = self.total - len(self._missing)

    def batches(self) -> Iterator[Iterable[Request]]:
        """See `Work`."""
        for kept, number in self._missing:
            self.title = f"{self._what} of {kept.system}"
            yield self._requests(kept, kept.places(number))

    def take(self, portion: Portion) -> None:
        """See `Work`; portions of several batches may come in any order."""
        kept, number = self._missing[portion.batch]
        seconds, replies = self._arrived.pop(portion.batch, (0.0, {}))
        seconds += portion.seconds
        replies |= {request.key: reply for request, reply in portion.replies}
        places = kept.places(number)
        if len(replies) < len(places):
            self._arrived[portion.batch] = seconds, replies
            return
        done: list[Completion] = []
        for place in places:
            reply = replies[kept.request_key(place)]
            if isinstance(reply, Failure):
                raise self._refused(kept, place, reply)
            done.append(reply)
        kept.keep(number, done, seconds)
        self.title = f"{self._what} of {kept.system}"
        self.done += 1
