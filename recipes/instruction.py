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
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from study import by_system, markdown, mean_and_spread, recipe_arguments, run_recipe, write_table

from instruct.analysis.inference import mean_score
from instruct.base.errors import InputError
from instruct.base.files import write_atomically
from instruct.config import ExperimentConfig, load_config
from instruct.measuring.words import rouge
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
    arguments, overrides = recipe_arguments(__doc__)
    plan = hashlib.sha256(PLAN.read_bytes()).hexdigest()
    base = arguments.config or "instruction_smollm2"
    plain = load_config(base, overrides)
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
        return load_config(base, [*overrides, *files, *answers, *named, *flags])

    def tuned(key: str) -> tuple[float, dict[str, dict[str, float]]]:
        """The best learning rate, and what it is chosen by: cross-entropy leads; ROUGE-L is the other rule."""
        tried = {}

        def score(rate: float) -> float:
            system = {**systems[key], "seed": 0, "learning_rate": rate}
            alone = ("--comparisons", "[]", "--judges", "[]")  # rates can be added later
            config = with_rows(f"-{key}-{rate:g}", "choose", {key: system}, *alone)
            run_experiment(config, last="answer")
            figures, _ = measured(RunDirectory(run_folder(config.name)), key, rows["choose"])
            tried[rate] = {column: round(figures[column], 4) for column in ("cross_entropy", "rouge_l")}
            return tried[rate]["cross_entropy"]

        best = best_rate(try_rates(RATES, score, LIMITS))
        return best, {f"{rate:g}": tried[rate] for rate in sorted(tried)}

    if arguments.dry_run:
        run_experiment(with_rows("", "test", systems, "--seeds", SEEDS), dry_run=True)
        return
    record: dict[str, Any] = {"plan_sha256": plan, "rates": {}, "chosen": {}}
    for key in systems:
        record["chosen"][key], record["rates"][key] = tuned(key)
    chosen = {key: {**systems[key], "seed": None, "learning_rate": rate} for key, rate in record["chosen"].items()}
    config = with_rows("", "test", chosen, "--seeds", SEEDS)
    run_experiment(config, last="answer")
    report(RunDirectory(run_folder(config.name)), sorted(config.trained), rows["test"], record)


def measured(run: RunDirectory, system: str, rows: Sequence[Row]) -> tuple[dict[str, float], list[str]]:
    """A system's figures on the rows whose prompts it answered, as in results.json, and its answers in their order."""
    by_prompt = {row["instruction"]: row["output"] for row in json.loads(run.answers_path(system).read_bytes())}
    answers = [by_prompt[row["instruction"]] for row in rows]
    figures = {
        "rouge_l": statistics.fmean(rouge_l(rows, answers)),
        "cross_entropy": cross_entropy(run, system),
        "words": statistics.fmean(len(answer.split()) for answer in answers),
        "without_end": run.manifest()["steps"]["answers"]["results"][system]["truncated"] / len(rows),
    }
    return figures, answers


def rouge_l(rows: Sequence[Row], answers: Sequence[str], words: Sequence[int | None] | None = None) -> list[float]:
    """ROUGE-L F1 of each answer against the teacher's, without stemming; of the first `words` of both, if given."""
    cuts = zip(rows, answers, words or [None] * len(rows), strict=True)
    return [rouge(cut(row["output"], count), cut(answer, count))["rougeL"] for row, answer, count in cuts]


def cut(text: str, words: int | None) -> str:
    return " ".join(text.split()[:words])


def compared(first: Sequence[Sequence[float]], second: Sequence[Sequence[float]]) -> dict[str, Any]:
    """The mean difference of two systems' scores, (seeds, prompts) each, with its interval over seeds and prompts."""
    result = mean_score(np.array(first) - np.array(second), share=False, null=0.0)
    low, high = result.interval or (None, None)
    return {"difference": result.value, "low": low, "high": high, "p": result.p}


def conclusion(difference: Mapping[str, Any]) -> str:
    """One of the plan's three sentences."""
    if difference["low"] is None:
        return "undecided: no variation to estimate an interval from"
    if difference["low"] > 0:
        return "gain"
    if difference["high"] < OF_INTEREST:
        return f"no gain detected; gains above {max(difference['high'], 0):.4f} excluded"
    return "undecided"


def comparison(rows: Sequence[Row], ours: Sequence[Sequence[str]], mle: Sequence[Sequence[str]]) -> dict[str, Any]:
    """ROUGE-L of a system's answers against MLE's, (seeds, prompts): whole, and both cut to the shorter one's words."""
    shorter = [
        [min(len(answer.split()) for answer in both) for both in zip(*pair, strict=True)]
        for pair in zip(ours, mle, strict=True)
    ]
    whole, at_equal_length = (
        compared(*([rouge_l(rows, *pair) for pair in zip(side, words, strict=True)] for side in (ours, mle)))
        for words in ([None] * len(ours), shorter)
    )
    return {"rouge_l": whole, "conclusion": conclusion(whole), "rouge_l_at_equal_length": at_equal_length}


def report(run: RunDirectory, systems: Sequence[str], rows: Sequence[Row], record: dict[str, Any]) -> None:
    """Write results.json and results.md: each system and seed, then every system against MLE."""
    results = {name: measured(run, name, rows) for name in systems}
    record["systems"] = {name: figures for name, (figures, _) in results.items()}
    answers = by_system({name: own for name, (_, own) in results.items()})
    record["comparisons"] = {key: comparison(rows, own, answers["mle"]) for key, own in answers.items() if key != "mle"}
    write_atomically(run.folder / "results.json", json.dumps(record, indent=1) + "\n")
    write_table(run.folder / "results.md", table(record))


def table(record: Mapping[str, Any]) -> list[str]:
    rows = []
    for key, seeds in by_system(record["systems"]).items():
        means = [mean_and_spread([figures[column] for figures in seeds], 4) for column in COLUMNS.values()]
        rows.append([key, f"{record['chosen'][key]:g}", len(seeds), *means])
    lines = markdown(["objective", "learning rate", "seeds", *COLUMNS], rows)
    for key, entry in record["comparisons"].items():
        for label, result in (("ROUGE-L", entry["rouge_l"]), ("at equal length", entry["rouge_l_at_equal_length"])):
            low, high = (math.nan if result[end] is None else result[end] for end in ("low", "high"))
            lines += ["", f"{key} − mle, {label}: {result['difference']:+.4f} (95 % CI {low:+.4f} to {high:+.4f})"]
        lines += ["", f"{key}: {entry['conclusion']}"]
    return lines


if __name__ == "__main__":
    run_recipe(main)
