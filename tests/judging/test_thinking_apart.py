"""What a model thought before its answer is in the file of its answers, and nowhere else."""

from __future__ import annotations

import json
from pathlib import Path

MARKER = "zebra-thought"


def test_no_judge_figure_or_file_but_the_answers_has_the_thinking(instruct, make_run, fake_server, tmp_path: Path):
    url, requests = fake_server()
    run = make_run(tmp_path / "a-run", 20, reasoning=MARKER)
    of = ("--candidate", "ours", "--baseline", "theirs")
    for call in [
        ("judge", run.folder, "--judge", "pandalm", "--base-url", url, *of),
        ("validate", "--against", run.folder, "--sample", "9", "--output", tmp_path / "sample.csv", *of),
        ("report", run.folder, "--judge", "pandalm", "--export", tmp_path / "annotations.json"),
    ]:
        code, output, error = instruct(*call)
        assert code == 0, (call, error)
        assert MARKER not in output + error, call
    assert len(requests()) == 40
    answers = {run.outputs / "ours.json", run.outputs / "theirs.json"}
    for path in {*filter(Path.is_file, tmp_path.rglob("*"))} - answers - {*tmp_path.glob("requests*")}:
        assert MARKER.encode() not in path.read_bytes(), path
    assert MARKER not in json.dumps(requests())
