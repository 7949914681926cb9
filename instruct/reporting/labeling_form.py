"""`instruct sample`: pairs drawn for people to label, as one HTML file that works offline."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from instruct.analysis.sequential import random_order
from instruct.base.errors import InputError
from instruct.base.files import write_atomically
from instruct.data.prompts import identity, request_of
from instruct.judging.judge import read_answers
from instruct.judging.presentations import joined
from instruct.reporting.render.html import escaped_json, render
from instruct.run.directory import RunDirectory


def write_form(run: RunDirectory, candidate: str, baseline: str, count: int, path: Path, seed: int = 0) -> int:
    """Write the form for `count` pairs drawn at random; returns how many pairs of the run were drawn.

    The same seed draws the same pairs, and a larger count draws them and more. Systems are not named, and each pair's
    sides are random. Pairs with identical answers need no label: the form exports them as ties.

    Raises:
        InputError: missing answers, different prompts, or a count below 1.
    """
    if count < 1:
        raise InputError(f"-n {count}: must be at least 1")
    ours, theirs = read_answers(run, candidate), read_answers(run, baseline)
    pairs = {
        identity(row): (row, other)
        for row, other in joined(ours, theirs)
        if not (row.get("failed") or other.get("failed"))
    }
    drawn = random_order(pairs, seed)[:count]
    content = {"candidate": ours.name, "baseline": theirs.name, "pairs": [_pair(*pairs[key], seed) for key in drawn]}
    page = render("label.html.jinja", "label.css", "label.js", data=escaped_json(content), count=len(drawn))
    write_atomically(path, page)
    return len(drawn)


def _pair(ours: dict[str, Any], theirs: dict[str, Any], seed: int) -> dict[str, Any]:
    """A pair for the form; `left` says whose answer is on the left."""
    swapped = random.Random(f"side {seed} {identity(ours)}").random() < 0.5
    answers = [ours["output"], theirs["output"]]
    return {
        "id": identity(ours),
        "prompt": request_of(ours),
        "left": "baseline" if swapped else "candidate",
        "answers": answers[::-1] if swapped else answers,
        "identical": answers[0] == answers[1],
    }
