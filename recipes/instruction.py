"""Does an objective help a small chat model to answer as its teacher does? Several seeds, a test fixed in advance.

    python recipes/instruction.py --data.files alpaca_gpt4.jsonl      # about seven hours of two free cores

Splits the rows into three disjoint sets: 1,200 to train on, 300 to choose by, 500 to test on. Trains each objective
with each learning rate from seed 0 (runs/NAME-OBJECTIVE-RATE), extends the rates while one at the edge is best, and
chooses by cross-entropy on the second set. Trains each objective again with the chosen rate from five other seeds
(runs/NAME), answers the test prompts greedily, and compares ROUGE-L with the teacher's answers, paired by prompt and
seed.

What is tested, and what would be concluded, is in docs/results/instruction_smollm2/plan.md, written before the first
training; its hash is part of the runs' names. Rerun the command to resume.
"""

from __future__ import annotations

import hashlib
import json
import math
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from study import by_system, markdown, recipe_arguments, write_table

from instruct.analysis.seeds import score_difference
from instruct.base.errors import InputError
from instruct.base.files import write_atomically
from instruct.base.output import run_guarded
from instruct.config import ExperimentConfig, load_config
from instruct.measuring.texts.rouge import rouge
from instruct.phases.bench import best_rate, cross_entropy, prompt_pairs, split, try_rates
from instruct.phases.experiment import run_experiment, run_folder
from instruct.run.directory import RunDirectory

PLAN = Path(__file__).parents[1] / "docs" / "results" / "instruction_smollm2" / "plan.md"
RATES = [1e-4, 3e-4, 1e-3]
LIMITS = (1e-5, 1e-2)  # rates are not extended beyond
SEEDS = "[1, 2, 3, 4, 5]"
OF_INTEREST = 0.01
SIZES = {"train": 1200, "choose": 300, "test": 500}
COLUMNS = {"ROUGE-L": "rouge_l", "cross-entropy": "cross_entropy", "words": "words", "without end": "without_end"}
Row = dict[str, str]


def main() -> None:
    given, overrides = recipe_arguments(sys.argv[1:], __doc__)
    plan = hashlib.sha256(PLAN.read_bytes()).hexdigest()
    plain = load_config(given.config or "instruction_smollm2", overrides)
    if not plain.data.files:
        raise InputError("no rows; give --data.files FILE")
    name = f"{plain.name}-{plan[:8]}"
    folder = Path("runs") / f"{name}-rows"
    rows = split(prompt_pairs(plain.data), SIZES, folder)
    systems = {key: system.model_dump(mode="json") for key, system in plain.trained.items()}

    def with_rows(suffix: str, part: str, systems: Mapping[str, Any], *flags: str) -> ExperimentConfig:
        files = ["--data.files", f"[{folder}/train.jsonl]", "--data.eval_files", f"[{folder}/{part}.jsonl]"]
        answers = ["--answers.files", f"[{folder}/{part}_prompts.json]"]
        named = ["--name", name + suffix, "--systems", json.dumps(systems)]
        return load_config(given.config or "instruction_smollm2", [*overrides, *files, *answers, *named, *flags])

    def tried(key: str, rate: float) -> dict[str, float]:
        """What a learning rate is chosen by: cross-entropy leads; ROUGE-L is the other rule."""
        system = {**systems[key], "seed": 0, "learning_rate": rate}
        alone = ("--comparisons", "[]", "--judges", "[]")  # rates can be added later
        config = with_rows(f"-{key}-{rate:g}", "choose", {key: system}, *alone)
        run_experiment(config, last="answer")
        run = RunDirectory(run_folder(config))
        scores = rouge_l(rows["choose"], answers_of(run, key, rows["choose"]))
        return {"cross_entropy": round(cross_entropy(run, key), 4), "rouge_l": round(statistics.fmean(scores), 4)}

    if given.dry_run:
        run_experiment(with_rows("", "test", systems, "--seeds", SEEDS), dry_run=True)
        return
    record: dict[str, Any] = {"plan_sha256": plan, "rates": {}, "chosen": {}}
    for key in systems:
        known: dict[float, dict[str, float]] = {}

        def score(rate: float, key: str = key, known: dict[float, dict[str, float]] = known) -> float:
            known[rate] = tried(key, rate)
            return known[rate]["cross_entropy"]

        record["chosen"][key] = best_rate(try_rates(RATES, score, LIMITS))
        record["rates"][key] = {f"{rate:g}": known[rate] for rate in sorted(known)}
    chosen = {key: {**systems[key], "seed": None, "learning_rate": rate} for key, rate in record["chosen"].items()}
    config = with_rows("", "test", chosen, "--seeds", SEEDS)
    run_experiment(config, last="answer")
    report(RunDirectory(run_folder(config)), sorted(config.trained), rows["test"], record)


def answers_of(run: RunDirectory, system: str, rows: Sequence[Row]) -> list[str]:
    """A system's answers to the prompts of rows, in their order."""
    answers = json.loads(run.answers_path(system).read_text(encoding="utf-8"))
    by_prompt = {answer["instruction"]: answer["output"] for answer in answers}
    return [by_prompt[row["instruction"]] for row in rows]


def rouge_l(rows: Sequence[Row], answers: Sequence[str], words: Sequence[int] | None = None) -> list[float]:
    """ROUGE-L F1 of each answer against the teacher's, without stemming; of the first `words` of both, if given."""
    pairs = [(row["output"], answer) for row, answer in zip(rows, answers, strict=True)]
    if words is not None:
        pairs = [(cut(ours, count), cut(theirs, count)) for (ours, theirs), count in zip(pairs, words, strict=True)]
    return [rouge(*pair)["rougeL"] for pair in pairs]


def cut(text: str, words: int) -> str:
    return " ".join(text.split()[:words])


def compared(first: Sequence[Sequence[float]], second: Sequence[Sequence[float]]) -> dict[str, Any]:
    """The mean difference of two systems' scores, (seeds, prompts) each, with its interval over seeds and prompts."""
    named = ([{str(place): score for place, score in enumerate(row)} for row in rows] for rows in (first, second))
    result = score_difference(*named)
    low, high = result.interval or (None, None)
    return {"difference": result.difference, "low": low, "high": high, "p": result.p}


def conclusion(difference: Mapping[str, Any]) -> str:
    """One of the plan's three sentences."""
    if difference["low"] is None:
        return "undecided: no variation to estimate an interval from"
    if difference["low"] > 0:
        return "gain"
    if difference["high"] < OF_INTEREST:
        return f"no gain detected; gains above {max(difference['high'], 0):.4f} excluded"
    return "undecided"


def report(run: RunDirectory, systems: Sequence[str], rows: Sequence[Row], record: dict[str, Any]) -> None:
    """Write results.json and results.md: each system and seed, then every system against MLE."""
    answers = {name: answers_of(run, name, rows) for name in systems}
    words = {name: [len(answer.split()) for answer in answers[name]] for name in systems}
    scores = {name: rouge_l(rows, answers[name]) for name in systems}
    finish = run.manifest()["steps"]["answers"]["results"]
    record["systems"] = {
        name: {
            "rouge_l": statistics.fmean(scores[name]),
            "cross_entropy": cross_entropy(run, name),
            "words": statistics.fmean(words[name]),
            "without_end": finish[name]["truncated"] / len(rows),
        }
        for name in systems
    }
    record["comparisons"] = {}
    by_objective = by_system({name: name for name in systems})
    for key in by_objective:
        if key == "mle":
            continue
        sides = by_objective[key], by_objective["mle"]
        shorter = [list(map(min, words[one], words[mle])) for one, mle in zip(*sides, strict=True)]
        whole = compared(*([scores[name] for name in side] for side in sides))
        at_equal_length = compared(
            *([rouge_l(rows, answers[name], most) for name, most in zip(side, shorter, strict=True)] for side in sides)
        )
        record["comparisons"][key] = {"rouge_l": whole, "conclusion": conclusion(whole)}
        record["comparisons"][key]["rouge_l_at_equal_length"] = at_equal_length
    write_atomically(run.folder / "results.json", json.dumps(record, indent=1) + "\n")
    write_table(run.folder / "results.md", table(record, by_objective))


def table(record: Mapping[str, Any], by_objective: Mapping[str, Sequence[str]]) -> list[str]:
    rows = []
    for key, names in by_objective.items():
        values = [[record["systems"][name][column] for name in names] for column in COLUMNS.values()]
        means = [f"{statistics.fmean(value):.4f} ± {statistics.stdev(value):.4f}" for value in values]
        rows.append([key, f"{record['chosen'][key]:g}", len(names), *means])
    lines = markdown(["objective", "learning rate", "seeds", *COLUMNS], rows)
    for key, entry in record["comparisons"].items():
        for label, result in (("ROUGE-L", entry["rouge_l"]), ("at equal length", entry["rouge_l_at_equal_length"])):
            low, high = (math.nan if result[end] is None else result[end] for end in ("low", "high"))
            lines += ["", f"{key} − mle, {label}: {result['difference']:+.4f} (95 % CI {low:+.4f} to {high:+.4f})"]
        lines += ["", f"{key}: {entry['conclusion']}"]
    return lines


if __name__ == "__main__":
    sys.exit(run_guarded(main))
