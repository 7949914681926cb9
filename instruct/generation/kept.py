"""The replies to a system's prompts: what is kept, what is missing, and what starts over."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from instruct.base.errors import InputError
from instruct.base.replies import Failure, Reply
from instruct.run.replies import AnswerStore, Work, completion_key

# Prompts whose replies are read at a time.
_CHUNK = 256


def forgive(folder: Path, system: str) -> bool:
    """Let all failed requests of a system be sent again, also those that were refused; whether there is one."""
    path = folder / f"{system}.replies.sqlite"
    if not path.is_file():
        return False
    with AnswerStore(path) as store:
        return store.forgive()


class KeptReplies:
    """`NAME.replies.sqlite`: the replies to a system's prompts, each under its own key as soon as it arrives.

    A prompt that is asked twice is answered twice. One whose request failed is missing again, at most twice, unless it
    failed for good. Replies under another fingerprint stay until `start` replaces them.

    Args:
        fingerprint: of everything that could change a reply, besides the engine.
        prompts: what identifies each of them, for JSON.
    """

    def __init__(self, folder: Path, system: str, fingerprint: str, prompts: Sequence[Any]) -> None:
        self.system = system
        self._path = folder / f"{system}.replies.sqlite"
        self._prompts = prompts
        self.work = Work(fingerprint, "")
        self.missing: list[int] = [*range(len(prompts))]  # the places of prompts that are to be asked
        if self._path.is_file():
            with AnswerStore(self._path) as store:
                stored = store.work()
            if stored and stored.work == fingerprint:
                self.work = stored
                self.missing = [
                    place
                    for place, reply in enumerate(self._stored())
                    if reply is None or (isinstance(reply, Failure) and not reply.permanent)
                ]

    @property
    def engine(self) -> str:
        """That was asked; "" before."""
        return self.work.engine

    def start(self, engine: str, weights: str | None = None) -> None:
        """Prepare for `add`. Replies of another engine, version or device are dropped: they can differ.

        Args:
            weights: what came of comparing the engine's with those that were trained, kept beside the replies.
        """
        with AnswerStore(self._path) as store:
            if self.engine != engine:
                self.work = Work(self.work.work, engine, weights)
                self.missing = [*range(len(self._prompts))]
                store.start(self.work)
            elif self.work.weights != weights:
                store.set_weights(weights)
                self.work = self.work._replace(weights=weights)

    def add(self, replies: Iterable[tuple[int, Reply]], seconds: float) -> None:
        """Add replies by the places of their prompts; they are on the disk when this returns."""
        with AnswerStore(self._path) as store:
            store.add([(self._key(place), reply) for place, reply in replies], seconds)
        self.work = self.work._replace(seconds=self.work.seconds + seconds)

    def replies(self) -> Iterator[Reply]:
        """The replies in the order of their prompts, when all are there. A failure is `permanent` if it is not asked
        again."""
        for place, reply in enumerate(self._stored()):
            if reply is None:
                raise InputError(
                    f"{self._path}: has no reply to prompt {place + 1} of {len(self._prompts)}; rerun the "
                    "command, which asks what is missing"
                )
            yield reply

    def forget(self) -> None:
        """Remove everything, so that it is asked again."""
        with AnswerStore(self._path) as store:
            store.start(self.work)

    def _stored(self) -> Iterator[Reply | None]:
        with AnswerStore(self._path) as store:
            for first in range(0, len(self._prompts), _CHUNK):
                keys = [*map(self._key, range(len(self._prompts))[first : first + _CHUNK])]
                yield from map(store.replies(keys).get, keys)

    def _key(self, place: int) -> str:
        """The key of a reply: system, place, and a hash of work, engine and prompt."""
        asked = {"work": self.work.work, "engine": self.engine, "prompt": self._prompts[place]}
        return f"{self.system}/{place}/{completion_key(asked)}"
