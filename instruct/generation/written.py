"""A system's replies as they are written, the files that they are written to, and what a run records about them."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from instruct.base.files import write_atomically
from instruct.base.output import warn
from instruct.base.replies import Failure, Reply
from instruct.generation.kept import KeptReplies

# Why a prompt has no answer although the model replied.
CUT_IN_THINKING = "cut off while thinking"


@dataclass(frozen=True)
class ReplyStats:
    """What a system wrote: answers, or continuations.

    Attributes:
        n: how many prompts, or prefixes.
        failed: how many of them have no reply, by the reason.
        again: of those, how many a rerun asks again.
        empty: replies without a character that is not white space.
        truncated: replies that were cut at their length limit.
        mean_tokens: without end tokens and thinking; None if a server did not count those of every reply.
        mean_thinking_tokens: of all replies, with the marks around it; None if none of them thought.
        weights: "checked": those that answered are those that were trained; "not checked: " and why; None: not trained.
        engine: its name, version and device.
        minutes: that the replies took, over all calls that asked for them, without the engine's start.
        changes: how many replies were asked for otherwise than configured, because the server demands it, by how.
        others: how many replies are of another model, as the server says, by its name.
    """

    n: int
    failed: dict[str, int]
    again: int
    empty: int
    truncated: int
    mean_tokens: float | None
    engine: str
    minutes: float
    mean_thinking_tokens: float | None = None
    weights: str | None = None
    changes: dict[str, int] = field(default_factory=dict)
    others: dict[str, int] = field(default_factory=dict)

    def record(self) -> dict[str, Any]:
        """What a run's step records; what did not happen is left out."""
        may_be_missing = ("failed", "again", "mean_thinking_tokens", "weights", "changes", "others")
        return {name: value for name, value in vars(self).items() if value or name not in may_be_missing}


def written(kept: KeptReplies, to_the_letter: bool) -> Iterator[Reply]:
    """A system's replies as they are written, in the order of the prompts, read a few at a time.

    White space around them stays if they are to the letter. The end token is not counted; whatever else ended a reply
    than its limit is called `stop`. A reply that reached its limit while the model was thinking is a failure.
    """
    for reply in kept.replies():
        if isinstance(reply, Failure):
            yield reply
            continue
        if reply.cut_in_thinking:
            yield Failure(CUT_IN_THINKING, permanent=True)
            continue
        tokens = reply.completion_tokens
        yield replace(
            reply,
            text=reply.text if to_the_letter else reply.text.strip(),
            completion_tokens=None if tokens is None else tokens - (reply.finish_reason == "stop"),
            finish_reason="length" if reply.finish_reason == "length" else "stop",
        )


def reply_stats(base: str, *turns: KeptReplies) -> ReplyStats:
    """The sums over a finished system's replies to each turn, in one pass; `base`: the model's name."""
    replies = empty = truncated = counted = tokens = thought = again = 0
    failed: Counter[str] = Counter()
    changes: Counter[str] = Counter()
    others: Counter[str] = Counter()
    for reply in itertools.chain.from_iterable(written(kept, to_the_letter=True) for kept in turns):
        if isinstance(reply, Failure):
            failed[reply.reason] += 1
            again += not reply.permanent
            continue
        replies += 1
        changes.update(filter(None, [reply.changes]))
        others.update(filter(None, {reply.model} - {base, turns[0].system}))
        empty += not reply.text.strip()
        truncated += reply.finish_reason == "length"
        if reply.completion_tokens is not None and (reply.reasoning is None or reply.reasoning_tokens is not None):
            counted += 1
            thought += reply.reasoning_tokens or 0
            tokens += reply.completion_tokens - (reply.reasoning_tokens or 0)
    known = replies > 0 and counted == replies
    n = replies + failed.total()
    return ReplyStats(
        n,
        dict(failed),
        again,
        empty,
        truncated,
        tokens / replies if known else None,
        turns[0].engine,
        math.fsum(kept.work.seconds for kept in turns) / 60,
        thought / replies if known and thought else None,
        turns[0].work.weights,
        dict(changes),
        dict(others),
    )


def warn_of_failures(system: str, stats: ReplyStats, reply: str) -> None:
    """Say how many requests have no reply, why, and what a rerun does."""
    if not stats.failed:
        return
    reasons = ", ".join(f"{count} {reason}" for reason, count in stats.failed.items())
    rest = f"a rerun asks {stats.again} of them again" if stats.again else "a rerun does not ask them again"
    warn(
        f"{system}: no {reply} to {sum(stats.failed.values())} of {stats.n} requests ({reasons}); {rest}, "
        "`retry_failed` asks all"
    )


def write_rows(path: Path, rows: Iterable[dict[str, Any]], indent: int) -> None:
    """Write a file of rows, unless it already holds them: then its time of change stays."""
    text = json.dumps(list(rows), ensure_ascii=False, indent=indent) + "\n"
    if not path.is_file() or path.read_bytes() != text.encode():
        write_atomically(path, text)
