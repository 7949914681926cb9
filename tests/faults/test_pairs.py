"""Two verbs at work on one run, 0.2 s apart: both end well, or one is refused in a line; nothing is lost."""

from __future__ import annotations

import itertools
import time

import pytest
from works import VERBS, Started, call_of, in_one_line, products

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("faults")]
CALLS = {verb: call_of(verb) for verb in VERBS} | {
    "doctor": ["doctor", "runs/mine"],
    "repair": ["doctor", "runs/mine", "--repair"],
}
OFTEN = [("train", "train"), ("generate", "generate"), ("evaluate", "evaluate"), ("judge", "judge"),
         ("report", "report"), ("judge", "report"), ("train", "repair")]  # fmt: skip
PAIRS = [
    pytest.param(first, second, id=f"{first}-{second}", marks=[] if (first, second) in OFTEN else pytest.mark.full)
    for first, second in itertools.combinations_with_replacement(CALLS, 2)
]


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_two_verbs_at_once_lose_nothing(undisturbed, state, first, second):
    needed = [verb for verb in VERBS if verb in (first, second)] or ["report"]
    for begun in dict.fromkeys([needed[0], needed[-1]]):  # the one makes what the other needs, or has made it
        folder, before = state(begun), len(undisturbed.requests())
        processes = [Started(CALLS[first], folder)]
        time.sleep(0.2)
        processes.append(Started(CALLS[second], folder))
        for process in processes:
            in_one_line(*process.end())
        code, printed = Started(["run", "mine.yaml"], folder).end()
        assert code == 0, printed
        for verb in VERBS:
            assert products(folder, verb) == undisturbed.products[verb], verb
        asked = len(undisturbed.requests()) - before
        assert asked == (0 if begun == "report" else undisturbed.asked)
