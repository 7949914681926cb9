"""A small language model from scratch with each objective: what a CPU can say about open-ended generation.

    python recipes/small_model.py --data.files ptb.train.txt.gz --data.eval_files ptb.valid.txt.gz \\
        --continuations.files ptb.test.txt.gz                     # about 2 hours of one free core
    python recipes/small_model.py ... --words 2000 --tuning-steps 2 --train.max_steps 4      # does it run?

Trains a word-level Llama of 2 layers on the first 500,000 words with MLE, TaiLr, MixCE, EMO (Eq. 18 and mode 2) and
energy, from three seeds; transport costs and energy's embeddings come from SmolLM2's vectors of the words. Learning
rate, and energy's weight, are chosen for each objective by validation cross-entropy (runs/NAME-tuning). Each system
then continues prefixes of the test text, 5 words by 25, and is compared with human text by perplexity, MAUVE and
diversity, next to the control: MLE sampled at the temperature that gives it the system's entropy.

The numbers are in runs/NAME/metrics.json and in the report; means over seeds are printed and written to
runs/NAME/seeds.md. Rerun the command to resume.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
from pathlib import Path
from typing import Any

from instruct.base.errors import InputError
from instruct.base.output import run_guarded
from instruct.command.arguments import recipe_arguments

SEEDS = "[1, 2, 3]"
RATES = [1e-3, 3e-3, 1e-2]
WEIGHTS = [5.0, 20.0]
SHAPE: dict[str, Any] = {"hidden_size": 128, "intermediate_size": 512, "num_hidden_layers": 2, "num_attention_heads": 4}
COLUMNS = ("perplexity", "entropy", "MAUVE", "distinct-2")


def numbers(texts: Any) -> dict[str, float | None]:
    """What is compared of a system, by COLUMNS."""
    found = {
        "perplexity": texts.perplexity and texts.perplexity.perplexity,
        "entropy": texts.entropy and texts.entropy.entropy,
        "MAUVE": texts.mauve and texts.mauve.mauve.value,
        "distinct-2": texts.diversity and texts.diversity.distinct_2 and texts.diversity.distinct_2.value,
    }
    return {name: None if value is None else float(value) for name, value in found.items()}


def seeds_table(systems: dict[str, dict[str, float | None]], columns: tuple[str, ...] = COLUMNS) -> str:
    """Means over seeds with their standard deviations; a row per system without its seed, controls below theirs."""
    groups: dict[str, list[dict[str, float | None]]] = {}
    for name, values in systems.items():
        groups.setdefault(re.sub(r"-seed\d+$", "", name), []).append(values)
    lines = [f"| system | seeds | {' | '.join(columns)} |", "| --- | --: |" + " --: |" * len(columns)]
    order = sorted(groups, key=lambda name: (name.removeprefix("mle-matched-"), name.startswith("mle-matched-")))
    for name in order:
        cells = []
        for column in columns:
            found = [value for each in groups[name] if (value := each.get(column)) is not None]
            spread = f" ± {statistics.stdev(found):.3f}" if len(found) > 1 else ""
            cells.append(f"{statistics.fmean(found):.3f}{spread}" if found else "-")
        lines.append(f"| {name} | {len(groups[name])} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--words", type=int, default=500_000)
    parser.add_argument("--vocabulary", type=int, default=8_000)
    parser.add_argument("--tuning-steps", type=int, default=122)
    own, rest = parser.parse_known_args(sys.argv[1:])
    given, overrides = recipe_arguments(rest, __doc__)

    from tuning import first_words, tuned_systems

    from instruct.base.files import write_atomically
    from instruct.base.models import EMBEDDED_MODEL
    from instruct.config import load_config
    from instruct.measuring.metrics import read_metrics
    from instruct.phases.experiment import run_experiment, run_folder
    from instruct.run.directory import RunDirectory
    from instruct.training.scratch import TABLE, make_word_model

    name = given.config or "small_model"
    plain = load_config(name, [*overrides, "--seeds", "null"])
    if not plain.data.files or not plain.data.eval_files:
        raise InputError("no corpus; give --data.files FILE and --data.eval_files FILE")
    start = Path("runs") / f"{plain.name}-start"
    rates = len(RATES) * (len(plain.trained) + len(WEIGHTS) - 1)
    print(f"plan      the first {own.words:,} words; {rates} trainings of {own.tuning_steps} steps to tune, then "
          f"{len(plain.trained)} objectives from each seed")  # fmt: skip
    first_words(plain.data.files, own.words, start / "train.txt")
    first_words(plain.data.eval_files, None, start / "valid.txt")
    make_word_model(
        start.absolute() / "model",
        [(start / "train.txt").read_text(encoding="utf-8")],
        own.vocabulary,
        EMBEDDED_MODEL,
        max_position_embeddings=256,
        **SHAPE,
    )
    files = [
        "--model.name", f"./{start}/model", "--data.files", f"[{start}/train.txt]",
        "--data.eval_files", f"[{start}/valid.txt]",
    ]  # fmt: skip
    plain = load_config(name, [*overrides, "--seeds", "null", *files])
    for system in plain.systems.values():
        system.transport_cost = str(start / "model" / TABLE) if system.objective in ("emo", "energy") else "fixed"
    if given.dry_run:
        run_experiment(plain, dry_run=True)
        return
    systems = tuned_systems(plain, RATES, WEIGHTS, own.tuning_steps)
    config = load_config(name, ["--seeds", SEEDS, *overrides, *files, "--systems", json.dumps(systems)])
    run_experiment(config, first=given.first, last=given.last)
    run = RunDirectory(run_folder(config))
    table = seeds_table({system: numbers(texts) for system, texts in read_metrics(run).texts.items()})
    write_atomically(run.folder / "seeds.md", table)
    print(f"{table}table: {run.folder / 'seeds.md'}")


if __name__ == "__main__":
    sys.exit(run_guarded(main))
