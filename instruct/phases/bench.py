"""`instruct bench`: objectives side by side, from a model and data to one table. What is done is not done again."""

from __future__ import annotations

import hashlib
import json
import math
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from instruct.base.errors import InputError, InstructError, Problems, counted, one_line
from instruct.base.files import write_atomically
from instruct.base.models import model_path
from instruct.base.options import Options
from instruct.base.output import say
from instruct.config import ExperimentConfig, make_config
from instruct.data.options import DataOptions, data_label, template_of
from instruct.data.prompts import EvalPrompt
from instruct.data.rows import load_rows
from instruct.engines.local import load_tokenizer
from instruct.generation.options import AnswerOptions, EngineConfig
from instruct.phases.experiment import run_experiment, run_folder, run_phases
from instruct.run.directory import RunDirectory
from instruct.training.options import SystemOptions, without_seed

if TYPE_CHECKING:
    from instruct.reporting.report import Report

RATES = [1e-4, 3e-4, 1e-3]
LIMITS = (1e-6, 1e-1)  # rates are not extended beyond
CHOOSING_SEED = 0
PARTS = ("train", "choose", "test")
Pair = dict[str, str]


class BenchOptions(Options):
    """What `instruct bench` adds to a config."""

    objectives: list[str] = []
    """Objectives to compare, mle among them: names, or FILE.py:NAME (default: the config's systems)."""
    seeds: int = Field(default=3, ge=1)
    """Train each objective with this number of seeds, from 1 up; fewer than three support no claim."""
    rates: list[float] = Field(default=RATES, min_length=1)
    """Learning rates to choose from; more are tried while one at the edge is best, and a single one is just taken."""
    choosing: int | None = Field(default=None, ge=1)
    """Rows for choosing learning rates, not scored (default: a tenth, at most 300)."""
    testing: int | None = Field(default=None, ge=2)
    """Rows to score (default: a fifth, at most 500)."""
    tasks: list[str] = []
    """Tasks to ask each system and the untrained base, as in `instruct evaluate --tasks`."""
    judge: str | None = None
    """The judge that compares the answers with those of mle (default: none)."""


def bench(config: ExperimentConfig, options: BenchOptions, dry_run: bool = False) -> Report | None:
    """Choose each objective's learning rate, train it with several seeds, measure and compare. Rerun it to resume.

    Rows are split into three sets with different prompts. Each objective is trained with each rate and seed 0 (runs/
    NAME-OBJECTIVE-RATE); that of the lowest cross-entropy on the second set is taken, by the same rule for all. Then
    each is trained with the seeds 1, 2, ... (runs/NAME), answers the third set's prompts greedily and continues them
    by samples, beside MLE at the temperature that gives it the objective's entropy.

    Args:
        config: the model, the data, the training; its systems are the objectives.
        dry_run: print what would be done, and stop.

    Raises:
        InputError: the config sets what the bench sets itself, or there are too few rows.
    """
    from instruct.reporting.bench import STEP
    from instruct.reporting.report import print_written, written_report

    benched = Bench(config, options, run_folder(f"{config.name}-rows"))
    benched.check()
    first = dict.fromkeys(config.trained, options.rates[0])
    if dry_run:
        with tempfile.TemporaryDirectory() as rows:
            final, _ = replace(benched, folder=Path(rows)).plan(first)
            run_experiment(final, dry_run=True)
        return None
    final, sizes = benched.plan(first)
    scores: dict[str, dict[float, float]] = {}
    if len(options.rates) > 1:
        scores = {key: benched.tried_rates(key) for key in first}
        final = benched.final(sizes["test"], {key: best_rate(tried) for key, tried in scores.items()})
    _, failure = run_phases(final, False, "train", "judge")
    run = RunDirectory(run_folder(final.name))
    tried = {
        key: {f"{rate:g}": score if math.isfinite(score) else None for rate, score in by_rate.items()}
        for key, by_rate in scores.items()
    }
    with run.step(STEP, {"rows": sizes, "rates": tried, "data": data_label(config.data.model_dump())}):
        pass  # the report makes the table of it
    report = written_report(run.folder, failure=failure)
    print_written(report, run.folder)
    if failure:
        raise failure
    return report


@dataclass(frozen=True)
class Bench:
    """The experiments of a bench, whose sets of rows are in `folder`."""

    config: ExperimentConfig
    options: BenchOptions
    folder: Path

    def check(self) -> None:
        """Refuse what the bench sets itself, and data that it cannot split."""
        config, problems = self.config, Problems()
        say_so = problems.found.append
        trained = config.trained
        if "mle" not in trained or trained["mle"].objective != "mle" or len(trained) + len(_arms(config.systems)) < 2:
            say_so("bench: compares objectives with mle; name it and another in `objectives`, or adapters in `arm`")
        if "base" in trained or "base" in _arms(config.systems):
            say_so("bench: base is the untrained model's name; give that system another")
        if any(system.seed is not None for system in trained.values()) or "seed" in config.train:
            say_so("bench: sets the seeds itself; remove those of the config, and give their number as `seeds`")
        if "learning_rate" in config.train or any(system.learning_rate for system in trained.values()):
            say_so("bench: chooses each objective's learning rate; remove learning_rate, and give `rates`")
        data, answers, defaults = config.data, config.answers, AnswerOptions()
        if answers is None:
            say_so("bench: compares answers; remove answers: null from the config")
        set_here = {key: getattr(config, key) for key in ("comparisons", "continuations")}
        set_here |= {f"data.{key}": getattr(data, key) for key in ("eval_files", "eval_fraction")}
        for key in ("eval_set", "files", "limit", "cluster_column"):
            set_here[f"answers.{key}"] = answers and getattr(answers, key) != getattr(defaults, key)
        for key in ("temperature", "card_temperatures"):
            changed = answers and getattr(answers.generation, key) != getattr(defaults.generation, key)
            set_here[f"answers.generation.{key}"] = changed
        if named := ", ".join(key for key, value in set_here.items() if value):
            say_so(f"bench: sets {named} itself, by the rows that it tests (`testing`); remove it from the config")
        if data.mixture or not (data.files or data.card):
            one = "a mixture" if data.mixture else "none"
            say_so(f"bench: splits the rows of one data set, not of {one}; set data.files")
        problems.refuse()

    def plan(self, rates: Mapping[str, float]) -> tuple[ExperimentConfig, dict[str, int]]:
        """Split the rows and print what will be trained.

        Returns:
            The experiment of the table, and the sizes of the sets of rows.
        """
        options = self.options
        sizes = self._write_rows()
        final = self.final(sizes["test"], rates)
        say(f"rows      {', '.join(f'{sizes[part]:,} to {part}' for part in PARTS)}")
        listed = ", ".join(f"{rate:g}" for rate in options.rates)
        if len(options.rates) > 1:
            trainings = counted(len(rates) * len(options.rates), "training")
            edge = "more where one at the edge is best"
            say(f"rates     {trainings} with seed {CHOOSING_SEED} choose from {listed}; {edge}")
        else:
            say(f"rates     {listed} for every objective, not chosen: give several `rates` to choose")
        say(f"table     {counted(len(final.trained), 'training')}: {', '.join(final.trained)}")
        for name, paths in _arms(final.systems).items():
            say(f"elsewhere {name}: {counted(len(paths), 'training')}, on rows that are not known: {', '.join(paths)}")
        return final, sizes

    def _write_rows(self) -> dict[str, int]:
        """Split the rows into files of `folder`, those of the test also as prompts and as prefixes of samples."""
        config, options, folder = self.config, self.options, self.folder
        pairs = prompt_pairs(config.data)
        sizes = {
            "choose": options.choosing or min(300, len(pairs) // 10),
            "test": options.testing or min(500, len(pairs) // 5),
        }
        sizes = {"train": len(pairs) - sum(sizes.values()), **sizes}
        if min(sizes.values()) < 1 or sizes["test"] < 2:
            raise InputError(
                f"bench: {counted(len(pairs), 'different prompt')} with one answer each give {sizes['train']} rows to "
                f"train, {sizes['choose']} to choose and {sizes['test']} to test; give more, or lower `choosing` and "
                "`testing`"
            )
        sets = split(pairs, sizes, folder)
        tokenizer = load_tokenizer(f"model {config.model.name}", model_path(config.model.name), config.model.revision)
        rendering = config.data.rendering(RunDirectory(run_folder(config.name)).day)
        rendering.prepare(tokenizer)
        begin = tokenizer.bos_token if tokenizer("a")["input_ids"][:1] == [tokenizer.bos_token_id] else None
        lines = []
        for pair in sets["test"]:
            prompt = EvalPrompt(pair["instruction"], "").render(template_of(config.data))
            text = prompt if isinstance(prompt, str) else rendering.render(tokenizer, prompt, prompt=True)
            # The tokenizer writes its beginning-of-sequence token itself.
            prefix = text.removeprefix(begin or "")
            lines.append({"id": pair["instruction"], "prefix": prefix, "reference": pair["output"]})
        write_atomically(folder / "test_prefixes.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
        return {part: len(sets[part]) for part in PARTS}

    def final(self, tested: int, rates: Mapping[str, float]) -> ExperimentConfig:
        """The experiment of the table; `tested`: the rows that are scored, which the plan counts."""
        config, options = self.config, self.options
        content = self._with_rows()
        answers = config.answers.model_dump(mode="json") if config.answers else {}
        generation = answers["generation"]
        sampling = {name: generation[name] for name in ("max_new_tokens", *EngineConfig.model_fields)}
        sampling["min_new_tokens"] = 0
        systems = {
            key: {**system.model_dump(mode="json"), **({"learning_rate": rates[key]} if key in rates else {})}
            for key, system in config.systems.items()
            if not system.adapter
        }
        arms = _arms(config.systems)
        evaluation = dict(content["evaluation"] or {})
        texts = evaluation.get("texts") or {}
        evaluation["texts"] = {
            **texts,
            "metrics": texts.get("metrics") or ["perplexity", "entropy", "rouge", "diversity"],
        }
        if options.tasks:
            tasks = evaluation.get("tasks") or {}
            evaluation["tasks"] = {**tasks, "names": [*dict.fromkeys([*tasks.get("names", []), *options.tasks])]}
            if len(systems) == len(config.trained):
                systems["base"] = {"objective": "none"}
        content |= {
            "systems": systems | {name: {"adapter": sources} for name, sources in arms.items()},
            "seeds": list(range(1, options.seeds + 1)),
            "answers": answers | {"files": [f"{self.folder}/test_prompts.json"], "limit": None},
            "continuations": {"files": [f"{self.folder}/test_prefixes.jsonl"], "limit": tested, "generation": sampling},
            "evaluation": evaluation,
            "judges": [*content["judges"], *([{"card": options.judge}] if options.judge else [])],
            "comparisons": [(key, "mle") for key in (*config.trained, *arms) if key != "mle"],
        }
        return make_config(content, [], "bench")

    def tried_rates(self, key: str) -> dict[float, float]:
        """Cross-entropy on the rows that choose, by rate; infinite where training failed."""

        def score(rate: float) -> float:
            candidate = self.candidate(key, rate)
            try:
                run_experiment(candidate, last="train")
            except InputError:
                raise
            except InstructError as error:  # it diverged
                say(f"note      {key} with {rate:g}: {error}")
                return math.inf
            return cross_entropy(RunDirectory(run_folder(candidate.name)), key)

        return try_rates(self.options.rates, score)

    def candidate(self, key: str, rate: float) -> ExperimentConfig:
        """The training of one objective with one rate, evaluated on the rows that choose."""
        system = {**self.config.trained[key].model_dump(mode="json"), "seed": CHOOSING_SEED, "learning_rate": rate}
        content = self._with_rows() | {
            "name": f"{self.config.name}-{key}-{rate:g}",
            "systems": {key: system},
            "answers": None,
            "evaluation": None,
            "judges": [],
        }
        return make_config(content, [], "bench")

    def _with_rows(self) -> dict[str, Any]:
        """The config with the rows that are split."""
        config, folder = self.config, self.folder
        files = {"files": [f"{folder}/train.jsonl"], "eval_files": [f"{folder}/choose.jsonl"]}
        read = dict.fromkeys(("card", "limit", "documents", "on_bad_row"))  # what reads the rows, to split them
        own = read | {"template": template_of(config.data), "eval_samples": 0}
        return {**config.model_dump(mode="json"), "data": {**config.data.model_dump(mode="json"), **own, **files}}


def _arms(systems: Mapping[str, SystemOptions]) -> dict[str, list[str]]:
    """What was trained elsewhere: by name the weights of each training."""
    arms: dict[str, list[str]] = {}
    for name, system in systems.items():
        if system.adapter:
            arms.setdefault(without_seed(name, system.seed), []).extend(system.adapter)
    return arms


def arms_as_systems(arms: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The systems that `NAME=ADAPTER` name; several adapters of a name, also after commas, are its trainings.

    Raises:
        InputError: there is no name or no adapter, or it is the same twice.
    """
    sources: dict[str, list[str]] = {}
    for arm in arms:
        name, _, paths = arm.partition("=")
        if not name or not all(paths.split(",")):
            raise InputError(f"`arm` {one_line(arm, 100)}: write NAME=ADAPTER, or NAME=ADAPTER,ADAPTER for seeds")
        sources.setdefault(name, []).extend(paths.split(","))
    for name, given in sources.items():
        if twice := [path for path, times in Counter(given).items() if times > 1]:
            raise InputError(f"`arm` {name}: {one_line(twice[0], 200)} is given twice; one training is one seed")
    return {name: {"adapter": given} for name, given in sources.items()}


def objectives_as_systems(
    objectives: Sequence[str], systems: Mapping[str, dict[str, Any]] | None = None
) -> dict[str, dict[str, Any]]:
    """The systems that `objectives` name: of a config's `systems`, else by objective; one of a file is called like its
    class.

    Raises:
        InputError: two have one name.
    """
    names = [objective.rpartition(":")[2] for objective in objectives]
    if twice := [name for name, times in Counter(names).items() if times > 1]:
        raise InputError(f"`objectives`: {twice[0]} is given twice; remove one, or name systems in a config")
    own = systems or {}
    return {name: own.get(name, {"objective": objective}) for name, objective in zip(names, objectives, strict=True)}


def prompt_pairs(data: DataOptions) -> list[Pair]:
    """The first row of each prompt that is one message with one answer: `instruction` and `output`.

    Raises:
        InputError: plain texts, or chats of several turns alone.
    """
    rows = load_rows(**{**data.reading(), "template": "chat"}, limit=data.limit, on_bad_row=data.on_bad_row)
    pairs: dict[str, Pair] = {}
    others = 0
    for row in rows.rows:
        if len(row.get("prompt", ())) != 1 or "completion" not in row:
            others += 1
            continue
        prompt, output = row["prompt"][0]["content"], row["completion"][0]["content"]
        pairs.setdefault(prompt, {"instruction": prompt, "output": output})
    if others:
        why = "not one prompt with one answer (texts, several turns, a system turn)"
        say(f"note      {counted(others, 'row')} left out: {why}")
    return list(pairs.values())


def split(pairs: Sequence[Pair], sizes: Mapping[str, int], folder: Path) -> dict[str, list[Pair]]:
    """Disjoint sets of pairs with different prompts, by the order of their hashes, whatever their own order is.

    Each is written to `folder` as PART.jsonl to train on, and as PART_prompts.json to answer.

    Raises:
        InputError: there are too few pairs.
    """
    order = sorted(pairs, key=lambda pair: hashlib.sha256(pair["instruction"].encode()).hexdigest())
    if len(order) < sum(sizes.values()):
        raise InputError(f"{len(order)} different prompts; {sum(sizes.values())} are needed")
    folder.mkdir(parents=True, exist_ok=True)
    sets, first = {}, 0
    for part, size in sizes.items():
        sets[part] = [{**pair, "generator": "teacher"} for pair in order[first : first + size]]
        first += size
        own = [{"instruction": pair["instruction"], "output": pair["output"]} for pair in sets[part]]
        write_atomically(folder / f"{part}.jsonl", "".join(json.dumps(pair) + "\n" for pair in own))
        write_atomically(folder / f"{part}_prompts.json", json.dumps(sets[part], indent=1))
    return sets


def try_rates(
    rates: Sequence[float], score: Callable[[float], float], limits: tuple[float, float] = LIMITS
) -> dict[float, float]:
    """The score of each rate, and of those beyond the edge while one there has the lowest."""
    scores = {rate: score(rate) for rate in rates}
    while further := beyond(best_rate(scores), list(scores), limits):
        scores[further] = score(further)
    return dict(sorted(scores.items()))


def best_rate(scores: Mapping[float, float]) -> float:
    """The rate with the lowest score; of equal ones the first."""
    return min(scores, key=lambda rate: (math.isnan(scores[rate]), scores[rate]))


def beyond(best: float, rates: Sequence[float], limits: tuple[float, float] = LIMITS) -> float | None:
    """The rate to try next if the best one is at the edge of those tried."""
    if best == min(rates):
        further = best / 3
    elif best == max(rates):
        further = best * 3
    else:
        return None
    further = float(f"{further:.0e}")
    return further if limits[0] <= further <= limits[1] else None


def cross_entropy(run: RunDirectory, system: str) -> float:
    """Of the rows that a system was evaluated on while it was trained, in nats per token."""
    return float(run.manifest()["steps"][f"train/{system}"]["results"]["evaluation"]["kept"]["ce"])
