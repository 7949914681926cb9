"""`instruct validate --against` AlpacaEval's annotations: how well a judge stands in for the one that made them."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import numpy as np
import pytest
from imported import annotation
from json_files import write_json
from scipy import stats

from instruct.judging.asking import Judge
from instruct.judging.options import JudgeOptions
from instruct.judging.work import JudgingMode
from instruct.phases.judge import judge_run
from instruct.run.directory import RunDirectory
from instruct.validation.agreement import measure_agreement
from instruct.validation.judge_labels import load_labels
from instruct.validation.validate import validate
from tests.validation.test_validate import rows_of

MODELS = 7
PROMPTS = 20


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-key")


def annotations(judge: str, model: int, noise: float = 0.0) -> str:
    """A file of verdicts on a model that wins about `model` of 7 prompts; `noise` is the share of random verdicts."""
    draw = random.Random(f"{judge} {model}")
    rows = []
    for prompt in range(PROMPTS):
        wins = random.Random(f"{model} {prompt}").random() < (model + 0.5) / MODELS
        if draw.random() < noise:
            wins = draw.random() < 0.5
        about = {"annotator": judge, "generator_1": "davinci", "generator_2": f"model-{model}"}
        # one answer that every model gives
        about |= {"output_2": "The same." if prompt == 0 else f"Model {model}" + "!" * (prompt % 3 * 20)}
        rows.append(annotation(prompt, 2 if wins else 1, **about))
    return str(write_json(f"{judge}-{model}.json", rows))


def files(judge: str, noise: float = 0.0) -> list[str]:
    return [annotations(judge, model, noise) for model in range(MODELS)]


def preferences(path: str) -> list[int]:
    return [row["preference"] for row in json.loads(Path(path).read_text())]


def test_published_annotations_are_labels_whose_win_rate_is_the_published_one(shared_data):
    folder = shared_data / "alpaca_eval"
    found = load_labels([str(folder / "alpaca-7b.alpaca_eval_gpt4.annotations.json")])
    assert (found.labels_by, found.name, len(found.pairs)) == ("alpaca_eval_gpt4", "alpaca_eval_gpt4-alpaca-7b", 805)
    agreement = measure_agreement(found, {"listed": ["tie"] * 805})
    assert agreement.value("people", "win_rate", "alpaca-7b") == pytest.approx(26.459627, abs=1e-6)
    assert agreement.value("longer", "win_rate", "alpaca-7b") == pytest.approx(47.27, abs=0.01)
    assert agreement.get("longer", "accuracy").details.count == 544
    # Weighted ones keep their grades, and take the baseline from a file.
    path = str(folder / "alpaca-7b.weighted_alpaca_eval_gpt4_turbo.annotations.json")
    found = load_labels([path], str(folder / "reference_gpt4_1106_preview.json"))
    agreement = measure_agreement(found, {"listed": ["tie"] * 805})
    assert agreement.value("people", "win_rate", "alpaca-7b") == pytest.approx(2.591451, abs=1e-6)


def test_a_judge_is_compared_with_the_labels_pair_by_pair_and_in_the_rank_of_the_models(instruct):
    ours, theirs = files("today", noise=0.3), files("gpt4")
    code, out, error = instruct("validate", "--against", *theirs, "--replay", *ours, "--output", "found")
    assert (code, error) == (0, "")
    assert "Judge today vs. the verdicts of gpt4 on gpt4-7-models: 140 pairs, one label each." in out
    assert "people" not in out
    content = json.loads(Path("found", "agreement.json").read_text())
    rates = [[100 * float(np.mean(preferences(path))) - 100 for path in paths] for paths in (theirs, ours)]
    models = [f"model-{n}" for n in range(MODELS)]
    for rater, expected in zip(("people", "listed"), rates, strict=True):
        by_model = rows_of(content, rater, "win_rate")
        assert [by_model[model]["value"] for model in models] == pytest.approx(expected)
    correlations = {
        "spearman": stats.spearmanr(*rates).statistic,
        "kendall": stats.kendalltau(*rates).statistic,
        "mean_difference": np.abs(np.subtract(*rates)).mean(),
    }
    for metric, expected in correlations.items():
        assert rows_of(content, "listed", metric)[""]["value"] == pytest.approx(expected)
    agreed = np.equal([preferences(path) for path in ours], [preferences(path) for path in theirs])
    accuracies = rows_of(content, "listed", "accuracy")
    assert accuracies[""]["details"]["count"] == agreed.sum()
    assert [accuracies[model]["n"] for model in models] == [PROMPTS] * MODELS
    # One prompt of all models is one cluster.
    assert content["instructions"] == PROMPTS


def test_rows_without_a_preference_are_left_out_and_counted(instruct):
    path = annotations("gpt4", 3)
    rows = json.loads(Path(path).read_text())
    write_json("replay.json", [row | {"annotator": "today"} for row in rows[1:]])
    rows[0]["preference"] = None
    write_json(path, rows)
    code, out, _ = instruct("validate", "--against", path, "--replay", "replay.json")
    assert code == 0
    assert "19 pairs, one label each." in out
    assert "Note: left out: 1 row without a preference" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gpt4-1.json", "today-2.json"], "today-2.json: has verdicts of today against davinci, but gpt4-1.json"),
        (["gpt4-1.json", "--judge", "pandalm", "--write-card"], "the labels of gpt4-model-1 are a judge's"),
    ],
)  # fmt: skip
def test_files_that_do_not_belong_together_are_refused(instruct, arguments, message):
    replay = annotations("today", 1)
    annotations("gpt4", 1)
    annotations("today", 2)
    code, _, error = instruct("validate", "--replay", replay, "--against", *arguments)
    assert code == 2
    assert message in " ".join(error.split())


def test_a_runs_labels_by_people_measure_a_judge(fake_server, tmp_path):
    run = RunDirectory(tmp_path / "runs" / "mine")
    run.start({"name": "mine"})
    for name in ("ours", "theirs"):
        rows = [{"instruction": f"Q{n}", "dataset": "d", "output": f"{name} {n}", "generator": name} for n in range(9)]
        write_json(run.outputs / f"{name}.json", rows)
    about = {"candidate": "ours", "baseline": "theirs"}
    said = enumerate(["candidate", "baseline", "tie"] * 3)
    write_json(run.labels, [about | {"instruction": f"Q{n}", "label": label} for n, label in said])
    human = load_labels(["runs/mine"])
    assert (human.name, human.labels_by, human.by_people) == ("mine-labels", "people", True)
    assert [pair.label for pair in human.pairs] == ["first", "second", "tie"] * 3
    assert (human.pairs[1].first, human.pairs[1].second) == ("ours 1", "theirs 1")
    url, requests = fake_server()
    content, line, *_ = validate(JudgeOptions(card="pandalm", base_url=url), "runs/mine")
    assert len(requests()) == 18
    assert content["pairs"] == 9
    assert "Agrees with people on" in line
    assert "measured on 9 pairs only" in line
    # Replies that the run has are not asked for again, whichever side the labels call the candidate.
    options = JudgeOptions(card="pandalm", base_url=url, orders="both")
    assert judge_run(run, [Judge(options)], [("theirs", "ours")], JudgingMode()) is None
    shutil.rmtree("runs/validate-pandalm-mine-labels")
    again = validate(options, "runs/mine")
    assert len(requests()) == 18 + 18  # of judge_run
    assert again.line == line
