"""docs/judges.md: each card that the page shows is a judge."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parent.parent / "docs" / "judges.md"
FENCE = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


CARDS = [path for _, path, _ in FENCE.findall(PAGE.read_text(encoding="utf-8")) if path.endswith("judge.yaml")]


@pytest.mark.parametrize("name", [Path(path).parent.name for path in CARDS])
def test_every_card_of_the_page_judges_as_printed(
    instruct, shared_fake_server, reward_model, tmp_path, monkeypatch, name
):
    monkeypatch.chdir(tmp_path)
    for _, path, text in FENCE.findall(PAGE.read_text(encoding="utf-8")):
        if path:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).write_text(text, encoding="utf-8")
    shutil.copytree(reward_model, "runs/my_reward_model")
    for system in ("ours", "theirs"):
        rows = [{"instruction": f"Q{n}?", "output": f"{system} says {n}", "generator": system} for n in range(4)]
        Path(f"{system}.json").write_text(json.dumps(rows))
    url, _ = shared_fake_server()
    asked = ["--engine", "transformers"] if name == "scorer" else ["--base-url", url]
    files = ["--candidate", "ours.json", "--baseline", "theirs.json", "--output", "runs/x"]
    code, _, error = instruct("judge", "--judge", name, *asked, *files)
    assert code == 0, error
    (comparison,) = json.loads(Path("runs/x/report/report.json").read_text())["judges"][0]["comparisons"]
    assert (comparison["pairs_judged"], comparison["reasons"]) == (4, [])
