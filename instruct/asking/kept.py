"""A system's replies to fixed batches of prompts: what is kept, what is missing, and what starts over."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from instruct.base.errors import InputError
from instruct.base.files import write_atomically
from instruct.base.replies import Reply
from instruct.run.replies import BatchStore, completion_key


def forgive(folder: Path, system: str) -> bool:
    """Let all failed requests of a system be sent again, also those that were refused; whether there is one."""
    path = folder / f"{system}.replies.sqlite"
    if not path.is_file():
        return False
    with BatchStore(path) as store:
        return store.forgive()


class KeptReplies:
    """`NAME.replies.sqlite`: the replies to a system's prompts, in batches that are finished in any order.

    A batch is finished when each of its prompts has a reply or has failed; a failure that is not for good makes the
    batch missing again, at most twice.

    Every reply has its own key: a prompt that is asked twice is answered twice, because a reply may depend on what it
    is batched with. Replies under another fingerprint stay until `start` replaces them.

    Args:
        fingerprint: of everything that could change a reply, besides the engine.
        prompts: what identifies each of them, for JSON.
        size: how many make a batch.

    Raises:
        InputError: the file of what was compared is damaged.
    """

    def __init__(self, folder: Path, system: str, fingerprint: str, prompts: Sequence[Any], size: int) -> None:
        self.system = system
        self.engine = ""
        self.weights: str | None = None  # what came of comparing those that answer with those that were trained
        self.workers: dict[str, dict[str, Any]] = {}  # the processes of a cluster that were asked, see `Engine`
        self.batches = range(0, -(-len(prompts) // size))
        self._checked = folder / f"{system}.checked"
        self._path = folder / f"{system}.replies.sqlite"
        self._fingerprint, self._prompts, self._size = fingerprint, prompts, size
        self._seconds: dict[int, float] = {}
        self._again: set[int] = set()  # finished batches with requests that failed and are sent again
        if self._path.is_file():
            with BatchStore(self._path) as store:
                self.engine, self._seconds = store.batches(fingerprint)
                failed = {int(key.split("/")[1]) for key in store.failed()}
                self._again = {batch for batch in failed & set(self._seconds) if self._without_reply(store, batch)}
        if self._checked.is_file():
            try:
                checked = json.loads(self._checked.read_text(encoding="utf-8"))
                engine, work, weights = (checked[name] for name in ("engine", "work", "weights"))
            except (ValueError, KeyError, TypeError):
                raise InputError(f"{self._checked}: is damaged; restore it, or delete it") from None
            if engine == self.engine and work == fingerprint:
                self.weights = weights

    def places(self, batch: int) -> range:
        """The places of a batch's prompts among all."""
        return range(batch * self._size, min((batch + 1) * self._size, len(self._prompts)))

    def request_key(self, place: int) -> str:
        """What its request is called, unique among all systems."""
        return f"{self.system}/{place}"

    @property
    def missing(self) -> list[int]:
        """The numbers of the batches that are not finished, or have failed requests that are sent again."""
        return [number for number in self.batches if number not in self._seconds or number in self._again]

    @property
    def minutes(self) -> float:
        """What the finished batches took, over all calls."""
        return math.fsum(self._seconds.values()) / 60

    def replies(self) -> Iterator[Reply]:
        """The replies of the finished batches, in the order of their prompts, read a batch at a time.

        A failure is `permanent` if its request is not sent again.
        """
        if not self._seconds:
            return
        with BatchStore(self._path) as store:
            for number in sorted(self._seconds):
                yield from store.replies(self._keys(number))

    def start(self, engine: str, weights: str | None = None) -> None:
        """Prepare for `keep`. Batches of another engine, version or device are dropped: their replies can differ.

        Args:
            weights: what came of comparing the engine's with those that were trained, kept beside the replies.
        """
        if self.engine != engine:
            self._start_over(engine)
        if weights != self.weights:
            self.weights = weights
            made = {"work": self._fingerprint, "engine": engine, "weights": weights}
            write_atomically(self._checked, json.dumps(made) + "\n")

    def without_reply(self, batch: int) -> list[int]:
        """The places of a missing batch that have no reply, and no failure that stays."""
        with BatchStore(self._path) as store:
            return self._without_reply(store, batch)

    def _without_reply(self, store: BatchStore, batch: int) -> list[int]:
        keys = dict(zip(self._keys(batch), self.places(batch), strict=True))
        there = store.completions(keys).keys() | store.given_up(keys)
        return [place for key, place in keys.items() if key not in there]

    def keep(self, batch: int, replies: Sequence[Reply], seconds: float) -> None:
        """Add a finished batch, its replies in order; it is on the disk when this returns."""
        self.keep_some(batch, dict(zip(self.places(batch), replies, strict=True)), seconds)

    def keep_some(self, batch: int, replies: Mapping[int, Reply], seconds: float, finished: bool = True) -> None:
        """Add replies of a batch by the places of their prompts; they are on the disk when this returns.

        Args:
            seconds: what the batch took.
            finished: the batch's other prompts have theirs already.
        """
        keys = dict(zip(self.places(batch), self._keys(batch), strict=True))
        rows = {keys[place]: reply for place, reply in replies.items()}
        seconds = round(seconds, 3)
        with BatchStore(self._path) as store:
            if finished:
                store.add_batch(self._fingerprint, self.engine, batch, seconds, rows)
                self._seconds[batch] = self._seconds.get(batch, 0.0) + seconds
                self._again.discard(batch)
            else:
                store.add_part(rows)

    def forget(self) -> None:
        """Remove everything, so that it is asked again."""
        self._seconds, self._again = {}, set()
        with BatchStore(self._path) as store:
            store.remove_batches()

    def _keys(self, batch: int) -> list[str]:
        """The keys of a batch's replies: system, batch, place in it, and a hash of work, engine and prompt."""
        made_by = {"work": self._fingerprint, "engine": self.engine}
        return [
            f"{self.system}/{batch}/{number}/{completion_key({**made_by, 'prompt': self._prompts[place]})}"
            for number, place in enumerate(self.places(batch))
        ]

    def _start_over(self, engine: str) -> None:
        self.engine, self._seconds, self._again = engine, {}, set()
        with BatchStore(self._path) as store:
            store.start_over()
