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
from typing import TYPE_CHECKING, Any

from study import arguments_of, by_system, markdown, write_table

from instruct.base.errors import InputError
from instruct.base.output import run_guarded

if TYPE_CHECKING:
    from instruct.config import ExperimentConfig
    from instruct.run.directory import RunDirectory

PLAN = Path(__file__).parents[1] / "docs" / "results" / "instruction_smollm2" / "plan.md"
RATES = [1e-4, 3e-4, 1e-3]
LIMITS = (1e-5, 1e-2)  # rates are not extended beyond
SEEDS = "[1, 2, 3, 4, 5]"
OF_INTEREST = 0.01
SIZES = {"train": 1200, "choose": 300, "test": 500}
Row = dict[str, str]


def main() -> None:
    given, overrides = arguments_of(__doc__)
    from instruct.config import load_config
    from instruct.phases.bench import best_rate, prompt_pairs, split, try_rates
    from instruct.phases.experiment import run_experiment, run_folder
    from instruct.run.directory import RunDirectory

    plan = hashlib.sha256(PLAN.read_bytes()).hexdigest()
    plain = load_config(given.config or "instruction_smollm2", overrides)
    if not plain.data.files:
        raise InputError("no rows; give --data.files FILE")
    name = f"{plain.name}-{plan[:8]}"
    folder = Path("runs") / f"{name}-rows"
    rows = split(prompt_pairs(plain.data), SIZES, folder)

    def with_rows(suffix: str, part: str, systems: Mapping[str, Any], *flags: str) -> ExperimentConfig:
        files = ["--data.files", f"[{folder}/train.jsonl]", "--data.eval_files", f"[{folder}/{part}.jsonl]"]
        answers = ["--answers.files", f"[{folder}/{part}_prompts.json]"]
        named = ["--name", name + suffix, "--systems", json.dumps(systems)]
        return load_config(given.config or "instruction_smollm2", [*overrides, *files, *answers, *named, *flags])

    if given.dry_run:
        systems = {key: system.model_dump(mode="json") for key, system in plain.trained.items()}
        run_experiment(with_rows("", "test", systems, "--seeds", SEEDS), dry_run=True)
        return
    chosen = {}
    record: dict[str, Any] = {"plan_sha256": plan, "rates": {}}
    for key, system in plain.trained.items():
        known: dict[float, dict[str, float]] = {}

        def score(rate: float, key: str = key, system: Any = system, known: Any = known) -> float:
            one = {**system.model_dump(mode="json"), "seed": 0, "learning_rate": rate}
            alone = ("--comparisons", "[]", "--judges", "[]")
            config = with_rows(f"-{key}-{rate:g}", "choose", {key: one}, *alone)  # rates can be added later
            run_experiment(config, last="answer")
            known[rate] = chosen_by(RunDirectory(run_folder(config)), key, rows["choose"])
            return float(known[rate]["cross_entropy"])

        best = best_rate(try_rates(RATES, score, LIMITS))
        record["rates"][key] = {f"{rate:g}": known[rate] for rate in sorted(known)}
        chosen[key] = {**system.model_dump(mode="json"), "seed": None, "learning_rate": best}
    record["chosen"] = {key: system["learning_rate"] for key, system in chosen.items()}
    config = with_rows("", "test", chosen, "--seeds", SEEDS)
    run_experiment(config, last="answer")
    report(RunDirectory(run_folder(config)), sorted(config.trained), rows["test"], record)


def answers_of(run: RunDirectory, system: str) -> dict[str, str]:
    return {
        row["instruction"]: row["output"] for row in json.loads(run.answers_path(system).read_text(encoding="utf-8"))
    }


def rouge_l(row: Row, answer: str, words: int | None = None) -> float:
    """ROUGE-L F1 against the teacher's answer, without stemming; of the first `words` words of both, if given."""
    from instruct.measuring.texts.rouge import rouge

    texts = (row["output"], answer) if words is None else (cut(row["output"], words), cut(answer, words))
    return rouge(*texts)["rougeL"]


def cut(text: str, words: int) -> str:
    return " ".join(text.split()[:words])


def chosen_by(run: RunDirectory, system: str, rows: Sequence[Row]) -> dict[str, float]:
    """What a learning rate is chosen by: cross-entropy leads; ROUGE-L is the other rule."""
    from instruct.phases.bench import cross_entropy

    answers = answers_of(run, system)
    scores = [rouge_l(row, answers[row["instruction"]]) for row in rows]
    return {"cross_entropy": round(cross_entropy(run, system), 4), "rouge_l": round(statistics.fmean(scores), 4)}


def compared(first: Sequence[Sequence[float]], second: Sequence[Sequence[float]]) -> dict[str, Any]:
    """The mean difference of two systems' scores, (seeds, prompts) each, with its interval over seeds and prompts."""
    from instruct.analysis.seeds import score_difference

    named = ([dict(zip(map(str, range(len(row))), row, strict=True)) for row in rows] for rows in (first, second))
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
    from instruct.base.files import write_atomically
    from instruct.phases.bench import cross_entropy

    answers = {name: answers_of(run, name) for name in systems}
    by_objective = by_system({name: name for name in systems})
    scores = {name: [rouge_l(row, answers[name][row["instruction"]]) for row in rows] for name in systems}
    finish = run.manifest()["steps"]["answers"]["results"]
    record["systems"] = {
        name: {
            "rouge_l": statistics.fmean(scores[name]),
            "cross_entropy": cross_entropy(run, name),
            "words": statistics.fmean(len(answer.split()) for answer in answers[name].values()),
            "without_end": finish[name]["truncated"] / len(rows),
        }
        for name in systems
    }
    record["comparisons"] = {}
    for key, names in by_objective.items():
        if key == "mle":
            continue
        pairs = list(zip(names, by_objective["mle"], strict=True))
        whole = compared(*([scores[name] for name in names] for names in zip(*pairs, strict=True)))
        lengths = [[shorter(row, answers[one], answers[mle]) for row in rows] for one, mle in pairs]
        at_equal_length = compared(
            *(
                [cut_scores(rows, answers[name], words) for name, words in zip(names, lengths, strict=True)]
                for names in zip(*pairs, strict=True)
            )
        )
        record["comparisons"][key] = {
            "rouge_l": whole, "conclusion": conclusion(whole), "rouge_l_at_equal_length": at_equal_length,
        }  # fmt: skip
    write_atomically(run.folder / "results.json", json.dumps(record, indent=1) + "\n")
    write_table(run.folder / "results.md", table(record, by_objective))


def cut_scores(rows: Sequence[Row], answers: Mapping[str, str], words: Sequence[int]) -> list[float]:
    """ROUGE-L of each answer and its teacher's, both cut to that many words."""
    return [rouge_l(row, answers[row["instruction"]], count) for row, count in zip(rows, words, strict=True)]


def shorter(row: Row, first: Mapping[str, str], second: Mapping[str, str]) -> int:
    """The words of the shorter of two answers."""
    return min(len(answers[row["instruction"]].split()) for answers in (first, second))


def table(record: Mapping[str, Any], by_objective: Mapping[str, Sequence[str]]) -> list[str]:
    columns = {"ROUGE-L": "rouge_l", "cross-entropy": "cross_entropy", "words": "words", "without end": "without_end"}
    rows = []
    for key, names in by_objective.items():
        values = [[record["systems"][name][column] for name in names] for column in columns.values()]
        means = [f"{statistics.fmean(value):.4f} ± {statistics.stdev(value):.4f}" for value in values]
        rows.append([key, f"{record['chosen'][key]:g}", len(names), *means])
    lines = markdown(["objective", "learning rate", "seeds", *columns], rows)
    for key, entry in record["comparisons"].items():
        for label, result in (("ROUGE-L", entry["rouge_l"]), ("at equal length", entry["rouge_l_at_equal_length"])):
            low, high = (math.nan if result[end] is None else result[end] for end in ("low", "high"))
            lines += ["", f"{key} − mle, {label}: {result['difference']:+.4f} (95 % CI {low:+.4f} to {high:+.4f})"]
        lines += ["", f"{key}: {entry['conclusion']}"]
    return lines


if __name__ == "__main__":
    sys.exit(run_guarded(main))
