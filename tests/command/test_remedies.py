"""An error names the key of an option; the command shows the flag that its verb has for it.

The fixture `remedies` of tests/conftest.py looks at each error of every test.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from instruct.base.errors import InputError
from instruct.command.main import make_parser, verbs_of, with_flags
from instruct.config import load_config
from instruct.phases.experiment import run_phases
from instruct.phases.judge import compare_answers


def test_a_key_is_shown_as_the_flag_of_the_verb_that_takes_it():
    verbs = verbs_of(make_parser())
    for name, verb in verbs.items():
        for action in verb._actions:
            if action.option_strings:
                assert with_flags(f"set `{action.dest}`", name, verbs) == f"set {action.option_strings[0]}"
    assert with_flags("set `base_url`", "run", verbs) == "set `base_url`"  # a key of the config
    assert with_flags("name it with `instruct report` (`annotations`)", "judge", verbs).endswith("(--annotations)")
    assert with_flags('drop `trim`; one reply: "`trim`"', "judge", verbs) == 'drop --trim; one reply: "`trim`"'
    assert with_flags("`instruct list data` has no `output`", "train", verbs) == "`instruct list data` has no `output`"


ONE, TWO = "a.json", "b.json"
ANSWERS = f"--candidate {ONE} --baseline {TWO} --output run"
# What is raised through Python, and the same call of the command.
ERRORS: list[tuple[Callable[[], object], str]] = [
    (lambda: compare_answers(ONE, TWO, "mt_bench", "run"), f"judge --judge mt_bench {ANSWERS}"),
    (
        lambda: run_phases(load_config("demo"), True, first="judge", last="answer"),
        "run demo --from judge --until answer",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("raising", "call"), ERRORS, ids=[call for _, call in ERRORS])
def test_an_error_names_keys_in_python_and_flags_in_the_command(instruct, tmp_path, monkeypatch, raising, call):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    for name in (ONE, TWO):
        Path(name).write_text(json.dumps([{"instruction": "Q?", "output": name}]))
    with pytest.raises(InputError) as caught:
        raising()
    assert "--" not in str(caught.value)
    verb = call.split()[0]
    code, _, stderr = instruct(*call.split())
    assert (code, stderr) == (2, f"instruct: {with_flags(str(caught.value), verb, verbs_of(make_parser()))}\n")
    assert "--" in stderr
