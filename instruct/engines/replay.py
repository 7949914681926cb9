"""Earlier replies in place of a model."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from instruct.base.cards import validated
from instruct.base.errors import InputError, one_line
from instruct.base.files import sha256_of
from instruct.base.replies import Completion, Failure, Reply
from instruct.data.sources import RawRow, read_file
from instruct.engines.base import BatchesInTurn, Prompt, Request


class ReplayEngine(BatchesInTurn):
    """Replies from a file in place of a model; a request without one is a Failure.

    A line is what `export_jsonl` writes, or one reply: {"text": …, "label_logprobs": …} and the other fields of a
    Completion, with its request's `key` or the `prompt_sha256` of its prompt (see `prompt_sha256`). "failure" instead
    of a text is a Failure with that reason.

    Args:
        identity: of the engine that made the replies, so that their keys match; None: replies are found by their
            prompts, and stored under keys of this file.

    Raises:
        InputError: an invalid line, with file, line and field.
    """

    def __init__(self, path: str | Path, identity: dict[str, Any] | None = None) -> None:
        self._path = Path(path).expanduser()
        self._replies: dict[str, Reply] = {}
        for row in read_file(self._path):
            for name, fields in _replies(row):
                if isinstance(fields, dict) and isinstance(fields.get("failure"), str):
                    self._replies[name] = Failure(one_line(fields["failure"], 120))
                else:
                    self._replies[name] = validated(_Line, {"completion": fields}, row.place).completion
        self.identity: dict[str, Any] = identity or {"replay": sha256_of(self._path)}
        self.notes: list[str] = [f"replies are replayed from {one_line(self._path.name, 80)}"]
        self.batch: int | None = None

    def start(self) -> str:
        return "replay"

    def check(self) -> None:
        """Nothing is asked."""

    def tokens(self, prompt: Prompt) -> None:
        return None

    def complete(self, requests: Iterable[Request]) -> Iterator[list[tuple[Request, Reply]]]:
        missing = Failure("not in the replay file", tried=False)
        for request in requests:
            by_prompt = self._replies.get(prompt_sha256(request.prompt), missing)
            yield [(request, self._replies.get(request.key, by_prompt))]

    def close(self) -> None:
        """Nothing is open."""


def prompt_sha256(prompt: Prompt) -> str:
    """The SHA-256 of a prompt's text in UTF-8, or of its messages as JSON: keys sorted, ASCII, Python's separators."""
    text = prompt if isinstance(prompt, str) else json.dumps(prompt, sort_keys=True)
    # An answer may contain a lone surrogate, which UTF-8 cannot encode.
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _replies(row: RawRow) -> Iterator[tuple[str, Any]]:
    """The key or prompt hash of each reply in a line, and its fields."""
    line = dict(row.fields)
    if "completions" in line:
        completions = line["completions"]
        if not isinstance(completions, dict):
            raise InputError(f"{row.place}: completions: must be an object; export the file again")
        yield from completions.items()
        return
    names = [str(line.pop(name)) for name in ("key", "prompt_sha256") if line.get(name) is not None]
    if not names:
        raise InputError(f"{row.place}: has neither key nor prompt_sha256; add the one of the request that it answers")
    known = {field.name for field in dataclasses.fields(Completion)} | {"failure"}
    for name in names:
        yield name, {field: value for field, value in line.items() if field in known}


class _Line(BaseModel):
    model_config = ConfigDict(extra="forbid")

    completion: Completion
