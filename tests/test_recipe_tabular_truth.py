"""recipes/tabular_truth.py: its expectation is that of the objectives, and the whole recipe on a few words."""

from __future__ import annotations

import importlib.util
import json
import random
import sys
from pathlib import Path

import pytest
import torch

from instruct.base.errors import InputError
from instruct.objectives import CosineCost, Energy, EnergyTable, linear_objective_loss
from instruct.objectives.check import Expectation
from instruct.training.objective_names import OBJECTIVES

ROOT = Path(__file__).resolve().parent.parent


def load_recipe():
    spec = importlib.util.spec_from_file_location("tabular_truth", ROOT / "recipes" / "tabular_truth.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["tabular_truth"] = module  # dataclasses look it up
    spec.loader.exec_module(module)
    return module


recipe = load_recipe()
original = recipe.objectives


@pytest.mark.parametrize("name", list(recipe.objectives()))
def test_the_expected_gradient_is_that_of_the_engine_over_all_words(name):
    """A token of each (context, word), weighted with its share, through linear_objective_loss."""
    generator = torch.Generator().manual_seed(0)
    words = 6
    vectors = torch.randn(words, 4, generator=generator, dtype=torch.float64)
    shares = torch.rand(2, words, generator=generator, dtype=torch.float64)
    logits = torch.randn(2, words, generator=generator, dtype=torch.float64).requires_grad_()
    objective = recipe.objectives()[name]
    (found,) = torch.autograd.grad(Expectation(objective, vectors).loss(logits, shares), logits)

    states = logits.detach().repeat_interleave(words, dim=0).requires_grad_()
    cost = EnergyTable(vectors, objective.dim) if isinstance(objective, Energy) else CosineCost(vectors)
    head = torch.eye(words, dtype=torch.float64)
    loss, _ = linear_objective_loss(states, head, torch.arange(words).repeat(2), objective, cost, num_items=1)
    (grads,) = torch.autograd.grad(loss, states)
    expected = (shares[..., None] * grads.reshape(2, words, words)).sum(dim=1)
    assert torch.allclose(found, expected, atol=1e-9)


@pytest.fixture
def corpus(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    draw = random.Random(0)
    words = ["the", "rain", "sea", "night", "was", "dark", "and"]
    lines = [" ".join(["secret", *draw.choices(words, range(1, 8), k=12)]) for _ in range(60)]
    (tmp_path / "texts.txt").write_text("\n".join(lines))
    return tmp_path / "texts.txt"


def flags(corpus: Path, model: Path, *more: str) -> list[str]:
    return [
        "tabular_truth.py", "--files", str(corpus), "--model", str(model), "--words", "6", "--seeds", "1", "2",
        "--samples", "2000", "--held-out", "500", "--steps", "60", *more,
    ]  # fmt: skip


@pytest.mark.slow
def test_the_recipe_resumes_and_reports_without_words(corpus, tiny_model_folder, monkeypatch, capsys):
    monkeypatch.setattr(recipe, "objectives", lambda words=0: {
        name: objective for name, objective in original(words).items() if name in ("MLE", "EMO, paper", "energy, λ 10")
    })  # fmt: skip
    monkeypatch.setattr(sys, "argv", flags(corpus, tiny_model_folder))
    recipe.main()
    folder = corpus.parent / "runs" / "tabular_truth"
    results = json.loads((folder / "results.json").read_text())
    assert len(results["rows"]) == 3 * 2 * 3  # on the truth, and on samples by two rules
    lines = {line["objective"]: line for line in recipe.summarized(results, "infinite")}
    truth = results["truth"]["entropy"]
    assert lines["MLE"]["entropy"] == pytest.approx(truth, abs=0.01)
    assert lines["EMO, paper"]["entropy"] < truth - 0.05
    assert lines["energy, λ 10"]["jensen_shannon"] == pytest.approx(0, abs=1e-3)
    assert lines["EMO, paper"]["control"]["entropy"] == pytest.approx(lines["EMO, paper"]["entropy"], abs=2e-3)
    same = lines["EMO, paper"]["same_reverse"]
    assert same["reverse_cross_entropy"] == pytest.approx(lines["EMO, paper"]["reverse_cross_entropy"], abs=2e-3)
    assert same["temperature"] < 1
    assert "half of MLE's" in (folder / "report.md").read_text()
    assert (folder / "precision_recall.svg").is_file()
    for path in folder.iterdir():
        assert b"secret" not in path.read_bytes()

    results["rows"] = results["rows"][:-1]
    (folder / "results.json").write_text(json.dumps(results))
    capsys.readouterr()
    recipe.main()
    assert capsys.readouterr().out.count("finite") == 1  # the one that was missing
    monkeypatch.setattr(sys, "argv", flags(corpus, tiny_model_folder, "--samples", "10"))
    with pytest.raises(InputError, match="was made with other flags; choose another --name"):
        recipe.main()


def test_all_objectives_of_the_package_are_in_a_small_table():
    """A new objective is there by itself; losses that read rows of logits are left out of a large one."""
    from instruct.objectives import LogitLoss

    names = recipe.objectives()
    variants = {name for name, _ in recipe.VARIANTS.values()}
    assert variants | set(names) >= set(OBJECTIVES) - set(recipe.LEFT_OUT)
    large = recipe.objectives(recipe.LARGEST_WITH_LOGITS + 1)
    assert {name for name in names if name not in large} == {
        name for name, objective in names.items() if isinstance(objective, LogitLoss)
    }


def test_no_corpus_and_too_few_words_are_refused(corpus, tiny_model_folder, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["tabular_truth.py"])
    with pytest.raises(InputError, match="no corpus; give --files FILE"):
        recipe.main()
    monkeypatch.setattr(sys, "argv", flags(corpus, tiny_model_folder, "--words", "50"))
    with pytest.raises(InputError, match="has 8 different words; lower --words"):
        recipe.main()


def test_the_committed_report_is_that_of_the_committed_results():
    folder = ROOT / "docs" / "results" / "tabular_truth"
    results = json.loads((folder / "results.json").read_text())
    assert (folder / "report.md").read_text() == recipe.report_text(results)
    finite = {line["objective"]: line for line in recipe.summarized(results, "finite")}
    readme = (folder / "README.md").read_text()
    for name in ("MLE", "energy, λ 10", "energy, λ 50", "EMO, official"):
        assert f"{finite[name]['forward_cross_entropy']:.3f} | {finite[name]['reverse_cross_entropy']:.3f}" in readme
    lowest = min(each["forward_cross_entropy"] for row in results["rows"] if "curve" in row and row["data"] == "finite"
                 for _, each in row["curve"])  # fmt: skip
    assert finite["energy, λ 50"]["forward_cross_entropy"] < lowest
    js = {line["objective"]: line for line in recipe.summarized(results, recipe.FINITE_JS)}
    for name in ("EMO, paper", "EMO, official"):
        for each in (finite, js):
            assert each[name]["jensen_shannon"] > each[name]["control"]["jensen_shannon"]
        assert f"{js[name]['forward_cross_entropy']:.3f} | {js[name]['reverse_cross_entropy']:.3f}" in readme
    few = json.loads((folder / "results_50_words.json").read_text())
    assert few["settings"]["words"] == 50
    for found in (results, few):
        for data in ("infinite", "finite", recipe.FINITE_JS):
            line = recipe.summarized(found, data)[0]
            low, high = (f"{end:.3f}" for end in line["halved_range"])
            ends = f" ({low} to {high})" if low != high else ""
            own, there = (f"{max(each, 0):.4f}".lstrip("0") for each in (
                line["jensen_shannon"], line["halved"]["jensen_shannon"]))  # fmt: skip
            assert f"{line['halved']['temperature']:.3f}{ends} | {own} to {there} |" in readme
