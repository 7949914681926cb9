"""What a model thought before its answer is in the file of its answers, and nowhere else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from instruct.base.files import write_atomically
from instruct.config import ExperimentConfig
from instruct.run.directory import RunDirectory

MARKER = "zebra-thought"


def figures(report: Any) -> Any:
    """A report without what names its run: paths, dates and hashes."""
    if isinstance(report, dict):
        left_out = ("run", "sha256", "created", "finished", "started", "minutes", "answers", "folder", "path", "name")
        return {key: figures(value) for key, value in report.items() if key not in left_out}
    return list(map(figures, report)) if isinstance(report, list) else report


@pytest.mark.slow
def test_no_judge_figure_or_file_but_the_answers_has_the_thinking(instruct, make_answers, fake_server, tmp_path: Path):
    url, requests = fake_server()
    reports, asked = [], []
    for name, thought in (("plain", None), ("thinks", f"{MARKER} " * 50)):
        run = RunDirectory(tmp_path / name / "a-run")
        run.start(ExperimentConfig(name="a-run").model_dump(mode="json"))
        for side in ("ours", "theirs"):
            rows = make_answers(side, 64, f"{side} to").rows
            if side == "ours":  # of other lengths than theirs, which length control needs
                more = {"reasoning": thought} if thought else {}
                rows = [{**row, "output": row["output"] * (1 + n % 3), **more} for n, row in enumerate(rows)]
            write_atomically(run.outputs / f"{side}.json", json.dumps(rows))
        before = len(requests())
        of, out = ("--candidate", "ours", "--baseline", "theirs"), tmp_path / name
        calls = [
            ("judge", run.folder, "--judge", "pandalm", "--base-url", url, *of),
            ("report", run.folder),
            ("report", run.folder, "--json"),
            ("validate", "--against", run.folder, "--sample", "9", "--output", out / "sample.csv", *of),
            ("report", run.folder, "--judge", "pandalm", "--export", out / "annotations.json"),
        ]
        printed = []
        for call in calls:
            code, output, error = instruct(*call)
            assert code == 0, (call, error)
            assert MARKER not in output + error, call
            printed.append(output)
        reports.append(figures(json.loads(printed[2])))
        asked.append([json.dumps(request["body"]) for request in requests()[before:]])
    assert reports[0] == reports[1]
    assert '"length": {' in json.dumps(reports[0])  # controlled for, as is the style
    assert sorted(asked[0]) == sorted(asked[1])
    assert asked[0]
    assert MARKER not in "".join(asked[1])
    has_it = {path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file() and MARKER in _text(path)}
    assert has_it == {Path("thinks/a-run/outputs/ours.json")}


def _text(path: Path) -> str:
    return path.read_bytes().decode(errors="replace")
