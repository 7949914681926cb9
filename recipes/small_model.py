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
from pathlib import Path

from scratch import SHAPE, TABLE, make_word_model
from study import SEEDS, WEIGHTS, plain_config, recipe_arguments, run_recipe, run_seeds, tuned_systems

from instruct.base.errors import InputError
from instruct.base.files import write_atomically
from instruct.base.models import EMBEDDED_MODEL
from instruct.base.output import say
from instruct.config import load_config
from instruct.data.rows import load_rows
from instruct.phases.experiment import run_experiment

RATES = [1e-3, 3e-3, 1e-2]
COLUMNS = ("perplexity", "entropy", "MAUVE", "distinct-2")


def main() -> None:
    sizes = {"words": 500_000, "vocabulary": 8_000, "tuning_steps": 122}
    flags = {name: {"type": int, "default": size} for name, size in sizes.items()}
    options, overrides = recipe_arguments(__doc__, **flags)
    name = options.config or "small_model"
    plain = plain_config(name, overrides)
    if not plain.data.files or not plain.data.eval_files:
        raise InputError("no corpus; give --data.files FILE and --data.eval_files FILE")
    start = Path("runs") / f"{plain.name}-start"
    rates = len(RATES) * (len(plain.trained) + len(WEIGHTS) - 1)
    say(
        f"plan      the first {options.words:,} words; {rates} trainings of {options.tuning_steps} steps to tune, then "
        f"{len(plain.trained)} objectives from each seed"
    )
    train, valid, model = start / "train.txt", start / "valid.txt", start / "model"
    first_words(plain.data.files, options.words, train)
    first_words(plain.data.eval_files, None, valid)
    shape = {**SHAPE, "max_position_embeddings": 256}
    make_word_model(model.absolute(), [train.read_text(encoding="utf-8")], options.vocabulary, EMBEDDED_MODEL, **shape)
    files = ["--model.name", f"./{model}", "--data.files", f"[{train}]", "--data.eval_files", f"[{valid}]"]
    plain = plain_config(name, overrides, *files, cost=str(model / TABLE))
    if options.dry_run:
        run_experiment(plain, dry_run=True)
        return
    systems = tuned_systems(plain, RATES, options.tuning_steps, "mauve")
    config = load_config(name, ["--seeds", SEEDS, *overrides, *files, "--systems", json.dumps(systems)])
    run_seeds(config, options, "seeds.md", COLUMNS)


def first_words(files: list[str], words: int | None, to: Path) -> None:
    """Write the first `words` words (None: all) of text files to one file, whole lines."""
    kept, count = [], 0
    for row in load_rows(None, files=files, documents="line", format="text").rows:
        if words is not None and count >= words:
            break
        kept.append(str(row["text"]))
        count += len(kept[-1].split())
    write_atomically(to, "\n".join(kept) + "\n")


if __name__ == "__main__":
    run_recipe(main)
