"""`instruct bench`: its rows, its choice of a learning rate, its plan, and its table."""

from __future__ import annotations

import json
import math
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import forked
import pytest
import yaml

from instruct import Report
from instruct.base.errors import InputError, InputErrors
from instruct.base.models import ModelOptions
from instruct.command.experiments import bench_config
from instruct.command.main import make_parser, parse_arguments
from instruct.config import ExperimentConfig, make_config
from instruct.data.options import DataOptions
from instruct.generation.options import AnswerOptions, EngineConfig, GenerationConfig
from instruct.judging.options import JudgeOptions
from instruct.measuring.options import TaskOptions, TextMetricOptions
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
from instruct.phases.systems import check_elsewhere, system_folders
from instruct.reporting.bench import GIB, GREEDY, OBJECTIVES
from instruct.reporting.text import finding
from instruct.run.directory import RunDirectory
from instruct.training.options import SystemOptions, trained_elsewhere

ROOT = Path(__file__).parents[2]
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


def test_rows_of_several_turns_are_left_out_and_counted(tmp_path, printed):
    chat = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    rows = [{"messages": [*chat[start:], {"role": "assistant", "content": "Hello"}]} for start in (0, 1)]
    path = tmp_path / "chats.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert prompt_pairs(config_of(str(path)).data) == [{"instruction": "Hi", "output": "Hello"}]
    assert "1 row left out" in printed.readouterr().out


def test_rates_are_extended_at_the_edge_alone():
    rates = [1e-4, 3e-4, 1e-3]
    assert [beyond(best, rates) for best in (3e-4, 1e-4, 1e-3)] == [None, 3e-5, 3e-3]
    assert beyond(1e-2, [*rates, 3e-3, 1e-2], (1e-5, 1e-2)) is None
    tried = try_rates(rates, lambda rate: abs(math.log(rate / 2e-5)))
    assert list(tried) == [1e-5, 3e-5, 1e-4, 3e-4, 1e-3]
    assert best_rate(tried) == 3e-5
    assert best_rate({1e-4: math.nan, 3e-4: math.inf, 1e-3: 2.0}) == 1e-3


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            {"systems": {"dft": {"objective": "dft"}}},
            "compares objectives with mle; name it and another in `objectives`",
        ),
        ({"answers": None}, "compares answers; remove answers: null"),
        ({"data": {"card": None}}, "splits the rows of one data set, not of none; set data.files"),
    ],
)
def test_a_config_that_a_bench_cannot_compare_is_refused(tmp_path, more, message):
    with pytest.raises(InputError, match=re.escape(message)):
        bench(config_of(rows_file(tmp_path, 4), **more), BenchOptions(), dry_run=True)


# Sections whose keys are those of a class, each with what its keys need beside them.
SECTIONS = {
    "": ExperimentConfig,
    "model": ModelOptions,
    "data": DataOptions,
    "systems.dft": SystemOptions,
    "answers": AnswerOptions,
    "answers.generation": GenerationConfig,
    "evaluation.texts": TextMetricOptions,
    "evaluation.tasks": TaskOptions,
    "judges.0": JudgeOptions,
}
VALUES = {
    "train": {"max_steps": 7, "per_device_train_batch_size": 3, "weight_decay": 0.5, "seed": 5, "learning_rate": 0.1},
    "lora": {"r": 3, "alpha": 5, "dropout": 0.25, "use_dora": True, "target_modules": ["q_proj"]},
    "systems.dft.objective": "gem",
    "systems.dft.adapter": ["elsewhere/dft"],
    "judges.0.trim": True,
    "data.card": "starter",
    "answers.template": "chat",
    "data.template": "alpaca",
    "comparisons": [["dft", "mle"]],
    "continuations": {"files": ["a.txt"]},
    "evaluation.texts.held_out": {"files": ["a.txt"]},
    "evaluation.texts.metrics": ["rouge"],
    "seeds": [4, 5],
    "cluster": {"workers": 2},
}
# Read before the rows are split: see `test_rows_are_read_as_the_config_says`.
READ = {f"data.{key}" for key in ("card", "files", "limit", "documents", "on_bad_row")}
NOT_KEYS = {"name", "systems", "model", "data", "answers", "evaluation", "judges", "train", "lora"} | {
    "answers.generation",  # sections of their own
    "judges.0.card",
}


def other_value(key: str, field: Any) -> Any:
    """A value that is not the default."""
    if key in VALUES:
        return VALUES[key]
    kinds = str(field.annotation)
    if choices := re.search(r"Literal\[(.*?)\]", kinds):
        words = [word.strip(" '") for word in choices[1].split(",")]
        return next(word for word in words if word != field.default)
    if "bool" in kinds:
        return not field.default
    if "float" in kinds:
        return 0.5 if field.default != 0.5 else 0.25
    if "int" in kinds:
        return 2 if field.default != 2 else 3
    if "list" in kinds or "Texts" in kinds:
        return ["other"]
    return {"other": "value"} if "dict" in kinds else "other"


def keys_of_configs() -> list[tuple[str, Any]]:
    keys: list[tuple[str, Any]] = []
    for section, options in SECTIONS.items():
        for name, field in options.model_fields.items():
            key = f"{section}.{name}".lstrip(".")
            if key not in NOT_KEYS:
                keys.append((key, other_value(key, field)))
    for section in ("train", "lora"):
        keys += [(f"{section}.{name}", value) for name, value in VALUES[section].items()]
    return keys


def placed(content: dict[str, Any], key: str, value: Any) -> dict[str, Any]:
    name, _, rest = key.partition(".")
    if name == "0":
        return [placed({"card": "pandalm"}, rest, value)]  # type: ignore[return-value]
    return {**content, name: placed(content.get(name) or {}, rest, value) if rest else value}


def found(content: Any, key: str) -> Any:
    for name in key.split("."):
        content = content[int(name)] if name.isdigit() else content[name]
    return content


@pytest.mark.parametrize("source", ["file", "flag"])
@pytest.mark.parametrize(("key", "value"), keys_of_configs(), ids=lambda value: value if isinstance(value, str) else "")
def test_every_key_reaches_what_is_trained_and_compared_or_is_refused_by_name(tmp_path, key, value, source):
    if source == "flag" and key in ("seeds", "cluster"):
        return  # the flag of that name is the number of seeds; there is none for a cluster
    content = {"name": "b", "data": {"files": ["d.jsonl"]}, "systems": objectives_as_systems(["mle", "dft"])}
    call = ["bench", str(tmp_path / "b.yaml"), "--objectives", "mle,dft"]
    if source == "file":
        content = placed(content, key, value)
    elif ".0." in key:
        content = placed(content, "judges.0.card", "pandalm")
    if source == "flag":
        call += [f"--{key}", json.dumps(value)]
    (tmp_path / "b.yaml").write_text(yaml.safe_dump(content))
    last = key.rpartition(".")[2]
    refusal = ""
    try:
        config = bench_config(parse_arguments(PARSER, call), ["mle", "dft"])
        Bench(config, BenchOptions(), Path("rows")).check()
        rates = dict.fromkeys(["mle", "dft"], 1e-3)
        final = Bench(config, BenchOptions(), Path("rows")).final(9, rates).model_dump(mode="json")
        candidate = Bench(config, BenchOptions(), Path("rows")).candidate("dft", 1e-3).model_dump(mode="json")
    except InputError as error:
        refusal = str(error)
    if refusal:
        assert last in refusal
    elif key not in READ:
        taken = found(config.model_dump(mode="json"), key)
        assert taken == value or isinstance(taken, dict)  # a model's name, or a section's first key
        assert found(final, key.replace("systems.dft", "systems.dft-seed1")) == taken
        if key.split(".")[0] in ("model", "data", "lora", "train", "systems", "from_scratch"):
            assert found(candidate, key) == taken
        if key.startswith("answers.generation.") and last in EngineConfig.model_fields:
            assert found(final, f"continuations.generation.{last}") == taken


def test_objectives_are_taken_from_the_file_and_changed_by_flags(tmp_path):
    emo = {"objective": "mixce", "objective_args": {"gamma": 0.5}, "transport_cost": "t"}
    systems = {"emo": emo, "mle": {"objective": "mle"}}
    (tmp_path / "b.yaml").write_text(yaml.safe_dump({"name": "b", "systems": systems}))
    call = ["bench", str(tmp_path / "b.yaml"), "--systems.emo.objective_args.gamma", "0.25"]
    config = bench_config(parse_arguments(PARSER, call), ["mle", "emo", "dft"])
    assert list(config.systems) == ["mle", "emo", "dft"]
    assert (config.systems["emo"].transport_cost, config.systems["emo"].objective_args) == ("t", {"gamma": 0.25})


def test_rows_are_read_as_the_config_says(tmp_path):
    file = rows_file(tmp_path, 9)
    with Path(file).open("a", encoding="utf-8") as rows:
        rows.write('{"instruction": ["no text"], "input": "", "output": "An answer."}\n')
    data = {"files": [file], "limit": 5, "on_bad_row": "skip"}
    assert len(prompt_pairs(config_of(file, data=data).data)) == 5
    assert len(prompt_pairs(config_of(file, data={**data, "limit": None}).data)) == 9
    with pytest.raises(InputError, match=r"rows\.jsonl"):
        prompt_pairs(config_of(file, data={"files": [file]}).data)


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


def test_every_training_of_an_arm_that_python_names_is_one(tmp_path):
    config = make_config({"name": "b", "systems": {"mle": {"objective": "mle"}}}, [], "b")
    config.systems |= {"mle_half": SystemOptions(objective="none", adapter=["a", "b"])}
    final = Bench(config, BenchOptions(seeds=2), Path("rows")).final(9, {"mle": 1.0})
    assert trained_elsewhere(final.systems) == {"mle_half-seed1": "a", "mle_half-seed2": "b"}
    with pytest.raises(InputError, match="system mle_half: has 2 adapters and is one training"):
        system_folders(config.systems, RunDirectory(tmp_path / "run"))


@pytest.mark.parametrize(
    ("arms", "message"),
    [
        (["gold"], "write NAME=ADAPTER"),
        (["=a"], "write NAME=ADAPTER"),
        (["gold=a,"], "write NAME=ADAPTER"),
        (["gold=a", "gold=b,a"], "a is given twice"),
        (["mle=a"], "is another system's name"),
        (["gold=a,b", "gold-seed1=c"], "gold-seed1 is also the name of a training of another system"),
        (["mle-matched-gold=a", "gold=b"], "mle-matched-gold is the name of another system's control"),
    ],
)
def test_an_arm_that_is_none_is_refused(tmp_path, arms, message):
    flags = [word for arm in arms for word in ("--arm", arm)]
    with pytest.raises(InputError, match=message):
        bench_config(parse_arguments(PARSER, ["bench", "--objectives", "mle", *flags]), ["mle"])


def test_what_was_trained_elsewhere_is_not_trained_here():
    with pytest.raises(InputError, match="is not trained here with dft"):
        config_of("d.jsonl", systems={"gold": {"objective": "dft", "adapter": "a"}})


def renamed(adapter: Path, base: str) -> None:
    path = adapter / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"base_model_name_or_path": base}))


def test_weights_of_another_model_are_refused_before_anything_is_trained(
    tmp_path, monkeypatch, tiny_model, tiny_adapters, make_model, make_adapter, printed
):
    monkeypatch.chdir(tmp_path)
    other = make_model(tmp_path / "other", seed=1)
    shutil.copytree(tiny_adapters["emo"], "hub")
    renamed(Path("hub"), "someone/model")
    shutil.copytree(tiny_adapters["emo"], "far")
    renamed(Path("far"), "/not/here")
    tokens = json.loads((tiny_model / "tokenizer.json").read_text())
    vocabulary = tokens["model"]["vocab"]
    for folder, changed in (("words", vocabulary | {"zz": len(vocabulary) + 9}), ("damaged", {})):
        shutil.copytree(tiny_model, folder)
        tokens["model"]["vocab"] = changed
        Path(folder, "tokenizer.json").write_text(json.dumps(tokens))
    wrong = {
        "none": ("nowhere/at/all", "no such folder"),
        "base": (str(make_adapter(other, tmp_path / "of_other", 1, 0.5)), "was trained on .*other, and `model` is"),
        "named": ("hub", "was trained on someone/model, and `model` is"),
        "tokens": ("words", "has other tokens than"),
        "damaged": ("damaged", "cannot be loaded on"),
    }
    systems = {"mle": {"objective": "mle"}} | {name: {"adapter": path} for name, (path, _) in wrong.items()}
    model = ModelOptions(name=str(tiny_model))
    with pytest.raises(InputErrors) as refused:
        check_elsewhere(config_of("d.jsonl", systems=systems).systems, model)
    for problem, (name, (_, message)) in zip(refused.value.problems, wrong.items(), strict=True):
        assert problem.startswith(f"system {name}: ")
        assert re.search(message, problem)
    right = {"a": {"adapter": str(tiny_adapters["emo"])}, "far": {"adapter": "far"}, "b": {"adapter": str(tiny_model)}}
    check_elsewhere(config_of("d.jsonl", systems=right).systems, model)
    assert "trained on rows that are not known, which may be among the prompts" in printed.readouterr().out
    shutil.copytree("far", "again")
    Path("link").symlink_to("far")
    seeds = {"gold": {"adapter": ["./far", "link"]}, "silver": {"adapter": "again"}}
    with pytest.raises(InputErrors) as refused:
        check_elsewhere(config_of("d.jsonl", systems=seeds).systems, model)
    assert [problem.partition(": has ")[2].partition(";")[0] for problem in refused.value.problems] == [
        "the weights of system gold-seed1"
    ] * 2


@pytest.mark.slow
def test_arms_are_measured_beside_objectives(tmp_path, monkeypatch, instruct, tiny_model, make_adapter):
    monkeypatch.chdir(tmp_path)
    rows_file(tmp_path, 60)
    arms = [f"{name}={make_adapter(tiny_model, tmp_path / name, seed, 0.3)}" for seed, name in enumerate("xyzv", 1)]
    gold = f"gold={','.join(arm.partition('=')[2] for arm in arms[:3])}"
    call = ["bench", "--model", tiny_model, "--data", "rows.jsonl", "--objectives", "mle", "--seeds", 3]
    call += ["--arm", gold, "--arm", arms[3], "--rates", "1e-3", "--train.max_steps", 2, "--train.report_to", "none"]
    call += ["--answers.generation.max_new_tokens", 8, "--answers.generation.engine", "transformers"]
    code, _, error = instruct(*call, "-q")
    assert code == 0, error
    report = Report.read("runs/bench")
    greedy = [claim for claim in report.claims if claim.measure == GREEDY]
    assert [(claim.candidate, claim.trainings, claim.n) for claim in greedy] == [("gold", 3, 12), ("v", 1, 12)]
    assert [finding(claim) for claim in greedy][1] == "one training, elsewhere"
    warnings = [warning.text for warning in report.cautions if "trained elsewhere" in warning.text]
    assert ["one training supports no claim" in text for text in warnings] == [False, True]
    assert all("its rows are not known" in text for text in warnings)
    systems = {row.system for row in report.measurements if row.part == OBJECTIVES}
    assert systems >= {"mle", "gold", "v", "mle-matched-gold"}


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


@pytest.mark.slow
def test_an_objective_of_a_stranger_goes_through_check_bench_and_a_report(tmp_path, smollm2):
    """-log p - 0.1 H(q), as docs/objectives.md says how to write it, beside MLE; every command is of the docs."""
    page = (ROOT / "docs" / "objectives.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n([^`]*class EntropyBonus[^`]*)```", page)
    (tmp_path / "my_loss.py").write_text(code)
    rows = [{"instruction": f"What is {n} plus {n + 1}?", "output": f"It is {2 * n + 1}."} for n in range(24)]
    (tmp_path / "d.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def instruct(*arguments: str) -> str:
        done = forked.run([sys.executable, "-m", "instruct", *arguments], tmp_path)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "not calibrated: flatter" in instruct("check", "my_loss.py:EntropyBonus")
    flags = ["--objectives", "mle,my_loss.py:EntropyBonus", "--seeds", "2", "--rates", "1e-3", "--testing", "4"]
    flags += ["--train.max_steps", "2", "--train.per_device_train_batch_size", "2", "--train.max_length", "64"]
    flags += ["--train.gradient_accumulation_steps", "1", "--answers.generation.max_new_tokens", "8"]
    flags += ["--answers.generation.engine", "transformers"]
    call = ["bench", "--model", smollm2, "--data", "d.jsonl", *flags]
    plan = instruct(*call, "--dry-run")
    assert "4 trainings: mle-seed1" in plan
    assert not (tmp_path / "runs" / "bench").exists()
    table = instruct(*call, "-q")
    report = Report.read(tmp_path / "runs" / "bench")
    assert report.bench.rows == {"train": 18, "choose": 2, "test": 4}
    systems = {row.system: row.details.trainings for row in report.measurements if row.part == OBJECTIVES}
    assert systems == {"mle": 2, "EntropyBonus": 2, "mle-matched-EntropyBonus": 2}
    assert next(row.value for row in report.measurements if row.metric == GIB) > 0.2
    assert [(claim.measure, claim.baseline) for claim in report.claims if claim.family == OBJECTIVES] == [
        ("cross-entropy", "mle"),
        ("ROUGE-L of greedy answers", "mle"),
        ("ROUGE-L of samples", "mle"),
        ("ROUGE-L of samples", "MLE at the entropy of EntropyBonus"),
    ]
    assert all((claim.trainings, claim.n) == (2, 4) for claim in report.claims if claim.family == OBJECTIVES)
    assert "ROUGE-L of samples: too few training seeds to compare EntropyBonus with MLE at the entropy" in table
    assert "No judge compared the answers" in (tmp_path / "runs" / "bench" / "report" / "report.html").read_text()
    page = (tmp_path / "runs" / "bench" / "report" / "report.md").read_text()
    assert not re.search(r"ROUGE-L(?![ _]of[ _]| with prefix|'s|: F1)", page)  # of greedy answers or of samples
    printed = instruct("report", "runs/bench")
    assert printed.index("cross-entropy: too few training seeds") < printed.index("Objectives\n")
    assert "2 steps, 2 seeds, 1 learning rate: a trial, not a result" in printed
    assert instruct(*call, "-q") == table  # nothing is done again
