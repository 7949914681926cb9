"""`instruct bench`: its rows, its choice of a learning rate, its plan, and its table."""

from __future__ import annotations

import json
import math
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from instruct.base.errors import InputError, InputErrors
from instruct.base.models import ModelOptions
from instruct.command.experiments import bench_config
from instruct.command.main import make_parser, parse_arguments
from instruct.config import make_config
from instruct.phases.bench import (
    Bench,
    BenchOptions,
    bench,
    best_rate,
    beyond,
    objectives_as_systems,
    prompt_pairs,
    split,
    try_rates,
)
from instruct.phases.systems import check_elsewhere
from instruct.training.options import trained_elsewhere

PARSER = make_parser()


def rows_file(folder: Path, count: int) -> str:
    rows = [
        {"instruction": f"Question {n}?", "input": "in" if n % 3 else "", "output": f"Answer {n}."}
        for n in range(count)
    ]
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in [*rows, rows[0]]), encoding="utf-8")
    return str(path)


def config_of(files: str, **more):
    content = {"name": "b", "data": {"files": [files]}, "systems": objectives_as_systems(["mle", "dft"])}
    return make_config(content | more, [], "test")


def test_rows_are_split_into_disjoint_sets_whatever_their_order(tmp_path):
    sizes = {"train": 20, "choose": 5, "test": 8}
    file = rows_file(tmp_path, 40)
    sets = split(prompt_pairs(config_of(file).data), sizes, tmp_path / "rows")
    prompts = {part: {row["instruction"] for row in rows} for part, rows in sets.items()}
    assert {part: len(own) for part, own in prompts.items()} == sizes
    assert len(set.union(*prompts.values())) == 33
    lines = (tmp_path / "rows" / "train.jsonl").read_text(encoding="utf-8").splitlines()
    assert {json.loads(line)["instruction"] for line in lines} == prompts["train"]
    reverse = tmp_path / "reverse.jsonl"
    reverse.write_text("\n".join(reversed(Path(file).read_text(encoding="utf-8").splitlines())), encoding="utf-8")
    assert split(prompt_pairs(config_of(str(reverse)).data), sizes, tmp_path / "other") == sets
    with pytest.raises(InputError, match="40 different prompts; 41 are needed"):
        split(prompt_pairs(config_of(file).data), {"train": 41}, tmp_path / "rows")


def test_rates_are_extended_at_the_edge_alone():
    rates = [1e-4, 3e-4, 1e-3]
    assert [beyond(best, rates) for best in (3e-4, 1e-4, 1e-3)] == [None, 3e-5, 3e-3]
    assert beyond(1e-2, [*rates, 3e-3, 1e-2], (1e-5, 1e-2)) is None
    tried = try_rates(rates, lambda rate: abs(math.log(rate / 2e-5)))
    assert list(tried) == [1e-5, 3e-5, 1e-4, 3e-4, 1e-3]
    assert best_rate(tried) == 3e-5
    assert best_rate({1e-4: math.nan, 3e-4: math.inf, 1e-3: 2.0}) == 1e-3


KEYS = {
    "model.dtype": "float32",
    "lora.r": 3,
    "train.weight_decay": 0.5,
    "systems.dft.transport_cost": "t",
    "answers.template": "chat",
    "answers.generation.timeout": 7.0,
    "evaluation.texts.max_length": 64,
}


@pytest.mark.parametrize(("key", "value"), KEYS.items(), ids=KEYS)
def test_a_key_reaches_what_is_trained_and_compared(key, value):
    config = config_of("d.jsonl", **{"answers": {}, "evaluation": {"texts": {}}})
    changed = make_config(config.model_dump(mode="json"), [f"--{key}", str(value)], "test")
    found: Any = Bench(changed, BenchOptions(), Path("rows")).final(9, {"mle": 1e-3, "dft": 1e-3})
    for name in key.replace("systems.dft", "systems.dft-seed1").split("."):
        found = found[name] if isinstance(found, dict) else getattr(found, name)
    assert found == value


@pytest.mark.parametrize("key", ["seeds", "comparisons", "continuations"])
def test_a_key_that_the_bench_sets_itself_is_refused_by_name(tmp_path, key):
    value = {"seeds": [4, 5], "comparisons": [["dft", "mle"]], "continuations": {"files": ["a.txt"]}}[key]
    with pytest.raises(InputError, match=key):
        bench(config_of(rows_file(tmp_path, 40), **{key: value}), BenchOptions(), dry_run=True)


def test_arms_are_systems_and_several_are_their_seeds(tmp_path):
    (tmp_path / "b.yaml").write_text(yaml.safe_dump({"name": "b", "systems": {"sdft": {"adapter": ["x", "y"]}}}))
    call = ["bench", str(tmp_path / "b.yaml"), "--objectives", "mle,dft", "--arm", "gold=a,b", "--arm", "gold=c"]
    config = bench_config(parse_arguments(PARSER, [*call, "--arm", "ssd=user/ssd@v1"]), ["mle", "dft"])
    sources = {"sdft-seed1": "x", "sdft-seed2": "y", "gold-seed1": "a", "gold-seed2": "b", "gold-seed3": "c"}
    assert trained_elsewhere(config.systems) == sources | {"ssd": "user/ssd@v1"}
    final = Bench(config, BenchOptions(seeds=2, tasks=["sst2"]), Path("rows")).final(9, {"mle": 1.0, "dft": 1.0})
    assert trained_elsewhere(final.systems) == trained_elsewhere(config.systems)
    assert {"base", "mle-seed2"} <= {*final.systems}
    pairs = [("gold-seed1", "mle-seed1"), ("gold-seed2", "mle-seed2"), ("ssd", "mle-seed1"), ("ssd", "mle-seed2")]
    assert [pair for pair in final.comparisons if pair[0].startswith(("gold", "ssd"))] == pairs


def test_an_adapter_is_no_two_seeds():
    call = ["bench", "--objectives", "mle", "--arm", "gold=a", "--arm", "gold=b,a"]
    with pytest.raises(InputError, match="a is given twice"):
        bench_config(parse_arguments(PARSER, call), ["mle"])


def test_weights_of_another_model_are_refused_before_anything_is_trained(
    tmp_path, monkeypatch, tiny_model, tiny_adapters, make_model, make_adapter
):
    monkeypatch.chdir(tmp_path)
    other = make_model(tmp_path / "other", seed=1)
    tokens = json.loads((tiny_model / "tokenizer.json").read_text())
    tokens["model"]["vocab"]["zz"] = len(tokens["model"]["vocab"]) + 9
    shutil.copytree(tiny_model, "words")
    Path("words/tokenizer.json").write_text(json.dumps(tokens))
    wrong = {
        "none": ("nowhere/at/all", "no such folder"),
        "base": (str(make_adapter(other, tmp_path / "of_other", 1, 0.5)), "was trained on .*other, and `model` is"),
        "tokens": ("words", "has other tokens than"),
    }
    adapters = {name: {"adapter": path} for name, (path, _) in wrong.items()}
    model = ModelOptions(name=str(tiny_model))
    with pytest.raises(InputErrors) as refused:
        check_elsewhere(config_of("d.jsonl", systems={"mle": {"objective": "mle"}, **adapters}).systems, model)
    for problem, (name, (_, message)) in zip(refused.value.problems, wrong.items(), strict=True):
        assert problem.startswith(f"system {name}: ")
        assert re.search(message, problem)
    shutil.copytree(tiny_adapters["emo"], "again")
    seeds = {"gold": {"adapter": str(tiny_adapters["emo"])}, "silver": {"adapter": "again"}}
    with pytest.raises(InputError, match="has the weights of system gold"):
        check_elsewhere(config_of("d.jsonl", systems=seeds).systems, model)


def test_rows_that_choose_a_rate_are_in_no_set_that_is_scored(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    texts = {"texts": {"matched_temperature": False}}
    config = config_of(rows_file(tmp_path, 60), judges=[{"card": "smollm2_score"}], evaluation=texts)
    folder, rates = Path("rows"), {"mle": 1e-4, "dft": 3e-4}
    candidate = Bench(config, BenchOptions(), folder).candidate("dft", 3e-4)
    final = Bench(config, BenchOptions(tasks=["sst2"]), folder).final(12, rates)
    assert candidate.data.eval_files == ["rows/choose.jsonl"]
    assert (candidate.trained["dft"].seed, candidate.answers, candidate.judges) == (0, None, [])
    seeds = {name: (system.seed, system.learning_rate) for name, system in final.trained.items()}
    assert seeds == {f"{key}-seed{seed}": (seed, rate) for key, rate in rates.items() for seed in (1, 2, 3)}
    assert final.answers.files == ["rows/test_prompts.json"]
    assert final.continuations.files == ["rows/test_prefixes.jsonl"]
    assert final.comparisons == [(f"dft-seed{seed}", f"mle-seed{seed}") for seed in (1, 2, 3)]
    assert final.evaluation.tasks.names == ["sst2"]
    assert not final.evaluation.texts.matched_temperature
    assert final.evaluation.texts.metrics == ["perplexity", "entropy", "rouge", "diversity"]
    assert "base" in final.systems
