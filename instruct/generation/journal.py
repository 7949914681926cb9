"""The journal from which answering resumes: a header line, then one line per finished batch."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from instruct.runs import write_atomically


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


class Journal:
    """`NAME.batches.jsonl`: the finished batches of those in `sizes` (prompts in each), made under `fingerprint`.

    Batches may be added in any order. A line counts once its newline is written; an incomplete last line is ignored.
    Lines of another fingerprint are not read; they stay until `start` replaces them.
    """

    def __init__(self, path: Path, fingerprint: str, sizes: list[int]) -> None:
        self.path, self.fingerprint, self.sizes = path, fingerprint, sizes
        self.engine = ""
        self.workers: dict[str, dict[str, Any]] = {}  # the processes of a cluster that were asked, see `Engine`
        self._done: dict[int, Batch] = {}
        self._end = 0
        if path.is_file():
            self._read(path.read_bytes())

    @property
    def batches(self) -> list[Batch]:
        """The finished batches, in the order of their prompts."""
        return [self._done[number] for number in sorted(self._done)]

    @property
    def missing(self) -> list[int]:
        """The numbers of the batches that are not finished."""
        return [number for number in range(len(self.sizes)) if number not in self._done]

    @property
    def complete(self) -> bool:
        return len(self._done) == len(self.sizes)

    def _read(self, data: bytes) -> None:
        lines = data.split(b"\n")[:-1]
        header = _header(lines[0]) if lines else {}
        if header.get("fingerprint") != self.fingerprint:
            return
        self.engine = str(header.get("engine", ""))
        self._end = len(lines[0]) + 1
        for line in lines[1:]:
            try:
                batch = Batch.model_validate_json(line)
            except ValidationError:
                return
            if batch.batch in self._done or not 0 <= batch.batch < len(self.sizes):
                return
            if {len(batch.tokens), len(batch.finish), len(batch.texts)} != {self.sizes[batch.batch]}:
                return
            self._done[batch.batch] = batch
            self._end += len(line) + 1

    def start(self, engine: str) -> None:
        """Prepare for `append`. Batches of another engine, version or device are dropped: their answers can differ."""
        if self.engine == engine:
            with self.path.open("r+b") as file:
                file.truncate(self._end)
            return
        self.engine, self._done = engine, {}
        header = {"fingerprint": self.fingerprint, "engine": engine, "batches": len(self.sizes)}
        write_atomically(self.path, json.dumps(header) + "\n")

    def append(self, batch: Batch) -> None:
        """Add a finished batch; it is on the disk when this returns."""
        with self.path.open("ab") as file:
            file.write(batch.model_dump_json().encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self._done[batch.batch] = batch


def _header(line: bytes) -> dict[str, Any]:
    try:
        header = json.loads(line)
    except ValueError:
        return {}
    return header if isinstance(header, dict) else {}
