"""Journals of earlier versions, `NAME.batches.jsonl`: a header line, then one line per finished batch."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from instruct.base.replies import Completion


class _Line(BaseModel):
    """`tokens` are counted without the end token, which ended a reply whose `finish` is stop."""

    model_config = ConfigDict(extra="forbid")

    batch: int
    seconds: float
    tokens: list[int | None]
    finish: list[str]
    texts: list[str]

    def replies(self) -> list[Completion]:
        """The replies as an engine returns them."""
        return [
            Completion(text, None, finish, None, None if tokens is None else tokens + (finish == "stop"))
            for text, finish, tokens in zip(self.texts, self.finish, self.tokens, strict=True)
        ]


def journal_batches(path: Path, fingerprint: str) -> Iterator[tuple[str, int, float, list[Completion]]]:
    """The engine, number, seconds and replies of each batch in a journal; none if it has another fingerprint.

    A line counts once its newline is written; reading ends at the first one that is not a batch.
    """
    with path.open("rb") as file:
        try:
            header = json.loads(file.readline())
            if header["fingerprint"] != fingerprint:
                return
            for line in file:
                if not line.endswith(b"\n"):
                    return
                batch = _Line.model_validate_json(line)
                yield str(header["engine"]), batch.batch, batch.seconds, batch.replies()
        except (ValueError, KeyError, TypeError):  # pydantic's error is a ValueError
            return
