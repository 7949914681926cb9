"""A run of somebody else: what its config asks for of this machine counts in a call that says so, too."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel

from instruct.base.options import kinds_of, options_in
from instruct.config import ExperimentConfig

RECORDED = Path(__file__).resolve().parents[1] / "recorded_runs"
RUN = Path("runs") / "theirs"
KEY = "sk-private-0123456789"
# The sections that each verb acts on, and what a call of it takes besides the run.
VERBS = {
    "generate": ("model", "data", "answers", "continuations", "evaluation", "cluster"),
    "evaluate": ("model", "data", "answers", "continuations", "evaluation", "cluster"),
    "judge": ("judges", "cluster", "comparisons"),
    "merge": ("model",),
}
NO_FILES = {"name", "adapter"}  # models are data, and what they answer stays in the run
# What an option needs beside it.
BESIDE = {
    "answers.generation.base_url": {"engine": "server"},
    "continuations.generation.base_url": {"engine": "server"},
}
BESIDE |= {
    "evaluation.tasks.base_url": {"engine": "server"},
    "judges.0.replicas": {"base_url": "http://127.0.0.1:9/v1"},
}


def options(model: type[BaseModel], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Each option of a config, and its type."""
    for name, field in model.model_fields.items():
        inner = options_in(field.annotation)
        if inner and name != "systems":
            several = "list" in str(field.annotation)
            yield from options(inner, (*path, name, *(["0"] if several else [])))
        elif not inner:
            yield (*path, name), field.annotation


def asking(file: str, url: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Each option that is an address, a file, a budget or a trust, with such a value."""
    for path, annotation in options(ExperimentConfig):
        name, kinds = path[-1], kinds_of(annotation)
        several = list in kinds
        if name.startswith("trust"):
            yield path, True
        elif "usd" in name:
            yield path, 5.0
        elif name == "address":
            yield path, url.removeprefix("http://").partition("/")[0]
        elif "url" in name or name == "replicas":
            yield path, [url] if several else url
        elif str in kinds and "Literal" not in str(annotation) and name not in NO_FILES:
            yield path, [file] if several else file


@pytest.fixture
def place(tmp_path, monkeypatch) -> Path:
    """A folder with a run of somebody else, and a file of the user's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    for name in ("judges", "model"):
        shutil.copytree(RECORDED / name, name)
    shutil.copytree(RECORDED / "two_judges", RUN)
    rows = [{"instruction": f"Which door is {n}?", "output": "That.", "generator": "us"} for n in range(3)]
    Path("mine.json").write_text(json.dumps(rows))
    return tmp_path


def write_config(path: tuple[str, ...], value: Any) -> None:
    """The run's config with one option that asks for something."""
    systems = {"mle": {"objective": "mle"}, "emo": {"objective": "emo"}}
    config: dict[str, Any] = {"name": "theirs", "model": {"name": "./model", "dtype": "float32"}, "systems": systems}
    config |= {"judges": [{"card": "in_words", "engine": "server"}], "comparisons": [["emo", "baseline"]]}
    config["answers"] = {}
    config["data"] = {"mixture": [{"card": "starter"}]} if "mixture" in path else {}
    config |= {"continuations": {"card": "wikitext2_test"}} if path[0] == "continuations" else {}
    inner: Any = config
    for name in path[:-1]:
        inner = inner[int(name)] if name.isdigit() else inner.setdefault(name, {})
    inner |= {path[-1]: value, **BESIDE.get(".".join(path), {})}
    (RUN / "config.yaml").write_text(yaml.safe_dump(config))


@pytest.mark.parametrize("verb", VERBS)
def test_what_a_run_asks_for_is_refused_by_name(place, fake_server, instruct, verb):
    url, requests = fake_server()
    tried = 0
    for path, value in asking("mine.json", url):
        if path[0] not in VERBS[verb]:
            continue
        write_config(path, value)
        code, out, err = instruct(verb, RUN)
        assert code == 2, (path, out, err)
        key = ".".join(name for name in path if not name.isdigit())
        if "may be another's" in err:
            assert f"its config sets {key} " in err or f", {key} " in err, err
        else:  # refused as no value of this option
            assert path[-1] in err or f"{path[0]}" in err, (path, err)
            assert not re.search(r"url|replicas|address|files|usd|trust", path[-1]), (path, err)
        assert KEY not in out + err
        assert len([line for line in err.splitlines() if line.startswith("instruct: ")]) == 1, err
        tried += 1
    assert tried > (1 if verb == "merge" else 6)
    assert not requests()


def test_files_that_a_run_compares_are_refused(place, fake_server, instruct):
    url, requests = fake_server()
    write_config(("comparisons",), [["emo", "mine.json"]])
    code, _, err = instruct("judge", RUN, "--judge", f"in_words={url}", "--budget-usd", "1")
    assert (code, "mine.json" in err) == (2, True)
    assert not requests()


def test_a_run_of_ones_own_goes_on_without_typing_again(place, fake_server, instruct):
    Path("judges/prices.yaml").write_text("prices: [{model: '*', endpoint: 127.0.0.1, input: 0, output: 0}]")
    url, requests = fake_server()
    config = {
        "name": "own",
        "model": {"name": "served", "dtype": "float32"},
        "systems": {"base": {"objective": "none"}},
        "answers": {"files": ["mine.json"], "generation": {"engine": "server", "base_url": url}},
        "judges": [{"card": "in_words", "base_url": url, "budget_usd": 5.0}],
        "comparisons": [["base", "baseline"]],
    }
    Path("own.yaml").write_text(yaml.safe_dump(config))
    code, _, err = instruct("generate", "own.yaml")
    assert code == 0, err
    answered = len(requests())
    assert answered == 3
    shutil.move("runs/own", "runs/moved")
    code, _, err = instruct("generate", "runs/moved")
    assert code == 0, err
    code, _, err = instruct("judge", "runs/moved")
    assert code == 0, err
    asked = len(requests())
    assert asked > answered
    # Another's config in its place asks again.
    written = yaml.safe_load(Path("runs/moved/config.yaml").read_text())
    written["judges"][0]["base_url"] = f"{url}/theirs"
    Path("runs/moved/config.yaml").write_text(yaml.safe_dump(written))
    for verb in ("generate", "judge"):
        code, _, err = instruct(verb, "runs/moved")
        assert (code, "may be another's" in err) == (2, True), (verb, err)
    assert len(requests()) == asked
