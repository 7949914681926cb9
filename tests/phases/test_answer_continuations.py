"""A run that continues prefixes: the command, its plan, what it records, and its refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from instruct.engines.server import ATTEMPTS
from instruct.generation.continuations import read_continuations

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

    assert instruct("generate", "runs/mine")[0] == 0
    assert json.loads(Path("runs/mine/manifest.json").read_text())["steps"] == steps
    assert instruct("generate", "runs/mine", "--continuations.samples", "2")[0] == 0
    assert len(read_continuations(path)) == 4


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
