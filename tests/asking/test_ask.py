"""Asking: portions of batches in any order become whole batches, and a refusal keeps those that are finished."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from instruct.asking.ask import Work, ask_engine
from instruct.asking.batches import FixedBatches
from instruct.asking.kept import KeptReplies
from instruct.base.errors import InstructError
from instruct.base.replies import Completion, Failure
from instruct.engines.base import Portion, Request


class OutOfOrder:
    """Takes all batches first, and answers half of each, the last batch first."""

    def __init__(self, refuses: str = "") -> None:
        self.refuses = refuses

    def complete_batches(self, batches: Iterable[Iterable[Request]]) -> Iterator[Portion]:
        asked = [list(batch) for batch in batches]
        for half in (1, 0):
            for number, batch in reversed(list(enumerate(asked))):
                requests = batch[half::2]
                yield Portion(number, [(request, self.reply(request)) for request in requests], 0.5)

    def reply(self, request: Request) -> Any:
        return Failure("HTTP 400") if request.key == self.refuses else Completion(f"to {request.key}")


def batches_of(systems: list[KeptReplies]) -> FixedBatches:
    return FixedBatches(
        "answers",
        systems,
        lambda kept, places: [Request(kept.request_key(place), "?") for place in places],
        lambda kept, place, failure: InstructError(f"{kept.system} {place}: {failure.reason}"),
    )


def systems_in(folder: Path) -> list[KeptReplies]:
    systems = [KeptReplies(folder, name, "f", [[name, place] for place in range(7)], 3) for name in ("a", "b")]
    for kept in systems:
        kept.start("e")
    return systems


def test_portions_in_any_order_become_whole_batches(tmp_path: Path) -> None:
    systems, seen = systems_in(tmp_path), []

    def show(work: Work) -> None:
        seen.append((work.title, work.done, work.total))

    ask_engine(OutOfOrder(), batches_of(systems), show)  # type: ignore[arg-type]
    for kept in systems:
        assert [each.text for each in kept.replies()] == [f"to {kept.system}/{place}" for place in range(7)]
        assert kept.minutes == 3 / 60  # two portions of each batch
    assert seen[0] == ("answers of a", 0, 6)
    assert seen[-1] == ("answers of a", 6, 6)
    assert {title for title, _, _ in seen} == {"answers of a", "answers of b"}


def test_a_refusal_names_the_first_prompt_and_keeps_finished_batches(tmp_path: Path) -> None:
    with pytest.raises(InstructError, match=r"^b 0: HTTP 400$"):
        ask_engine(OutOfOrder("b/0"), batches_of(systems_in(tmp_path)), lambda work: None)  # type: ignore[arg-type]
    again = systems_in(tmp_path)
    assert [kept.missing for kept in again] == [[0, 1, 2], [0]]
    ask_engine(OutOfOrder(), batches_of(again), lambda work: None)  # type: ignore[arg-type]
    assert [kept.missing for kept in systems_in(tmp_path)] == [[], []]
