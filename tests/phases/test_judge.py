"""The judge phase of `instruct run`: a judge that stops keeps neither the others nor the report from their turn."""

from __future__ import annotations

import json
from typing import Any

import pytest

from instruct.base.errors import InputError, StoppedError
from instruct.config import make_config
from instruct.phases.experiment import run_experiment
from instruct.reporting.report import build_report
from instruct.run.directory import RunDirectory


@pytest.fixture
def content(tmp_path, tiny_model_folder, monkeypatch, short_waits):
    monkeypatch.chdir(tmp_path)
    baseline = [{"instruction": f"Question {n}?", "output": f"Theirs {n}", "generator": "theirs"} for n in range(64)]
    (tmp_path / "prompts.json").write_text(json.dumps(baseline))

    def make(*urls: str) -> dict[str, Any]:
        cards = ("pandalm", "autoj")
        return {
            "name": "two-judges",
            "model": {"name": str(tiny_model_folder), "dtype": "float32"},
            "systems": {"base": {"objective": "none"}},
            "answers": {
                "files": ["prompts.json"],
                "template": "chat",
                "generation": {"engine": "transformers", "max_new_tokens": 2},
            },
            "judges": [{"card": c, "base_url": url, "orders": "one"} for c, url in zip(cards, urls, strict=False)],
            "comparisons": [["base", "prompts.json"]],
        }

    return make


@pytest.mark.parametrize(
    ("status", "kind", "message"),
    [("400", StoppedError, "20 requests in a row failed"), ("401", InputError, "check OPENAI_API_KEY")],
)
def test_a_judge_that_stops_leaves_the_others_and_a_partial_report(content, fake_server, status, kind, message):
    (broken, refused), (well, answered) = fake_server({"Question": status}), fake_server()
    with pytest.raises(kind, match=message):
        run_experiment(make_config(content(broken, well), [], "test"))
    assert refused()
    assert len(answered()) == 64
    run = RunDirectory("runs/two-judges")
    assert (run.report / "report.md").is_file()
    report = build_report(run.folder)
    judged = {judge.name: judge.comparisons[0].claim.n for judge in report.judges}
    assert {name: n for name, n in judged.items() if n} == {"autoj": 64}
    assert report.panels == []  # a judge without a verdict is no member of a panel
