"""`instruct report`: imported verdicts, and what reporting a complete run needs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from pages import LOSS, TIE, WIN

from instruct.base.files import sha256_of, write_atomically
from instruct.judging.cards import load_judge_card
from instruct.judging.options import JudgeOptions
from instruct.run.directory import RunDirectory

pytestmark = pytest.mark.usefixtures("without_figures")

PAIRS = 60


@pytest.fixture
def complete_run(run, write_answers, judge_pairs, judge_showings, add_step) -> RunDirectory:
    """A run whose pairs were compared by two judges, one of them weighted."""
    digests = {name: sha256_of(write_answers(name, PAIRS)) for name in ("emo", "mle")}
    judge_pairs([WIN, LOSS, TIE] * (PAIRS // 3), judge="pandalm")
    judge_showings(*[{"verdict": "first", "preference": 1.1}] * PAIRS, judge="weighted_alpaca_eval_gpt4_turbo")
    for name in ("pandalm", "weighted_alpaca_eval_gpt4_turbo"):
        made = {"judge": JudgeOptions(card=name).made_with(), "card": load_judge_card(name).sha256()}
        add_step(f"judge/{name}/emo_vs_mle", inputs={"answers": digests, **made})
    return run


def test_reporting_needs_no_requests_and_no_heavy_packages(complete_run):
    """Nothing that can send a request, and nothing that takes seconds to import."""
    flags = ["--candidate", "emo", "--baseline", "mle"]
    flags += ["--judge", "pandalm", "--judge", "weighted_alpaca_eval_gpt4_turbo"]
    heavy = ("torch", "vllm", "transformers", "openai", "httpx", "pandas", "sklearn", "statsmodels")
    code = (
        "import sys\nfrom instruct.command.main import main\n"
        f"code = main()\nprint('loaded:', [name for name in {heavy} if name in sys.modules])\nsys.exit(code)"
    )
    command = [sys.executable, "-c", code, "judge", str(complete_run.folder), *flags]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Agreement between judges" in done.stdout
    assert done.stdout.endswith("loaded: []\n")


@pytest.fixture
def annotations(tmp_path) -> Path:
    """Verdicts in a file without answers: three wins, a tie, a loss, and one that failed."""
    rows = [
        {
            "instruction": f"p {number}", "annotator": "nobody_knows", "preference": preference,
            "generator_1": "theirs", "generator_2": "ours",
        }
        for number, preference in enumerate([2, 2, 1, 1.5, None, 2])
    ]  # fmt: skip
    write_atomically(tmp_path / "annotations.json", json.dumps(rows))
    return tmp_path / "annotations.json"


def write_side(folder: Path, name: str, output: str, **more: str) -> Path:
    """The answers of a system to the prompts of `annotations`."""
    rows = [{"dataset": "d", "instruction": f"p {number}", "output": output, "generator": "x"} for number in range(6)]
    write_atomically(folder / f"{name}.json", json.dumps([row | more for row in rows]))
    return folder / f"{name}.json"


def test_answers_beside_verdicts_give_lengths_and_clusters(instruct, annotations, tmp_path):
    sides = [write_side(tmp_path, *side, doc="one") for side in (("ours", "fives"), ("theirs", "two"))]
    flags = ["--cluster-column", "doc", "--outputs", sides[0], "--reference", sides[1], "--output", tmp_path / "run"]
    code, _, stderr = instruct("report", "--annotations", annotations, *flags)
    assert (code, stderr) == (0, "")
    report = json.loads((tmp_path / "run" / "report" / "report.json").read_text())
    assert {system["name"]: system["mean_characters"] for system in report["systems"]} == {"ours": 5, "theirs": 3}
    assert report["judges"][0]["comparisons"][0]["claim"]["params"]["clusters"] == 1


def test_answers_other_than_those_that_were_judged_are_refused(instruct, annotations, tmp_path):
    rows = [row | {"output_2": "judged"} for row in json.loads(annotations.read_text())]
    write_atomically(annotations, json.dumps(rows))
    outputs = write_side(tmp_path, "ours", "another")
    code, _, stderr = instruct(
        "report", "--annotations", annotations, "--outputs", outputs, "--output", tmp_path / "run"
    )
    assert (code, stderr.count("\n")) == (2, 1)
    assert "output_2: the answer to 'p 0' differs from the one in" in stderr
