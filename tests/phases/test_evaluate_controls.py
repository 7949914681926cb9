"""The matched-temperature control: MLE at the temperature that has another system's entropy."""

from __future__ import annotations

from pathlib import Path

import pytest

from instruct.config import ExperimentConfig, make_config
from instruct.engines.forward import open_model
from instruct.generation.continuations import read_continuations
from instruct.measuring.human_text import Matched
from instruct.measuring.predictions import TOLERANCE, Reading, mean_entropies
from instruct.phases.evaluate import controls_of, match_temperatures, predictors
from instruct.run.consent import agree
from instruct.run.directory import RunDirectory
from instruct.run.measurements import read_metrics
from instruct.training.options import SystemOptions, control_name


@pytest.fixture
def config(tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ExperimentConfig:
    monkeypatch.chdir(tmp_path)
    Path("held_out.txt").write_text("A first text.\nAnd a second one, with more words.\n")
    content = {
        "name": "mine",
        "model": {"name": str(tiny_model), "dtype": "float32"},
        "systems": {"mle": {"objective": "mle"}, "emo": {"objective": "emo"}},
        "evaluation": {"texts": {"held_out": {"files": "held_out.txt"}}},
    }
    return make_config(content, [], "test")


@pytest.fixture
def run(config: ExperimentConfig, tiny_adapters: dict[str, Path]) -> RunDirectory:
    run = RunDirectory("runs/mine")
    run.start(config.model_dump(mode="json"))
    run.adapters.mkdir()
    for name, folder in tiny_adapters.items():
        (run.adapters / name).symlink_to(folder)
    return run


def matched(run: RunDirectory) -> Matched:
    row = read_metrics(run).texts["mle-matched-emo"]["matched_temperature"]
    return Matched.model_validate({**row.details.model_dump(exclude_unset=True), "temperature": row.value})


def no_control(run: RunDirectory) -> str | None:
    row = read_metrics(run).texts["emo"].get("matched_temperature")
    return row and row.details.reason


def test_the_control_has_the_entropy_of_the_system_that_it_is_compared_with(config, run, tiny_adapters):
    measuring = predictors(config, run)
    found = match_temperatures(config, run, measuring)
    (control,) = found.values()
    assert list(found) == [control_name("emo")]
    assert (control.mle, control.system, control.system_temperature) == ("mle", "emo", 1.0)
    for name, temperature, expected in (
        ("emo", 1.0, control.system_entropy),
        ("mle", control.temperature, control.entropy),
    ):
        model = open_model(config.model, tiny_adapters[name])
        (measured,) = mean_entropies(Reading(model, measuring.human, 1024), [temperature])
        assert measured == pytest.approx(expected, abs=1e-6)
    assert abs(control.entropy - control.system_entropy) <= TOLERANCE
    assert control.temperature != 1
    texts = read_metrics(run).texts
    assert matched(run) == control
    assert texts["emo"]["entropy"].value == control.system_entropy
    assert no_control(run) is None


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (["--evaluation.texts.matched_temperature", "false"], "evaluation.texts.matched_temperature is false"),
        (["--systems", "{emo: {objective: emo}}"], "no system has the objective mle"),
        (["--evaluation.texts.held_out", "null"], "there is no human text to measure entropies on; set evaluation."),
    ],
)
def test_a_missing_control_is_recorded_with_its_reason(config, run, flags, reason, printed):
    changed = make_config(config.model_dump(mode="json"), flags, "test")
    assert match_temperatures(changed, run, predictors(changed, run)) == {}
    assert no_control(run).startswith(reason)
    assert f"note: no matched-temperature control: {reason}" in printed.readouterr().out


def test_the_control_is_of_the_same_seed(config):
    content = {**config.model_dump(mode="json"), "seeds": [1, 2]}
    found = controls_of(make_config(content, [], "test").systems)
    assert found == {"emo-seed1": "mle-seed1", "emo-seed2": "mle-seed2"}
    mixed = {
        "mle": SystemOptions(objective="mle"),
        "emo": SystemOptions(objective="emo", seed=5),
        "base": SystemOptions(objective="none"),
    }
    assert controls_of(mixed) == {"emo": "mle"}


@pytest.fixture
def continuing(config, run) -> ExperimentConfig:
    """`config` without held-out text, with prefixes to continue."""
    Path("texts.txt").write_text("It was a dark and stormy night.\nIt was a dark and quiet morning.\n")
    generation = {"engine": "transformers", "max_new_tokens": 4}
    corpus = {"files": "texts.txt", "prefix": "4 words", "continuation": "3 words", "generation": generation}
    content = {**config.model_dump(mode="json"), "continuations": corpus, "answers": None, "evaluation": None}
    changed = make_config(content, [], "test")
    run.write_config(changed.model_dump(mode="json"))
    agree(run)
    return changed


@pytest.mark.slow
def test_a_control_is_sampled_and_measured_but_not_at_another_temperature(continuing, run, instruct, tiny_model):
    code, out, err = instruct("generate", run.folder)
    assert code == 0, err
    assert "control   mle-matched-emo: mle at temperature " in out
    texts = {name: read_continuations(run.continuations / f"{name}.json") for name in ("mle", "emo", "mle-matched-emo")}
    control = matched(run)
    step = run.manifest()["steps"]["continuations/mle-matched-emo"]
    assert step["results"]["temperature"] == control.temperature
    assert [row.id for row in texts["mle-matched-emo"]] == [row.id for row in texts["mle"]]
    code, _, err = instruct("evaluate", run.folder, "--evaluation.texts.metrics", "[perplexity, entropy]")
    assert code == 0, err
    found = read_metrics(run).texts
    assert found["mle"]["perplexity"].n == 2
    assert found["mle"]["perplexity"].details.bytes == len(" and stormy night.") + len(" and quiet morning."), (
        "of the references"
    )
    assert found["emo"]["entropy"].value == control.system_entropy
    Path("held_out.txt").write_text("Quite another text, 1 2 3 4 5 6 7 8 9.\n")
    flags = ["--evaluation.texts.held_out.files", "held_out.txt"]
    flags += ["--evaluation.texts.reference_model", f"{{name: {tiny_model}, dtype: float32}}"]
    code, _, err = instruct("evaluate", run.folder, *flags)
    assert code == 2
    assert "continuations/mle-matched-emo.json: was sampled at temperature " in err
    assert read_metrics(run).texts["mle-matched-emo"] == found["mle-matched-emo"]
    assert instruct("generate", run.folder, *flags)[0] == 0
    assert instruct("evaluate", run.folder, *flags)[0] == 0
