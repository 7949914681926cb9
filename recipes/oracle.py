"""A known truth: a generator's unbiased samples are the data, and each objective's model learns them (Table 2).

    python recipes/oracle.py                     # with a GPU: GPT-2 large writes, GPT-2 learns; without: SmolLM2 and a
                                                 # small model from scratch with SmolLM2's tokens
    python recipes/oracle.py --train 40 --valid 10 --test 210 --tuning-steps 2 --train.max_steps 4 \\
        --name oracle_try                        # does it run?

Since the generator is the truth, its probabilities say what samples cannot: PPL_oracle of what a model writes (low:
precision), forward and reverse cross-entropy between the two distributions, next to PPL_test, MAUVE and ROUGE. Learning
rate, and energy's weight, are chosen for each objective by cross-entropy on the generator's validation texts; where the
Jensen-Shannon divergence chooses otherwise, that choice is a system, too. The control of each system is MLE sampled at
the temperature that gives it the system's entropy. learnable_truth.py is the exact sister of this recipe.

The generator is the config's evaluation.texts.reference_model. Its texts are in runs/NAME-texts; means over seeds are
printed next to the paper's figures and written to runs/NAME/oracle.md. Rerun the command to resume.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path

from scratch import SHAPE, make_small_model
from study import (
    SEEDS,
    config_for_machine,
    markdown,
    paper,
    plain_config,
    recipe_arguments,
    run_recipe,
    run_seeds,
    tuned_systems,
)

from instruct.base.files import write_atomically
from instruct.base.models import ModelOptions, model_path
from instruct.base.output import say
from instruct.config import ExperimentConfig, load_config, make_config
from instruct.generation.continuations import read_continuations
from instruct.phases.answer import Answering
from instruct.phases.experiment import open_run, settle_dtype

RATES = {True: [1e-3, 3e-3, 1e-2], False: [2e-5, 5e-5, 1e-4]}  # from scratch, fine-tuning
PARTS = ("train", "valid", "test")
COLUMNS = ("PPL_test", "PPL_oracle", "MAUVE", "ROUGE-1", "ROUGE-L", "forward CE", "reverse CE", "entropy")
PAPER = "The paper's Table 2 (GPT-2 large writes, GPT-2 learns; ROUGE of prefix + continuation in percent; no control):"


def main() -> None:
    import torch

    defaults = (250_000, 5_000, 5_000, 1_000) if torch.cuda.is_available() else (1_000, 100, 500, 60)
    sizes = zip((*PARTS, "tuning_steps"), defaults, strict=True)
    arguments, overrides = recipe_arguments(__doc__, **{name: {"type": int, "default": size} for name, size in sizes})
    name = config_for_machine(arguments, "oracle", "oracle_smollm2")
    plain = plain_config(name, overrides)
    generator = plain.text_metrics.reference_model
    assert generator
    counts = {part: getattr(arguments, part) for part in PARTS}
    say(
        f"plan      {generator.name} writes {sum(counts.values()):,} texts; {arguments.tuning_steps} steps for each "
        f"point of a grid to tune; then {len(plain.trained)} objectives from each seed"
    )
    if arguments.dry_run:
        return
    texts = generated_texts(plain, generator, counts)
    flags = ["--data.files", f"[{texts['train']}]", "--data.eval_files", f"[{texts['valid']}]"]
    flags += ["--continuations.files", f"[{texts['test']}]"]
    cost = None
    if plain.from_scratch:
        start = Path("runs") / f"{plain.name}-start"
        make_small_model(start.absolute(), generator.name, **SHAPE, max_position_embeddings=512)
        flags += ["--model.name", f"./{start}"]
        cost = model_path(generator.name)
    plain = plain_config(name, overrides, *flags, cost=cost)
    systems = tuned_systems(plain, RATES[plain.from_scratch], arguments.tuning_steps, "jensen_shannon")
    config = load_config(name, ["--seeds", SEEDS, *overrides, *flags, "--systems", json.dumps(systems)])
    run_seeds(config, arguments, "oracle.md", COLUMNS, papers_table())


def generated_texts(config: ExperimentConfig, generator: ModelOptions, counts: dict[str, int]) -> dict[str, str]:
    """The generator's unbiased samples from nothing, without blank texts: runs/NAME-texts/PART.jsonl."""
    folder, name = Path("runs") / f"{config.name}-texts", f"{config.name}-generator"
    start = folder / "nothing.txt"
    write_atomically(start, "Every text begins before this one.\n")
    assert config.continuations
    generation = config.continuations.generation.model_dump(mode="json")
    generation |= {"max_new_tokens": config.train["max_length"] - 1, "min_new_tokens": 0}
    continuations = {"files": [str(start)], "prefix": "0 tokens", "samples": sum(counts.values())}
    content = {
        "name": name,
        "systems": {"writer": {"objective": "none"}},
        "model": generator.model_dump(mode="json"),
        "continuations": continuations | {"generation": generation},
    }
    writer = settle_dtype(make_config(content, [], name))
    written = iter(read_continuations(Answering(writer).generate(open_run(writer))["writer"]))
    files = {}
    for part, count in counts.items():
        texts = [row.continuation for row in itertools.islice(written, count) if row.continuation.strip()]
        file = folder / f"{part}.jsonl"
        files[part] = str(file)
        write_atomically(file, "".join(json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in texts))
    return files


def papers_table() -> list[str]:
    """The paper's figures, as the lines below ours."""
    systems = paper("table_2")["gpt2"]
    rows = [[system, *figures.values()] for system, figures in systems.items()]
    return ["", PAPER, "", *markdown(["the paper's", *systems["MLE"]], rows)]


if __name__ == "__main__":
    run_recipe(main)
