"""A system's replies to fixed batches of prompts: what is kept, what is missing, and what starts over."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from instruct.asking.journals import journal_batches
from instruct.base.replies import Completion
from instruct.run.replies import BatchStore, completion_key


class KeptReplies:
    """`NAME.replies.sqlite`: the finished batches of a system, in any order.

    Every reply has its own key: a prompt that is asked twice is answered twice, because a reply may depend on what it
    is batched with. Replies under another fingerprint stay until `start` replaces them. The journal of an earlier
    version, `NAME.batches.jsonl`, is taken over if it has this fingerprint.

    Args:
        fingerprint: of everything that could change a reply, besides the engine.
        prompts: what identifies each of them, for JSON.
        size: how many make a batch.
    """

    def __init__(self, folder: Path, system: str, fingerprint: str, prompts: Sequence[Any], size: int) -> None:
        self.system = system
        self.engine = ""
        self.workers: dict[str, dict[str, Any]] = {}  # the processes of a cluster that were asked, see `Engine`
        self.batches = range(0, -(-len(prompts) // size))
        self._path, self._journal = folder / f"{system}.replies.sqlite", folder / f"{system}.batches.jsonl"
        self._fingerprint, self._prompts, self._size = fingerprint, prompts, size
        self._seconds: dict[int, float] = {}
        if self._path.is_file():
            with BatchStore(self._path) as store:
                self.engine, self._seconds = store.batches(fingerprint)
        if self._journal.is_file():
            self._take_over()

    def places(self, batch: int) -> range:
        """The places of a batch's prompts among all."""
        return range(batch * self._size, min((batch + 1) * self._size, len(self._prompts)))

    def request_key(self, place: int) -> str:
        """What its request is called, unique among all systems."""
        return f"{self.system}/{place}"

    @property
    def missing(self) -> list[int]:
        """The numbers of the batches that are not finished."""
        return [number for number in self.batches if number not in self._seconds]

    @property
    def minutes(self) -> float:
        """What the finished batches took, over all calls."""
        return math.fsum(self._seconds.values()) / 60

    def replies(self) -> Iterator[Completion]:
        """The replies of the finished batches, in the order of their prompts, read a batch at a time."""
        if not self._seconds:
            return
        with BatchStore(self._path) as store:
            for number in sorted(self._seconds):
                yield from store.replies(self._keys(number))

    def start(self, engine: str) -> None:
        """Prepare for `keep`. Batches of another engine, version or device are dropped: their replies can differ."""
        if self.engine != engine:
            self._start_over(engine)
        self._journal.unlink(missing_ok=True)

    def keep(self, batch: int, replies: Sequence[Completion], seconds: float) -> None:
        """Add a finished batch, its replies in order; it is on the disk when this returns."""
        seconds = round(seconds, 3)
        with BatchStore(self._path) as store:
            rows = dict(zip(self._keys(batch), replies, strict=True))
            store.add_batch(self._fingerprint, self.engine, batch, seconds, rows)
        self._seconds[batch] = seconds

    def _keys(self, batch: int) -> list[str]:
        """The keys of a batch's replies: system, batch, place in it, and a hash of work, engine and prompt."""
        made_by = {"work": self._fingerprint, "engine": self.engine}
        return [
            f"{self.system}/{batch}/{number}/{completion_key({**made_by, 'prompt': self._prompts[place]})}"
            for number, place in enumerate(self.places(batch))
        ]

    def _start_over(self, engine: str) -> None:
        self.engine, self._seconds = engine, {}
        with BatchStore(self._path) as store:
            store.remove_batches()

    def _take_over(self) -> None:
        """Move the batches of an earlier version's journal to the store; one that does not fit stays until `start`."""
        for engine, number, seconds, replies in journal_batches(self._journal, self._fingerprint):
            if not self.engine:
                self._start_over(engine)
            if engine != self.engine or number not in self.batches or len(replies) != len(self.places(number)):
                break
            if number not in self._seconds:  # else it was moved before the call was stopped
                self.keep(number, replies, seconds)
        if self._seconds:
            self._journal.unlink()
