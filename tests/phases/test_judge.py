"""The judge phase of `instruct run`: a judge that stops keeps neither the others nor the report from their turn."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from instruct.base.errors import InputError, StoppedError
from instruct.config import make_config
from instruct.phases.experiment import run_experiment
from instruct.reporting.report import build_report
from instruct.run.directory import RunDirectory


@pytest.mark.parametrize(("status", "error"), [("400", StoppedError), ("401", InputError)])
def test_a_judge_that_stops_leaves_the_others_and_a_partial_report(
    tiny_experiment, fake_server, short_waits, status, error
):
    (broken, refused), (well, answered) = fake_server({"Question": status}), fake_server()
    baseline = [{"instruction": f"Question {n}?", "output": f"Theirs {n}", "generator": "theirs"} for n in range(64)]
    Path("prompts.json").write_text(json.dumps(baseline))
    judges = [
        {"card": card, "base_url": url, "orders": "one"} for card, url in {"pandalm": broken, "autoj": well}.items()
    ]
    content = {
        "name": "two-judges",
        "model": tiny_experiment["model"],
        "systems": {"base": {"objective": "none"}},
        "answers": {**tiny_experiment["answers"], "files": ["prompts.json"], "limit": None},
        "judges": judges,
        "comparisons": [["base", "prompts.json"]],
    }
    with pytest.raises(error):
        run_experiment(make_config(content, [], "test"))
    assert refused()
    assert len(answered()) == 64
    run = RunDirectory("runs/two-judges")
    assert (run.report / "report.md").is_file()
    report = build_report(run.folder)
    judged = {judge.name: judge.comparisons[0].claim.n for judge in report.judges}
    assert {name: n for name, n in judged.items() if n} == {"autoj": 64}
    assert report.panels == []  # a judge without a verdict is no member of a panel
