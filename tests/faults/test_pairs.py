"""Two verbs at work on one run, 0.2 s apart: both end well, or one is refused in a line; nothing is lost."""

from __future__ import annotations

import time

import pytest
from works import VERBS, Started, call_of, in_one_line, products

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("faults")]
LABELS = ["validate", "--against", "runs/mine", "--sample", "4"]
CALLS = {verb: call_of(verb) for verb in VERBS} | {"labels": LABELS}
PAIRS = [*((verb, verb) for verb in VERBS), ("judge", "report"), ("judge", "labels")]
# Two of one verb write the same.
HELD = {"train": "is training mle", "generate": "is writing the outputs of mle", "judge": "is judging this run"}


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_two_verbs_at_once_lose_nothing(undisturbed, state, first, second):
    needed = [verb for verb in VERBS if verb in (first, second)] or ["report"]
    for begun in dict.fromkeys([needed[0], needed[-1]]):  # the one makes what the other needs, or has made it
        folder, before = state(begun), len(undisturbed.requests())
        processes = [Started(CALLS[first], folder)]
        time.sleep(0.2)
        processes.append(Started(CALLS[second], folder))
        ends = sorted(process.end() for process in processes)
        for end in ends:
            in_one_line(*end)
        if first == second == begun and begun in HELD:
            assert [code for code, _ in ends] == [0, 2]
            assert f"{HELD[begun]}; wait until it ends, or stop it, and run the command again" in ends[1][1]
        code, printed = Started(["run", "mine.yaml"], folder).end()
        assert code == 0, printed
        for verb in VERBS:
            assert products(folder, verb) == undisturbed.products[verb], verb
        asked = len(undisturbed.requests()) - before
        assert asked == (0 if begun == "report" else undisturbed.asked)
