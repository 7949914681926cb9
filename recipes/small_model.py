"""A small language model from scratch with each objective: what a CPU can say about open-ended generation.

    python recipes/small_model.py --data.files ptb.train.txt.gz --data.eval_files ptb.valid.txt.gz \\
        --continuations.files ptb.test.txt.gz                     # about 2 hours of one free core
    python recipes/small_model.py ... --words 2000 --tuning-steps 2 --train.max_steps 4      # does it run?

Trains a word-level Llama of 2 layers on the first 500,000 words with MLE, TaiLr, MixCE, EMO (`official`, the default,
Eq. 18 and mode 2) and energy, from three seeds; transport costs and energy's embeddings come from SmolLM2's vectors of
the words. Learning rate, and energy's weight, are chosen for each objective by validation cross-entropy
(runs/NAME-tuning); where the MAUVE of validation continuations chooses otherwise, that choice is a system, too. Each
then continues prefixes of the test text, 5 words by 25, and is compared with human text by perplexity, MAUVE and
diversity, next to the control: MLE sampled at the temperature that gives it the system's entropy.

The numbers are in runs/NAME/metrics.json and in the report; means over seeds are printed and written to
runs/NAME/seeds.md. Rerun the command to resume.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from study import arguments_of, run_seeds

from instruct.base.errors import InputError
from instruct.base.output import run_guarded

SEEDS = "[1, 2, 3]"
RATES = [1e-3, 3e-3, 1e-2]
WEIGHTS = [5.0, 20.0]
SHAPE: dict[str, Any] = {"hidden_size": 128, "intermediate_size": 512, "num_hidden_layers": 2, "num_attention_heads": 4}
COLUMNS = ("perplexity", "entropy", "MAUVE", "distinct-2")


def main() -> None:
    given, overrides = arguments_of(
        __doc__,
        words={"type": int, "default": 500_000},
        vocabulary={"type": int, "default": 8_000},
        tuning_steps={"type": int, "default": 122},
    )

    from scratch import TABLE, make_word_model
    from tuning import first_words, tuned_systems

    from instruct.base.models import EMBEDDED_MODEL
    from instruct.config import load_config
    from instruct.phases.experiment import run_experiment

    name = given.config or "small_model"
    plain = load_config(name, [*overrides, "--seeds", "null"])
    if not plain.data.files or not plain.data.eval_files:
        raise InputError("no corpus; give --data.files FILE and --data.eval_files FILE")
    start = Path("runs") / f"{plain.name}-start"
    rates = len(RATES) * (len(plain.trained) + len(WEIGHTS) - 1)
    print(
        f"plan      the first {given.words:,} words; {rates} trainings of {given.tuning_steps} steps to tune, then "
        f"{len(plain.trained)} objectives from each seed"
    )
    first_words(plain.data.files, given.words, start / "train.txt")
    first_words(plain.data.eval_files, None, start / "valid.txt")
    make_word_model(
        start.absolute() / "model",
        [(start / "train.txt").read_text(encoding="utf-8")],
        given.vocabulary,
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
    systems = tuned_systems(plain, RATES, WEIGHTS, given.tuning_steps, "mauve")
    config = load_config(name, ["--seeds", SEEDS, *overrides, *files, "--systems", json.dumps(systems)])
    run_seeds(config, given, "seeds.md", COLUMNS)


if __name__ == "__main__":
    sys.exit(run_guarded(main))
