"""Continuations of text prefixes, to the letter, by a base model and its fine-tuned systems."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from pydantic import ConfigDict, NonNegativeInt, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from instruct.errors import InputError, one_line


@dataclass(frozen=True, slots=True, config=ConfigDict(extra="forbid", strict=True))
class Continuation:
    """A prefix of a human text and what a system wrote after it.

    Attributes:
        id: of the prefix; two texts may begin with the same prefix.
        prefix: what the system continued; `prefix + continuation` is the whole text, to the letter.
        continuation: may be empty, if the system ended at once.
        reference: how the human text goes on: `prefix + reference` is its beginning, to the letter; None: unknown.
        sample, seed: which sample of the prefix this is, from 0, and the seed of the config that it was drawn with.
        tokens: of the continuation, without an end token.
        finish_reason: `length` or `stop`.
    """

    id: str
    prefix: str
    continuation: str
    reference: str | None
    sample: NonNegativeInt
    seed: int
    tokens: NonNegativeInt
    finish_reason: str

    @property
    def key(self) -> tuple[str, int, int]:
        """What identifies it in its file, and the same continuation of another system: prefix, seed and sample."""
        return self.id, self.seed, self.sample


_FILE = TypeAdapter(list[Continuation])


def read_continuations(path: str | Path) -> list[Continuation]:
    """The continuations in `runs/NAME/continuations/SYSTEM.json`, in the order of the file.

    Raises:
        InputError: a missing or empty file, a row that is not a continuation, or one that is there twice.
    """
    path = Path(path)
    try:
        rows = _FILE.validate_json(path.read_bytes())
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read ({one_line(error.strerror, 100)}); continue the prefixes first: "
            f"`instruct generate {path.parent.parent}`"
        ) from None
    except ValidationError as error:
        raise InputError(f"{path}{_first_problem(error)}; generate the file again") from None
    if not rows:
        raise InputError(f"{path}: has no continuations; generate the file again")
    seen: dict[tuple[str, int, int], int] = {}
    for number, row in enumerate(rows, start=1):
        earlier = seen.setdefault(row.key, number)
        if earlier != number:
            raise InputError(
                f"{path}, row {number}: sample {row.sample} of seed {row.seed} of the prefix {one_line(row.id, 60)!r} "
                f"is already in row {earlier}; remove one of them"
            )
    return rows


def as_json(rows: Iterable[Continuation]) -> str:
    """The content of the file of a system's continuations."""
    return json.dumps([asdict(row) for row in rows], ensure_ascii=False, indent=1) + "\n"


def _first_problem(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = [str(part) for part in first["loc"]]
    row = f", row {int(place[0]) + 1}" if place and place[0].isdigit() else ""
    field = f": {one_line(place[1], 60)}" if len(place) > 1 else ""
    return f"{row}{field}: {one_line(first['msg'], 160)}"
