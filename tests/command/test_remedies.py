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
from instruct.config import load_config, make_config
from instruct.judging.options import JudgeOptions
from instruct.phases.experiment import run_phases
from instruct.phases.judge import compare_answers
from instruct.validation.validate import validate

JUDGES = {
    "name": "it",
    "answers": {"files": ["p.jsonl"]},
    "judges": ["smollm2_score", {"card": "autoj", "trim": True}],
    "systems": {"mle": {"objective": "mle"}},
}


def test_a_flag_sets_a_key_of_one_of_several_judges():
    flags = ["--judges.1.base_url", "http://here/v1", "--judges.0.concurrency", "3"]
    config = make_config(JUDGES, flags, "x")
    assert [(judge.card, judge.base_url, judge.concurrency) for judge in config.judges] == [
        ("smollm2_score", None, 3),
        ("autoj", "http://here/v1", 64),
    ]
    assert config.judges[1].trim
    with pytest.raises(InputError, match=r"the key 'judges.2.card' is missing"):
        make_config(JUDGES, ["--judges.7.base_url", "http://here/v1"], "x")


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
        lambda: compare_answers(ONE, TWO, "smollm2_score", base_url="http://h/v1", engine="transformers"),
        f"judge --judge smollm2_score --base-url http://h/v1 --engine transformers {ANSWERS}",
    ),
    (lambda: validate(JudgeOptions(card="autoj", model="m"), "pandalm", write_card=True),
     "validate --judge autoj --judge-model m --against pandalm --write-card"),
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


@pytest.mark.parametrize("section", ["data", "answers"])
def test_a_data_set_that_is_out_of_reach_names_the_key_for_files(section, monkeypatch):
    import huggingface_hub

    from instruct.data.cards import load_dataset_card
    from instruct.data.evaluation import load_eval_set
    from instruct.data.rows import RowReader

    def offline(*_, **__):
        raise OSError("offline mode is enabled")

    monkeypatch.setattr("instruct.data.sources.use_cache_if_unreachable", lambda: None)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", offline)
    monkeypatch.setattr("datasets.load_dataset", offline)
    rows = RowReader(load_dataset_card("alpaca_gpt4")).raw_rows()
    with pytest.raises(InputError, match=rf"in place of the data set \({section}\.files\)"):
        next(rows) if section == "data" else load_eval_set("alpaca_eval")
