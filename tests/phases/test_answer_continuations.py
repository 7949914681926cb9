"""A run that continues prefixes: the command, its plan, what it records, and its refusals."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from instruct.base.errors import InputError
from instruct.config import load_config
from instruct.engines.server import ATTEMPTS
from instruct.generation.continuations import continue_texts, read_continuations

LINES = [
    "It was a dark and stormy night.",
    "",
    "Call me Ishmael.",
    "It was a dark and quiet morning.",
]


@pytest.fixture
def experiment(tiny_experiment: dict[str, Any]) -> dict[str, Any]:
    Path("texts.txt").write_text("\n".join(LINES) + "\n")
    for key in ("answers", "judges", "comparisons", "lora", "train"):
        del tiny_experiment[key]
    return tiny_experiment | {
        "systems": {"base": {"objective": "none"}},
        "continuations": {
            "files": ["texts.txt"],
            "prefix": "4 words",
            "continuation": "3 words",
            "min_words": 6,
            "generation": {"engine": "transformers"},
        },
    }


def write(content: dict[str, Any]) -> str:
    Path("mine.yaml").write_text(yaml.safe_dump(content))
    return "mine.yaml"


def test_generate_continues_prefixes_instead_of_answering_and_resumes(experiment, instruct) -> None:
    code, out, err = instruct("generate", write(experiment))
    path = Path("runs/mine/continuations/base.json")
    assert (code, out) == (0, f"base: {path}\n"), err
    rows = read_continuations(path)
    assert [(row.id, row.prefix, row.reference) for row in rows] == [
        ("texts.txt:1", "It was a dark", " and stormy night."),
        ("texts.txt:4", "It was a dark", " and quiet morning."),
    ]
    assert all(row.tokens == 3 for row in rows)
    assert not Path("runs/mine/outputs").exists()
    steps = json.loads(Path("runs/mine/manifest.json").read_text())["steps"]
    assert list(steps) == ["continuations/base"]
    step = steps["continuations/base"]
    assert step["config"]["counts"] == {"read": 4, "blank": 1, "too few words": 1, "kept": 2}
    assert step["config"]["cut"]["prefix"] == "4 words"
    assert (step["results"]["n"], step["results"]["empty"], step["results"]["temperature"]) == (2, 0, 1.0)

    started = step["started"], path.stat().st_mtime_ns
    assert instruct("generate", "runs/mine")[0] == 0
    step = json.loads(Path("runs/mine/manifest.json").read_text())["steps"]["continuations/base"]
    assert (step["started"], path.stat().st_mtime_ns) == started
    assert instruct("generate", "runs/mine", "--continuations.samples", "2")[0] == 0
    assert len(read_continuations(path)) == 4


def test_minutes_of_systems_that_are_continued_together_count_once(experiment, instruct, monkeypatch) -> None:
    clock = SimpleNamespace(monotonic=lambda: now[0], process_time=lambda: now[0])
    now = [0.0]
    monkeypatch.setattr("instruct.run.directory.time", clock)
    asked = continue_texts

    def slowly(*arguments: Any) -> Any:
        now[0] += 120
        return asked(*arguments)

    monkeypatch.setattr("instruct.phases.answer.continue_texts", slowly)
    experiment["systems"]["again"] = {"objective": "none"}
    assert instruct("generate", write(experiment))[0] == 0
    steps = json.loads(Path("runs/mine/manifest.json").read_text())["steps"]
    assert [(name, step["minutes"], step["cpu_minutes"]) for name, step in steps.items()] == [
        ("continuations/again", 2, 2), ("continuations/base", 0, 0),
    ]  # fmt: skip
    assert [step["results"]["n"] for step in steps.values()] == [2, 2]


def test_a_run_may_answer_and_continue(experiment, instruct) -> None:
    experiment["answers"] = {"limit": 1, "generation": {"engine": "transformers", "max_new_tokens": 2}}
    code, out, err = instruct("run", write(experiment), "--until", "answer")
    assert code == 0, err
    assert "answer    starter_eval: 1 prompt, at most 2 tokens each" in out
    assert (
        "continue  texts.txt: 2 prefixes of 4 words from 4 rows (1 blank, 1 too few words left out), 1 continuation of "
        "3 tokens each" in out
    )
    assert Path("runs/mine/outputs/base.json").is_file()
    assert Path("runs/mine/continuations/base.json").is_file()


def test_a_config_without_answers_has_none_when_it_is_read_again(experiment) -> None:
    config = load_config(write(experiment))
    assert config.answers is None
    assert load_config(write(config.model_dump(mode="json"))) == config
    with pytest.raises(InputError, match="judges compare answers, and there are none; add answers or remove judges"):
        load_config(write(experiment | {"judges": ["autoj"]}))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"files": None}, "names no corpus; set card (see `instruct list data`) or files"),
        ({"min_words": 60}, "no text is left to cut of 4 rows (1 blank, 3 shorter than 60 words)"),
        ({"continuation": None}, "has no length; set continuations.continuation, such as 80 words"),
        ({"generation": {"engine": "transformers", "max_new_tokens": 9000}}, "hold prefix and continuation"),
    ],
)
def test_a_wrong_corpus_is_refused_in_one_line(experiment, instruct, changes: dict[str, Any], message: str) -> None:
    experiment["continuations"] |= changes
    code, _, err = instruct("generate", write(experiment))
    assert code == 2
    assert message in err
    assert err.strip().splitlines()[-1].startswith("instruct: ")
    assert "Traceback" not in err


def test_failed_continuations_are_asked_again_and_refused_ones_on_demand(
    experiment, fake_server, instruct, short_waits
) -> None:
    lines = ["One fish lay in the blue sea.", "Two birds sat on the old roof.", "Three cats ran over the wet road."]
    Path("texts.txt").write_text("\n".join(lines) + "\n")
    url, requests = fake_server({"One fish": "400", "Two birds": ["500"] * ATTEMPTS})
    generation = {"engine": "server", "base_url": url}
    file = write(experiment | {"continuations": {**experiment["continuations"], "generation": generation}})

    def asked(*flags: str) -> int:
        before = len(requests())
        code, _, err = instruct("generate", file, *flags)
        assert "base did not continue all prefixes; what was continued is kept" in " ".join(err.split())
        assert code != 0
        return len(requests()) - before

    assert [asked(), asked(), asked(), asked("--retry-failed")] == [2 + ATTEMPTS, 1, 0, 1]
