"""`instruct report`: imported verdicts, and what reporting a complete run needs."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from instruct.base.files import sha256_of, write_atomically
from instruct.judging.cards import load_judge_card
from instruct.judging.options import JudgeOptions
from instruct.judging.store import Judgment, JudgmentStore
from instruct.run.directory import RunDirectory

PAIRS = 60


@pytest.fixture
def complete_run(run, write_answers, add_step) -> RunDirectory:
    """A run whose pairs were compared by two judges, one of them weighted."""
    digests = {name: sha256_of(write_answers(name, PAIRS)) for name in ("emo", "mle")}
    for name, positions in {"pandalm": ("first", "second"), "weighted_alpaca_eval_gpt4_turbo": ("first",)}.items():
        judgments = [
            Judgment(
                name, "emo", "mle", pair, f"secret prompt {pair}", "d", position, f"{name} {pair} {position}",
                ("first", "second", "tie")[pair % 3], preference=None if positions[1:] else (1.1, 1.9, 1.5)[pair % 3],
            )
            for pair in range(PAIRS)
            for position in positions
        ]  # fmt: skip
        with JudgmentStore(run.store) as store:
            store.add_judgments(judgments)
        made = {"judge": JudgeOptions(card=name).made_with(), "card": load_judge_card(name).sha256()}
        add_step(f"judge/{name}/emo_vs_mle", inputs={"answers": digests, **made})
    return run


@pytest.mark.parametrize("verb", [pytest.param("report", marks=pytest.mark.slow), "judge"])
def test_reporting_needs_no_requests_and_no_heavy_packages(complete_run, verb):
    """Nothing that can send a request, and nothing that takes seconds to import."""
    flags = ["--candidate", "emo", "--baseline", "mle"]
    flags += ["--judge", "pandalm", "--judge", "weighted_alpaca_eval_gpt4_turbo"]
    heavy = ("torch", "vllm", "transformers", "openai", "httpx", "pandas", "sklearn", "statsmodels")
    code = (
        "import sys\nfrom instruct.command.main import main\n"
        f"code = main()\nprint('loaded:', [name for name in {heavy} if name in sys.modules])\nsys.exit(code)"
    )
    command = [sys.executable, "-c", code, verb, str(complete_run.folder), *(flags if verb == "judge" else [])]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Agreement between judges" in done.stdout
    assert done.stdout.endswith("loaded: []\n")


def test_verdicts_of_an_unknown_annotator_give_a_run_and_a_report(instruct, tmp_path):
    file = tmp_path / "annotations.json"
    rows = [
        {
            "instruction": f"secret prompt {number}", "dataset": "d", "annotator": "nobody_knows",
            "preference": preference, "output_1": "one", "generator_1": "theirs", "output_2": "two",
            "generator_2": "ours",
        }
        for number, preference in enumerate([2, 2, 1, 1.5, None, 2])
    ]  # fmt: skip
    write_atomically(file, json.dumps(rows))
    folder = tmp_path / "imported" / "report"
    code, out, _ = instruct("report", "--annotations", file, "--output", tmp_path / "imported")
    assert code == 0
    (judge,) = json.loads((folder / "report.json").read_text())["judges"]
    (comparison,) = judge["comparisons"]
    counts = comparison["claim"]["counts"]
    assert (judge["name"], comparison["candidate"], comparison["baseline"]) == ("nobody_knows", "ours", "theirs")
    assert [counts[key] for key in ("win", "tie", "loss", "unparsed", "failed")] == [3, 1, 1, 0, 1]
    assert comparison["notes"] == [
        "these verdicts were read from a file, not made in this run",
        "the file does not say which answer was shown first: 4 verdicts left out of the figures about positions",
    ]
    assert (comparison["first_position_rate"], comparison["first_position_n"]) == (None, 0)
    assert "WARNING: nobody_knows: the judge has no card here" in out
    markdown = (folder / "report.md").read_text()
    assert instruct("report", tmp_path / "imported")[0] == 0
    assert (folder / "report.md").read_text() == markdown
    assert instruct("report", "--annotations", file, "--output", tmp_path / "imported")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--annotations", "a.json"], "--annotations requires --output DIR"),
        (["--annotations", "a.json", "--output", "o"], "a.json: no such file"),
        (["--output", "o"], "--output requires --annotations"),
        (["--difficulty-prompts", "p.json"], "--difficulty-prompts requires --instruction-difficulty"),
        (["runs/small", "--instruction-difficulty", "d.csv"], "d.csv: no such file"),
    ],
)
def test_a_wrong_call_is_refused_in_one_line(instruct, judge_run, arguments, message):
    judge_run([{"verdict": "first", "preference": 1.2}])
    code, _, stderr = instruct("report", *arguments)
    assert (code, stderr.count("\n")) == (2, 1)
    assert message in stderr
