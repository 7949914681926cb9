"""Faults of the machine over all verbs: each ends in one line, and a rerun makes what an undisturbed run has made."""

from __future__ import annotations

import shutil
import signal
import time
from pathlib import Path

import pytest
from works import RUN, VERBS, Started, call_of, changes, in_one_line, products

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("faults")]


def rerun(folder: Path, verb: str, undisturbed) -> None:
    code, printed = Started(call_of(verb), folder).end()
    assert code == 0, printed
    assert products(folder, verb) == undisturbed.products[verb]


@pytest.mark.parametrize("verb", VERBS)
def test_a_signal_loses_nothing(undisturbed, state, verb):
    folder = state(verb)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        shutil.rmtree(folder / RUN / "report", ignore_errors=True)
        before = changes(folder / RUN)
        process = Started(call_of(verb), folder)
        while process.running and changes(folder / RUN) == before:
            time.sleep(0.005)
        process.send(number)
        code, printed = process.end(20)
        assert "Traceback" not in printed, printed
        if number == signal.SIGINT:
            assert code == 130, printed
            assert printed.splitlines()[-1] == "instruct: interrupted; rerun the command to resume"
        else:
            assert code == -number, printed
    rerun(folder, verb, undisturbed)


INPUTS = {
    "rows.jsonl": "train",
    "model/model.safetensors": "train",
    "model/tokenizer.json": "generate",
    "prompts.json": "generate",
    "judges/in_words/judge.yaml": "judge",
}


@pytest.mark.parametrize("name", INPUTS)
def test_a_damaged_input_changes_no_result(undisturbed, state, name):
    verb = INPUTS[name]
    folder = state(verb)
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[: len(content) // 2])
    code, printed = Started(call_of(verb), folder).end()
    in_one_line(code, printed)
    assert code or products(folder, verb) == undisturbed.products[verb], printed
