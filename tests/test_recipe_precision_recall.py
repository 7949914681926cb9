"""Figure 2 on tiny data, end to end: trained, measured with its control, written beside the paper's claim."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import yaml

from instruct.run.directory import RunDirectory
from instruct.run.measurements import read_metrics

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "recipes"))


@pytest.fixture
def config(tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The CPU config with a tiny model, two objectives and a step; the arguments that name it."""
    monkeypatch.chdir(tmp_path)
    words = "one two three four five six seven eight nine ten"
    Path("train.txt").write_text("".join(f"{n} {words}\n" for n in range(8)))
    base = yaml.safe_load((ROOT / "recipes" / "configs" / "precision_recall_smollm2.yaml").read_text())
    texts = base["evaluation"]["texts"] | {"held_out": {"files": "train.txt"}}
    content = base | {
        "extends": str(ROOT / "recipes" / "configs" / base["extends"]),
        "name": "figure2",
        "model": {"name": str(tiny_model), "dtype": "float32"},
        "data": {"card": None, "files": ["train.txt"], "eval_files": ["train.txt"]},
        "train": {"max_steps": 1, "eval_steps": 1, "eval_on_start": False, "max_length": 64, "report_to": "none"},
        "systems": {"mle": {"objective": "mle"}, "emo": {"objective": "emo", "variant": "paper"}},
        "evaluation": {"texts": texts | {"reference_model": {"name": str(tiny_model), "dtype": "float32"}}},
    }
    Path("figure2.yaml").write_text(yaml.safe_dump(content))
    return ["--config", "figure2.yaml"]


@pytest.mark.slow
def test_figure_2_has_every_objective_and_the_control_and_resumes(config, printed):
    from precision_recall import main

    main(config)
    out = printed.readouterr().out
    assert "compare   mle, emo with " in out
    found = read_metrics(RunDirectory("runs/figure2")).texts
    table = Path("runs/figure2/precision_recall.md").read_text()
    for name in ("mle", "emo", "mle-matched-emo"):
        assert f"| {name} | " in table
        assert f"{found[name]['reverse_cross_entropy'].value:.4f}" in table
    assert "The paper's claim (Figure 2" in table
    steps = json.loads(Path("runs/figure2/manifest.json").read_text())["steps"]
    main(config)
    assert json.loads(Path("runs/figure2/manifest.json").read_text())["steps"] == steps


@pytest.mark.slow
def test_figure_2_on_texts_that_the_reference_writes(config, monkeypatch, printed):
    import precision_recall

    monkeypatch.setattr(precision_recall, "LEAST_WORDS", 2)
    precision_recall.main([*config, "--evaluation.texts.held_out", "null", "--evaluation.texts.max_length", "40"])
    assert "texts     runs/figure2-reference/texts.jsonl: 8 of 8 with 2 words or more" in printed.readouterr().out
    assert read_metrics(RunDirectory("runs/figure2")).texts["emo"]["reverse_cross_entropy"].n == 8


def test_the_plan_of_figure_2_is_printed_and_nothing_is_written(config, printed):
    from precision_recall import main

    main([*config, "--dry-run"])
    assert "compare   mle, emo with " in printed.readouterr().out
    assert not Path("runs").exists()


def test_figure_2_without_a_reference_is_refused(config):
    from precision_recall import main

    from instruct.base.errors import InputError

    with pytest.raises(InputError, match=r"figure2: has no reference; set evaluation.texts.reference_model"):
        main([*config, "--evaluation.texts.reference_model", "null"])
