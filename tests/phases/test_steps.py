"""A run continued with a changed config: what a finished step was made with cannot change, the rest can."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from instruct.base.errors import InputError, InputErrors
from instruct.config import ExperimentConfig, make_config
from instruct.phases.experiment import steps_of
from instruct.phases.steps import changed_options, check_steps, start_or_continue
from instruct.run.directory import RunDirectory

BASE: dict[str, Any] = {
    "name": "one",
    "data": {"card": "starter", "limit": 3, "eval_files": ["a.jsonl"]},
    "lora": {"r": 8},
    "model": {"dtype": "bfloat16"},
    "systems": {"emo": {"objective": "emo"}, "mle": {"objective": "mle"}},
    "answers": {"limit": 5},
    "judges": [{"card": "autoj", "base_url": "http://127.0.0.1:8000/v1"}],
    "comparisons": [["emo", "mle"]],
}


def config(**changes: Any) -> ExperimentConfig:
    return make_config({**BASE, **changes}, [], "test")


def start(run: RunDirectory, changed: ExperimentConfig, redo: Collection[str] = ()) -> None:
    start_or_continue(run, changed.model_dump(mode="json"), steps_of(changed), redo)


@pytest.fixture
def run(tmp_path) -> RunDirectory:
    run = RunDirectory(tmp_path / "runs" / "one")
    start(run, config())
    return run


def finish(run: RunDirectory, *steps: str, **sections: Any) -> None:
    """Record steps as done with the options of a config."""
    for step in steps:
        about = {}
        if step.startswith("judge/"):
            about = {"comparison": {"judge": "autoj", "candidate": "emo", "baseline": "mle"}}
        run.record(step, {"status": "started", "inputs": {}, **about})
        asked = [made_with for each in steps_of(config(**sections)) for made_with in each.inputs(run)]
        inputs = dict(asked).get(step, {})
        with run.step(step, inputs, **about):
            pass


@pytest.mark.parametrize(
    ("finished", "changes", "said"),
    [
        ("train/emo", {"data": {**BASE["data"], "limit": None}}, "data.limit was 3 and is not set now, but train/emo"),
        (
            "train/emo",
            {"systems": {"emo": {"objective": "emo", "transport_cost": "t"}, "mle": {"objective": "mle"}}},
            'systems.emo.transport_cost was "fixed" and is "t" now, but train/emo is finished',
        ),
        ("answers", {"answers": {"limit": 6}}, "answers.limit was 5 and is 6 now, but answers is finished"),
        (
            "judge/autoj/emo_vs_mle",
            {"judges": [{"card": "autoj", "base_url": "http://127.0.0.1:9000/v1"}]},
            'judges (autoj).base_url was "http://127.0.0.1:8000/v1" and is "http://127.0.0.1:9000/v1" now, but '
            "judge/autoj/emo_vs_mle is finished",
        ),
    ],
)
def test_a_key_of_a_finished_step_is_refused_with_both_values_and_the_remedy(run, finished, changes, said):
    finish(run, finished)
    before = (run.folder / "config.yaml").read_text()
    with pytest.raises(InputError) as caught:
        start(run, config(**changes))
    assert str(caught.value).startswith(f"{run.folder / 'config.yaml'}: {said}")
    again = f"`redo` {finished.partition('/')[0]}"
    remedy = f"choose another `name`, restore the value, or replace what was made with {again}"
    assert str(caught.value).endswith(remedy)
    assert (run.folder / "config.yaml").read_text() == before


@pytest.mark.parametrize(
    ("finished", "changes"),
    [
        ("train/mle", {"systems": {"emo": {"objective": "emo", "transport_cost": "t"}, "mle": {"objective": "mle"}}}),
        ("train/emo", {"train": {"logging_steps": 1, "report_to": "none", "save_total_limit": 2}}),
        ("answers", {"answers": {"limit": 5, "generation": {"gpu_memory_utilization": 0.5}}}),
        ("judge/autoj/emo_vs_mle", {"judges": [{**BASE["judges"][0], "budget_usd": 5.0, "concurrency": 4}]}),
    ],
)
def test_other_changes_are_adopted_and_reported(run, finished, changes, printed):
    finish(run, finished)
    changed = config(**changes)
    reported = [f"changed   {words}" for words in changed_options(run.config(), changed.model_dump(mode="json"))]
    assert reported
    start(run, changed)
    assert run.config() == changed.model_dump(mode="json")
    assert printed.readouterr().out.splitlines() == reported
    start(run, changed)
    assert printed.readouterr().out == ""


@pytest.mark.parametrize("step", ["train/emo", "train"])
def test_a_finished_step_that_is_named_is_made_again(run, step, printed):
    finish(run, "train/emo", "train/mle")
    changed = config(systems={"emo": {"objective": "emo", "transport_cost": "t"}, "mle": {"objective": "mle"}})
    with pytest.raises(InputError, match=r"has no step judge to make again; its steps: train$"):
        start(run, config(), ["judge"])
    start(run, changed, [step])
    assert "redo      train/emo: took 0 min" in printed.readouterr().out
    assert not run.is_done("train/emo", run.manifest()["steps"]["train/emo"]["inputs"])
    kept = run.manifest()["steps"]["train/mle"]
    assert run.is_done("train/mle", kept["inputs"]) == (step == "train/emo")


def test_metrics_of_texts_are_measured_again_but_controls_stay(tmp_path):
    run = RunDirectory(tmp_path / "runs" / "one")
    texts = {"held_out": {"files": ["a.txt"]}, "max_length": 64}
    start(run, config(evaluation={"texts": texts}))
    finish(run, "evaluate/perplexity/emo", "evaluate/matched/mle", "evaluate/tasks/trec/emo")
    for change in ({"held_out": {"files": ["b.txt"]}}, {"max_length": 128, "metrics": ["mauve"]}):
        changed = config(evaluation={"texts": texts | change})
        start(run, changed)
        assert run.config() == changed.model_dump(mode="json")
    steps = steps_of(config(evaluation={"texts": {"matched_temperature": False}}))
    with pytest.raises(InputError, match=r"matched_temperature: is false, but evaluate/matched/mle is finished"):
        check_steps(steps, run, ["evaluate"])


def test_every_change_that_is_refused_is_listed(run):
    finish(run, "train/emo", "answers")
    with pytest.raises(InputErrors) as caught:
        start(run, config(lora={"r": 16}, answers={"limit": 6}, comparisons=[]))
    assert len(caught.value.problems) == 2
