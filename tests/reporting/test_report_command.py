"""`instruct report`: imported verdicts, and what reporting a complete run needs."""

from __future__ import annotations

import json
import random
import subprocess
import sys

import pytest

from instruct.base.files import sha256_of, write_atomically
from instruct.base.replies import Completion
from instruct.judging.cards import load_judge_card
from instruct.judging.options import JudgeOptions
from instruct.judging.store import Judgment, JudgmentStore
from instruct.run.directory import RunDirectory

PAIRS = 805


@pytest.fixture
def complete_run(run, tmp_path) -> RunDirectory:
    """A run of 805 pairs compared by two judges, one of them weighted, with every reply stored."""
    rng = random.Random(0)

    def weighted(verdict: str) -> float | None:
        ranges = {"first": (1, 1.49), "second": (1.51, 2), "tie": (1.5, 1.5)}
        return rng.uniform(*ranges[verdict]) if verdict in ranges else None

    prompts = [f"prompt {number} " + "word " * 40 for number in range(PAIRS)]
    for name in ("emo", "mle"):
        rows = [{"dataset": "d", "instruction": p, "output": "answer " * 150, "generator": name} for p in prompts]
        write_atomically(run.outputs / f"{name}.json", json.dumps(rows))
    digests = {name: sha256_of(run.outputs / f"{name}.json") for name in ("emo", "mle")}
    manifest = run.manifest()
    for name, positions in {"pandalm": ("first", "second"), "weighted_alpaca_eval_gpt4_turbo": ("first",)}.items():
        judgments = [
            Judgment(
                name, "emo", "mle", pair, prompt, "d", position, f"{name} {pair} {position}", verdict,
                preference=weighted(verdict) if len(positions) == 1 else None,
            )
            for pair, prompt in enumerate(prompts)
            for position in positions
            for verdict in [rng.choice(["first", "second", "tie", "unparsed"])]
        ]  # fmt: skip
        with JudgmentStore(run.store) as store:
            store.add_replies(name, [(judgment.key, Completion("reply " * 100), 0.0) for judgment in judgments])
            store.add_judgments(judgments)
        judge = JudgeOptions(card=name).made_with()
        manifest["steps"][f"judge/{name}/emo_vs_mle"] = {
            "status": "done",
            "minutes": 1.0,
            "attempts": 1,
            "inputs": {"answers": digests, "judge": judge, "card": load_judge_card(name).sha256()},
            "results": {"asked": len(judgments), "notes": []},
            "comparison": {"judge": name, "candidate": "emo", "baseline": "mle"},
        }
    write_atomically(run.manifest_path, json.dumps(manifest))
    return run


def reported(run, verb, *flags):
    """The heavy packages that a verb imports in a process of its own."""
    heavy = ("torch", "vllm", "transformers", "openai", "httpx", "pandas", "sklearn", "statsmodels")
    code = (
        "import sys\nfrom instruct.command.main import main\n"
        f"code = main()\nprint('loaded:', [name for name in {heavy} if name in sys.modules])\nsys.exit(code)"
    )
    command = [sys.executable, "-c", code, verb, str(run.folder), *flags]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert f"report: {run.report / 'report.md'}" in done.stdout
    assert "Agreement between judges" in done.stdout
    return done.stdout.rsplit("loaded: ", 1)[1].strip()


@pytest.mark.parametrize("verb", [pytest.param("report", marks=pytest.mark.slow), "judge"])
def test_reporting_needs_no_requests_and_no_heavy_packages(complete_run, verb):
    flags = ["--candidate", "emo", "--baseline", "mle"]
    flags += ["--judge", "pandalm", "--judge", "weighted_alpaca_eval_gpt4_turbo"]
    # Nothing that can send a request, and nothing that takes seconds to import.
    assert reported(complete_run, verb, *(flags if verb == "judge" else [])) == "[]"


def annotations(path, annotator="nobody_knows", **changes):
    rows = [
        {
            "instruction": f"secret prompt {number}", "dataset": "d", "annotator": annotator, "preference": preference,
            "output_1": "one", "generator_1": "theirs", "output_2": "two", "generator_2": "ours",
        } | changes
        for number, preference in enumerate([2, 2, 1, 1.5, None, 2])
    ]  # fmt: skip
    write_atomically(path, json.dumps(rows))
    return path


def test_verdicts_of_an_unknown_annotator_give_a_run_and_a_report(instruct, tmp_path):
    file = annotations(tmp_path / "annotations.json")
    code, out, _ = instruct("report", "--annotations", file, "--output", tmp_path / "imported")
    assert code == 0
    report = json.loads((tmp_path / "imported" / "report" / "report.json").read_text())
    (judge,) = report["judges"]
    (comparison,) = judge["comparisons"]
    figures = comparison["policies"]["single"]
    assert (judge["name"], comparison["candidate"], comparison["baseline"]) == ("nobody_knows", "ours", "theirs")
    assert [figures[key] for key in ("win", "tie", "loss", "unparsed", "failed")] == [3, 1, 1, 0, 1]
    assert judge["description"].startswith("known only by its name in the imported file")
    assert "the judge has no card here (unknown judge 'nobody_knows'" in judge["warnings"][0]
    assert comparison["notes"] == [
        "these verdicts were read from a file, not made in this run",
        "the file does not say which answer was shown first: 4 verdicts left out of the figures about positions",
    ]
    assert (comparison["first_position_rate"], comparison["first_position_n"]) == (None, 0)
    assert [system["name"] for system in report["systems"]] == ["ours", "theirs"]
    assert "WARNING: nobody_knows: the judge has no card here" in out
    markdown = (tmp_path / "imported" / "report" / "report.md").read_text()
    assert "base model" not in markdown
    assert instruct("report", tmp_path / "imported")[0] == 0
    assert (tmp_path / "imported" / "report" / "report.md").read_text() == markdown
    assert instruct("report", "--annotations", file, "--output", tmp_path / "imported")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--annotations", "a.json"], "--annotations requires --output DIR"),
        (["runs/x", "--annotations", "a.json", "--output", "o"], "--annotations requires --output DIR"),
        (["--annotations", "a.json", "--output", "o"], "a.json: no such file"),
        (["--output", "o"], "--output requires --annotations"),
        (["--difficulty-prompts", "p.json"], "--difficulty-prompts requires --instruction-difficulty"),
        (["runs/small", "--instruction-difficulty", "d.csv"], "d.csv: no such file"),
    ],
)
def test_a_wrong_call_is_refused_in_one_line(instruct, run, card, write_answers, judge_showings, arguments, message):
    card("j", order_policy="one", leading_policy="single")
    for name in ("emo", "mle"):
        write_answers(name, 1)
    judge_showings({"verdict": "first", "preference": 1.2})
    code, _, stderr = instruct("report", *arguments)
    assert (code, stderr.count("\n")) == (2, 1)
    assert message in stderr
