"""Asking: portions of batches in any order become whole batches, what failed is counted, and nothing is lost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from instruct.asking.ask import FixedBatches, Work, ask_engine
from instruct.asking.kept import KeptReplies
from instruct.base.errors import InputError, StoppedError
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


def batches_of(systems: list[KeptReplies], apart: bool = False) -> FixedBatches:
    return FixedBatches(
        "answers",
        systems,
        lambda kept, places: [Request(kept.request_key(place), "?") for place in places],
        apart,
    )


def systems_in(folder: Path) -> list[KeptReplies]:
    systems = [KeptReplies(folder, name, "f", [[name, place] for place in range(7)], 3) for name in ("a", "b")]
    for kept in systems:
        kept.start("e")
    return systems


def test_portions_in_any_order_become_whole_batches(tmp_path):
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


@pytest.mark.parametrize("apart", [True, False])
def test_a_refused_prompt_is_kept_as_failed_and_asked_again_at_most_twice(tmp_path, apart):
    def ask(engine: OutOfOrder) -> None:
        ask_engine(engine, batches_of(systems_in(tmp_path), apart), lambda work: None)  # type: ignore[arg-type]

    ask(OutOfOrder("b/0"))
    for _ in range(2):
        first, second = systems_in(tmp_path)
        assert (first.missing, second.missing, second.without_reply(0)) == ([], [0], [0])
        assert next(second.replies()) == Failure("HTTP 400")
        assert [isinstance(reply, Completion) for reply in second.replies()] == [False] + [True] * 6
        ask(OutOfOrder("b/0"))
    _, second = systems_in(tmp_path)
    assert (second.missing, next(second.replies())) == ([], Failure("HTTP 400", permanent=True))


def test_a_failed_prompt_that_is_answered_later_has_the_answer(tmp_path):
    for engine in (OutOfOrder("b/0"), OutOfOrder()):
        ask_engine(engine, batches_of(systems_in(tmp_path), True), lambda work: None)  # type: ignore[arg-type]
    _, second = systems_in(tmp_path)
    assert (second.missing, next(second.replies())) == ([], Completion("to b/0"))


class Breaks(OutOfOrder):
    """Ends the work after some portions, as a server whose requests fail one after another."""

    def complete_batches(self, batches: Iterable[Iterable[Request]]) -> Iterator[Portion]:
        self.asked: list[str] = []
        for number, batch in enumerate(batches):
            for request in batch:
                self.asked.append(request.key)
                yield Portion(number, [(request, self.reply(request))], 0.5)
                if request.key == self.refuses:
                    raise StoppedError("broken")


@pytest.mark.parametrize(("apart", "again"), [(True, 10), (False, 11)])
def test_what_a_server_replied_before_the_work_ended_is_not_asked_again(tmp_path, apart, again):
    with pytest.raises(StoppedError):
        ask_engine(Breaks("a/4"), batches_of(systems_in(tmp_path), apart), lambda work: None)  # type: ignore[arg-type]
    engine = Breaks()
    ask_engine(engine, batches_of(systems_in(tmp_path), apart), lambda work: None)  # type: ignore[arg-type]
    # The failed request is asked again, and what a batch has in common with it only where it is computed as a whole.
    assert len(engine.asked) == again
    assert engine.asked[0] == ("a/4" if apart else "a/3")


def test_two_that_keep_the_same_batches_mix_nothing_up(tmp_path):
    one, other = (KeptReplies(tmp_path, "a", "f", ["p", "q", "r"], 2) for _ in range(2))
    for kept in (one, other):
        kept.start("e")
    for number in (0, 1):
        for kept in (one, other):
            replies = [Completion(f"to {place}") for place in kept.places(number)]
            kept.keep(number, replies, 0.5)
    again = KeptReplies(tmp_path, "a", "f", ["p", "q", "r"], 2)
    for kept in (one, other, again):
        assert [reply.text for reply in kept.replies()] == ["to 0", "to 1", "to 2"]  # type: ignore[union-attr]
    # A batch of other prompts is not taken for theirs, even under the same fingerprint.
    with pytest.raises(InputError, match="replies of a finished batch are missing"):
        list(KeptReplies(tmp_path, "a", "f", ["p", "other", "r"], 2).replies())
