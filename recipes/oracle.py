"""A known truth: a generator's unbiased samples are the data, and each objective's model learns them (Table 2).

    python recipes/oracle.py                     # with a GPU: GPT-2 large writes, GPT-2 learns; without: SmolLM2 and a
                                                 # small model from scratch with SmolLM2's tokens
    python recipes/oracle.py --train 40 --valid 10 --test 210 --tuning-steps 2 --train.max_steps 4 \\
        --name oracle_try                        # does it run?

Since the generator is the truth, its probabilities say what samples cannot: PPL_oracle of what a model writes (low:
precision), forward and reverse cross-entropy between the two distributions, next to PPL_test, MAUVE and ROUGE. Learning
rate, and energy's weight, are chosen for each objective by cross-entropy on the generator's validation texts. The
control of each system is MLE sampled at the temperature that gives it the system's entropy. tabular_truth.py is the
exact sister of this recipe.

The generator is the config's evaluation.texts.reference_model. Its texts are in runs/NAME-texts; means over seeds are
printed next to the paper's figures and written to runs/NAME/oracle.md. Rerun the command to resume.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from instruct.base.errors import InputError
from instruct.base.output import run_guarded
from instruct.command.arguments import recipe_arguments

if TYPE_CHECKING:
    from instruct.config import ExperimentConfig

SEEDS = "[1, 2, 3]"
RATES = {True: [1e-3, 3e-3, 1e-2], False: [2e-5, 5e-5, 1e-4]}  # from scratch, fine-tuning
WEIGHTS = [5.0, 20.0]
SHAPE: dict[str, Any] = {
    "hidden_size": 128, "intermediate_size": 512, "num_hidden_layers": 2, "num_attention_heads": 4,
    "max_position_embeddings": 512,
}  # fmt: skip
COLUMNS = ("PPL_test", "PPL_oracle", "MAUVE", "ROUGE-1", "ROUGE-L", "forward CE", "reverse CE", "entropy")
PAPER = """
The paper's Table 2 (GPT-2 large writes, GPT-2 learns; ROUGE over prefix and continuation, in percent; no control):

| the paper's | PPL_oracle | MAUVE | ROUGE-1 | ROUGE-L |
| --- | --: | --: | --: | --: |
| MLE | 114.46 | 77.5 | 34.59 | 29.85 |
| TaiLr | 95.22 | 77.4 | 34.95 | 30.09 |
| MixCE | 79.46 | 78.4 | 35.31 | 30.26 |
| EMO | 55.85 | 83.4 | 37.37 | 31.17 |
"""


def generated_texts(config: ExperimentConfig, counts: dict[str, int], folder: Path) -> dict[str, str]:
    """The generator's unbiased samples from nothing: folder/NAME.jsonl, without blank texts."""
    from sampling import sampled_continuations, write_texts

    from instruct.base.files import write_atomically

    generator, options = config.text_metrics.reference_model, config.continuations
    assert generator
    assert options
    folder.mkdir(parents=True, exist_ok=True)
    start = folder / "nothing.txt"
    write_atomically(start, "Every text begins before this one.\n")
    generation = options.generation.model_dump(mode="json")
    continuations = {
        "files": [str(start)],
        "prefix": "0 tokens",
        "samples": sum(counts.values()),
        "generation": {**generation, "max_new_tokens": config.train["max_length"] - 1, "min_new_tokens": 0},
    }
    rows = iter(sampled_continuations(f"{config.name}-generator", generator, continuations))
    files = {}
    for name, count in counts.items():
        texts = [row.continuation for row in itertools.islice(rows, count)]
        files[name] = str(folder / f"{name}.jsonl")
        write_texts(folder / f"{name}.jsonl", filter(str.strip, texts))
    return files


def numbers(texts: Any) -> dict[str, float | None]:
    """What is compared of a system, by COLUMNS."""
    found = {
        "PPL_test": texts.perplexity and texts.perplexity.perplexity,
        "PPL_oracle": texts.oracle_perplexity and texts.oracle_perplexity.perplexity,
        "MAUVE": texts.mauve and texts.mauve.mauve.value,
        "ROUGE-1": texts.rouge and texts.rouge.rouge1,
        "ROUGE-L": texts.rouge and texts.rouge.rougeL,
        "forward CE": texts.distances and texts.distances.forward_cross_entropy,
        "reverse CE": texts.distances and texts.distances.reverse_cross_entropy,
        "entropy": texts.entropy and texts.entropy.entropy,
    }
    return {name: None if value is None else float(value) for name, value in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for name in ("train", "valid", "test", "tuning-steps"):
        parser.add_argument(f"--{name}", type=int)
    own, rest = parser.parse_known_args(sys.argv[1:])
    given, overrides = recipe_arguments(rest, __doc__)

    import torch
    from small_model import seeds_table
    from tuning import tuned_systems

    from instruct.base.files import write_atomically
    from instruct.base.models import model_path
    from instruct.config import load_config
    from instruct.measuring.metrics import read_metrics
    from instruct.phases.experiment import run_experiment, run_folder
    from instruct.run.directory import RunDirectory
    from instruct.training.scratch import make_small_model

    gpu = torch.cuda.is_available()
    name = given.config or ("oracle" if gpu else "oracle_smollm2")
    plain = load_config(name, [*overrides, "--seeds", "null"])
    generator = plain.text_metrics.reference_model
    if generator is None or plain.continuations is None:
        raise InputError(f"{plain.name}: has no generator; set evaluation.texts.reference_model, and continuations")
    defaults = (250_000, 5_000, 5_000) if gpu else (1_000, 100, 500)
    sizes = dict(zip(("train", "valid", "test"), defaults, strict=True))
    counts = {part: getattr(own, part) or size for part, size in sizes.items()}
    steps = own.tuning_steps or (1_000 if gpu else 60)
    print(
        f"plan      {generator.name} writes {sum(counts.values()):,} texts; {steps} steps for each point of a grid to "
        f"tune; then {len(plain.trained)} objectives from each seed"
    )
    if given.dry_run:
        return
    texts = generated_texts(plain, counts, Path("runs") / f"{plain.name}-texts")
    flags = [
        "--data.files", f"[{texts['train']}]", "--data.eval_files", f"[{texts['valid']}]",
        "--continuations.files", f"[{texts['test']}]",
    ]  # fmt: skip
    if plain.from_scratch:
        start = Path("runs") / f"{plain.name}-start"
        make_small_model(start.absolute(), generator.name, **SHAPE)
        flags += ["--model.name", f"./{start}"]
    plain = load_config(name, [*overrides, "--seeds", "null", *flags])
    for system in plain.systems.values():
        if plain.from_scratch and system.objective in ("emo", "energy"):
            system.transport_cost = model_path(generator.name)
    systems = tuned_systems(plain, RATES[plain.from_scratch], WEIGHTS, steps)
    config = load_config(name, ["--seeds", SEEDS, *overrides, *flags, "--systems", json.dumps(systems)])
    run_experiment(config, first=given.first, last=given.last)
    run = RunDirectory(run_folder(config))
    table = seeds_table({system: numbers(found) for system, found in read_metrics(run).texts.items()}, COLUMNS)
    write_atomically(run.folder / "oracle.md", table + PAPER)
    print(f"{table}{PAPER}table: {run.folder / 'oracle.md'}")


if __name__ == "__main__":
    sys.exit(run_guarded(main))
