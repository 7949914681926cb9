"""`instruct evaluate` and metrics.json: what is measured, merged, and not measured again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from instruct.base.errors import InputError
from instruct.generation.continuations import Continuation, write_continuations
from instruct.run.directory import RunDirectory
from instruct.run.measurements import metrics_path, read_metrics, read_values


@pytest.fixture
def held_out(trained) -> list[str]:
    """Flags that name a file of text."""
    Path("held_out.txt").write_text("A first text.\n\nAnd a second one, with more words.\n")
    return ["--evaluation.texts.held_out.files", "held_out.txt"]


def test_evaluate_measures_every_system_on_held_out_text(trained, held_out, instruct):
    code, out, err = instruct("evaluate", trained.folder, *held_out)
    assert code == 0, err
    found = read_metrics(trained).texts
    assert list(found) == ["base", "emo"]
    assert found["base"]["perplexity"].value != found["emo"]["perplexity"].value
    assert f"emo: perplexity {found['emo']['perplexity'].value:.0f}" in out
    assert f"metrics: {metrics_path(trained)}" in out
    values = read_values(trained, "perplexity", "emo")
    assert values["id"] == ["held_out.txt:1", "held_out.txt:3"]
    assert sum(values["tokens"]) == found["emo"]["perplexity"].details.tokens


def test_what_is_measured_is_not_measured_again_unless_its_texts_change(trained, held_out, instruct):
    def minutes() -> dict[str, str]:
        steps = trained.manifest()["steps"]
        return {name: step["started"] + str(step["attempts"]) for name, step in steps.items()}

    assert instruct("evaluate", trained.folder, *held_out)[0] == 0
    first, before = minutes(), metrics_path(trained).read_bytes()
    assert instruct("evaluate", trained.folder, *held_out)[0] == 0
    assert (minutes(), metrics_path(trained).read_bytes()) == (first, before)
    metrics_path(trained).unlink()
    assert instruct("evaluate", trained.folder, *held_out)[0] == 0
    assert metrics_path(trained).read_bytes() == before
    Path("held_out.txt").write_text("Another text.\n")
    assert instruct("evaluate", trained.folder, *held_out)[0] == 0
    assert read_metrics(trained).texts["emo"]["perplexity"].n == 1


def test_a_changed_setting_of_a_finished_evaluation_is_measured_again_and_recorded(tiny_experiment, instruct):
    Path("first.txt").write_text("A first text.\n")
    Path("other.txt").write_text("Another text.\nAnd one more.\n")
    content = {**tiny_experiment, "name": "mine", "systems": {"base": {"objective": "none"}}, "comparisons": []}
    for name, count in (("first", 1), ("other", 2)):
        content["evaluation"] = {"texts": {"held_out": {"files": f"{name}.txt"}}}
        Path("config.yaml").write_text(yaml.safe_dump(content))
        code, out, err = instruct("evaluate", "config.yaml")
        assert code == 0, err
        run = RunDirectory("runs/mine")
        assert read_metrics(run).texts["base"]["perplexity"].n == count
        made_with = run.manifest()["steps"]["evaluate/perplexity/base"]["config"]
        assert made_with["held_out"]["files"] == [f"{name}.txt"]
        assert run.config()["evaluation"]["texts"] == made_with
    assert 'changed   evaluation.texts.held_out.files.0 was "first.txt" and is "other.txt" now' in out


def test_a_damaged_metrics_file_is_refused_in_one_line(tmp_path):
    run = RunDirectory(tmp_path)
    for content, message in [
        ({"texts": {"emo": []}}, r"texts: Extra inputs are not permitted"),
        ({"version": 3}, r"version: must be 2"),
        ({"version": 2, "measurements": [{"system": "emo"}]}, r"measurements.0.metric: Field required"),
    ]:
        metrics_path(run).write_text(json.dumps(content))
        with pytest.raises(
            InputError, match=rf"metrics.json: .*{message}.*; delete the file and run `instruct evaluate "
        ):
            read_metrics(run)


@pytest.fixture
def continued(trained) -> RunDirectory:
    """`trained` with continuations of both systems, the base's half empty."""
    rows = [Continuation(f"a:{n // 2}", "One two", f" three {n}", " four", 0, n % 2, 3, "length") for n in range(4)]
    for name, found in (("emo", rows), ("base", [replace(row, continuation="") for row in rows[:2]] + rows[2:])):
        write_continuations(trained.folder / "continuations" / f"{name}.json", found)
    return trained


def test_evaluate_measures_continuations_and_distances_by_a_reference_model(continued, instruct, tiny_experiment):
    name = tiny_experiment["model"]["name"]
    flags = ["--evaluation.texts.reference_model", f"{{name: {name}, dtype: float32}}"]
    code, out, err = instruct("evaluate", continued.folder, *flags)
    assert code == 0, err
    found = read_metrics(continued).texts
    assert found["base"]["oracle_perplexity"].details.empty == 2
    assert "perplexity" not in found["base"], "there is no human text"
    assert found["base"]["oracle_perplexity"].details.human == found["emo"]["oracle_perplexity"].details.human > 1
    assert found["emo"]["oracle_perplexity"].details.by_seed.keys() == {"0", "1"}
    assert f"emo: oracle perplexity {found['emo']['oracle_perplexity'].value:.0f}" in out
    values = read_values(continued, "oracle_perplexity", "emo")
    assert [values[name] for name in ("id", "seed", "sample")] == [["a:0", "a:0", "a:1", "a:1"], [0, 1, 0, 1], [0] * 4]


def test_a_metric_that_lacks_something_is_refused_with_the_remedy(continued, instruct):
    code, _, err = instruct("evaluate", continued.folder, "--evaluation.texts.metrics", "[distances]")
    assert code == 2
    assert err.endswith("distances needs a reference model; set evaluation.texts.reference_model\n")
