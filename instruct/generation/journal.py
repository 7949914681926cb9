"""The journal from which answering resumes: a header line, then one line per finished batch."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from instruct.base.files import write_atomically


class Batch(BaseModel):
    """The answers to one fixed batch of prompts.

    `tokens` counts each answer's tokens without its end token; None if the server did not count them.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    batch: int
    seconds: float
    tokens: list[int | None]
    finish: list[str]
    texts: list[str]


@dataclass(frozen=True)
class Totals:
    """Sums over the finished batches: empty replies, those cut at their limit and those that ended, and minutes.

    `mean_tokens` is None if the tokens of a reply were not counted.
    """

    empty: int
    cut: int
    ended: int
    mean_tokens: float | None
    minutes: float


class Journal:
    """`NAME.batches.jsonl`: the finished batches of those in `sizes` (prompts in each), made under `fingerprint`.

    Batches may be added in any order; they stay on the disk. A line counts once its newline is written; an incomplete
    last line is ignored. Lines of another fingerprint are not read; they stay until `start` replaces them.
    """

    def __init__(self, path: Path, fingerprint: str, sizes: list[int]) -> None:
        self.path, self.fingerprint, self.sizes = path, fingerprint, sizes
        self.engine = ""
        self.workers: dict[str, dict[str, Any]] = {}  # the processes of a cluster that were asked, see `Engine`
        self._begin: dict[int, int] = {}  # where the line of each finished batch begins
        self._end = 0
        if path.is_file():
            self._find_batches()

    def batches(self) -> Iterator[Batch]:
        """The finished batches, in the order of their prompts, read one at a time."""
        if not self._begin:
            return
        with self.path.open("rb") as file:
            for number in sorted(self._begin):
                file.seek(self._begin[number])
                yield Batch.model_validate_json(file.readline())

    def totals(self) -> Totals:
        """The sums over the finished batches, in one pass."""
        texts = empty = cut = ended = counted = tokens = 0
        seconds = 0.0
        for batch in self.batches():
            texts += len(batch.texts)
            empty += sum(not text.strip() for text in batch.texts)
            cut += batch.finish.count("length")
            ended += batch.finish.count("stop")
            known = [count for count in batch.tokens if count is not None]
            counted, tokens = counted + len(known), tokens + sum(known)
            seconds += batch.seconds
        mean = tokens / texts if texts and counted == texts else None
        return Totals(empty, cut, ended, mean, seconds / 60)

    @property
    def finished(self) -> int:
        """How many batches are finished."""
        return len(self._begin)

    @property
    def missing(self) -> list[int]:
        """The numbers of the batches that are not finished."""
        return [number for number in range(len(self.sizes)) if number not in self._begin]

    @property
    def complete(self) -> bool:
        return len(self._begin) == len(self.sizes)

    def _find_batches(self) -> None:
        with self.path.open("rb") as file:
            line = file.readline()
            header = _header(line) if line.endswith(b"\n") else {}
            if header.get("fingerprint") != self.fingerprint:
                return
            self.engine = str(header.get("engine", ""))
            self._end = len(line)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                try:
                    batch = Batch.model_validate_json(line)
                except ValidationError:
                    return
                if batch.batch in self._begin or not 0 <= batch.batch < len(self.sizes):
                    return
                if {len(batch.tokens), len(batch.finish), len(batch.texts)} != {self.sizes[batch.batch]}:
                    return
                self._begin[batch.batch] = self._end
                self._end += len(line)

    def start(self, engine: str) -> None:
        """Prepare for `append`. Batches of another engine, version or device are dropped: their answers can differ."""
        if self.engine == engine:
            with self.path.open("r+b") as file:
                file.truncate(self._end)
            return
        self.engine, self._begin = engine, {}
        header = json.dumps({"fingerprint": self.fingerprint, "engine": engine, "batches": len(self.sizes)}) + "\n"
        write_atomically(self.path, header)
        self._end = len(header)

    def append(self, batch: Batch) -> None:
        """Add a finished batch; it is on the disk when this returns."""
        line = batch.model_dump_json().encode() + b"\n"
        with self.path.open("ab") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
        self._begin[batch.batch] = self._end
        self._end += len(line)


def _header(line: bytes) -> dict[str, Any]:
    try:
        header = json.loads(line)
    except ValueError:
        return {}
    return header if isinstance(header, dict) else {}
