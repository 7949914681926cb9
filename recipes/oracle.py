"""A known truth: a generator's unbiased samples are the data, and each objective's model learns them (Table 2).

    python recipes/oracle.py                     # with a GPU: GPT-2 large writes, GPT-2 learns; without: SmolLM2 and a
                                                 # small model from scratch with SmolLM2's tokens
    python recipes/oracle.py --train 40 --valid 10 --test 210 --tuning-steps 2 --train.max_steps 4 \\
        --name oracle_try                        # does it run?

Since the generator is the truth, its probabilities say what samples cannot: PPL_oracle of what a model writes (low:
precision), forward and reverse cross-entropy between the two distributions, next to PPL_test, MAUVE and ROUGE. Learning
rate, and energy's weight, are chosen for each objective by cross-entropy on the generator's validation texts; where the
Jensen-Shannon divergence chooses otherwise, that choice is a system, too. The control of each system is MLE sampled at
the temperature that gives it the system's entropy. MLE is also sampled at TEMPERATURES, and the temperature at which
its PPL_oracle is half, as EMO's is in the paper, and each system's, is interpolated. tabular_truth.py is the exact
sister of this recipe.

The generator is the config's evaluation.texts.reference_model. Its texts are in runs/NAME-texts; means over seeds are
printed next to the paper's figures and written to runs/NAME/oracle.md. Rerun the command to resume.
"""

from __future__ import annotations

import itertools
import json
import math
import statistics
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from study import arguments_of, by_system, config_for_machine, markdown, paper, run_seeds, write_table

from instruct.base.errors import InputError
from instruct.base.output import run_guarded

if TYPE_CHECKING:
    from instruct.config import ExperimentConfig

SEEDS = "[1, 2, 3]"
RATES = {True: [1e-3, 3e-3, 1e-2], False: [2e-5, 5e-5, 1e-4]}  # from scratch, fine-tuning
WEIGHTS = [5.0, 20.0]
SHAPE: dict[str, Any] = {
    "hidden_size": 128, "intermediate_size": 512, "num_hidden_layers": 2, "num_attention_heads": 4,
    "max_position_embeddings": 512,
}  # fmt: skip
TEMPERATURES = (0.85, 0.95, 1.05, 1.15)
COLUMNS = ("PPL_test", "PPL_oracle", "MAUVE", "ROUGE-1", "ROUGE-L", "forward CE", "reverse CE", "entropy")
PAPER = "The paper's Table 2 (GPT-2 large writes, GPT-2 learns; ROUGE of prefix + continuation in percent; no control):"


def papers_table() -> list[str]:
    """The paper's figures, as the lines below ours."""
    systems = paper("table_2")["gpt2"]
    rows = [[system, *figures.values()] for system, figures in systems.items()]
    return ["", PAPER, "", *markdown(["the paper's", *systems["MLE"]], rows)]


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


def oracle_perplexities(config: ExperimentConfig) -> tuple[dict[str, dict[float, float]], dict[str, list[float]]]:
    """PPL_oracle of each MLE system's samples by temperature, and that of all systems by name without seed."""
    from instruct.config import make_config
    from instruct.phases.answer import generate
    from instruct.phases.evaluate import evaluate_run
    from instruct.phases.experiment import open_run, run_folder
    from instruct.phases.systems import system_folders
    from instruct.run.directory import RunDirectory
    from instruct.run.measurements import read_metrics
    from instruct.training.options import without_seed

    run = RunDirectory(run_folder(config))
    measured = {name: rows["oracle_perplexity"] for name, rows in read_metrics(run).texts.items()}
    values = {name: row.value for name, row in measured.items() if row.value is not None}
    content = config.model_dump(mode="json")
    found: dict[str, dict[float, float]] = {}
    for name, folder in system_folders(config, run).items():
        if without_seed(name, config.systems[name].seed) != "mle":
            continue
        found[name] = {1.0: values[name]}
        for temperature in TEMPERATURES:
            generation = content["continuations"]["generation"] | {"temperature": temperature}
            writer = {
                "name": f"{config.name}-{name}-t{temperature:g}",
                "model": content["model"] | {"name": f"./{folder}"},
                "systems": {"writer": {"objective": "none"}},
                "continuations": content["continuations"] | {"generation": generation},
                "evaluation": {"texts": content["evaluation"]["texts"] | {"metrics": ["oracle_perplexity"]}},
            }
            cooled = make_config(writer, [], name)
            generate(cooled, open_run(cooled))
            value = evaluate_run(cooled, open_run(cooled)).value("writer", "oracle_perplexity")
            assert value
            found[name][temperature] = value
    return found, by_system(values)


def temperatures_table(found: Mapping[str, Mapping[float, float]], systems: Mapping[str, list[float]]) -> list[str]:
    """The temperature at which MLE's PPL_oracle is half of its own, and that of each system: the mean over MLE's seeds,
    and Student's 95 % interval."""
    from scipy.stats import t

    wanted = {"half of mle's": [curve[1.0] / 2 for curve in found.values()]}
    for name, values in systems.items():
        if not name.startswith("mle"):
            wanted[name] = [statistics.fmean(values)] * len(found)
    rows = []
    for name, targets in wanted.items():
        inside = [_temperature_at(curve, target) for curve, target in zip(found.values(), targets, strict=True)]
        at = [temperature for temperature in inside if temperature is not None]
        cell = f"outside {min(TEMPERATURES)} to {max(TEMPERATURES)}"
        if len(at) == len(inside):
            cell = f"{statistics.fmean(at):.3f}"
            if len(at) > 1:
                half = t.ppf(0.975, len(at) - 1) * statistics.stdev(at) / len(at) ** 0.5
                cell += f" ({statistics.fmean(at) - half:.3f} to {statistics.fmean(at) + half:.3f})"
        rows.append([name, f"{statistics.fmean(targets):,.0f}", cell])
    return markdown(["PPL_oracle of", "value", "MLE has it at temperature (95 % CI over seeds)"], rows)


def _temperature_at(curve: Mapping[float, float], target: float) -> float | None:
    """Where ln PPL_oracle, interpolated between temperatures, is that of the target."""
    points = sorted(curve.items())
    for (low, below), (high, above) in itertools.pairwise(points):
        if below <= target <= above:
            return low + (high - low) * math.log(target / below) / math.log(above / below)
    return None


def main() -> None:
    sizes = {name: {"type": int} for name in ("train", "valid", "test", "tuning_steps")}
    given, overrides = arguments_of(__doc__, **sizes)

    import torch
    from scratch import make_small_model
    from tuning import tuned_systems

    from instruct.base.models import model_path
    from instruct.config import load_config

    gpu = torch.cuda.is_available()
    name = config_for_machine(given, "oracle", "oracle_smollm2")
    plain = load_config(name, [*overrides, "--seeds", "null"])
    generator = plain.text_metrics.reference_model
    if generator is None or plain.continuations is None:
        raise InputError(f"{plain.name}: has no generator; set evaluation.texts.reference_model, and continuations")
    defaults = (250_000, 5_000, 5_000) if gpu else (1_000, 100, 500)
    parts = dict(zip(("train", "valid", "test"), defaults, strict=True))
    counts = {part: getattr(given, part) or size for part, size in parts.items()}
    steps = given.tuning_steps or (1_000 if gpu else 60)
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
    systems = tuned_systems(plain, RATES[plain.from_scratch], WEIGHTS, steps, "jensen_shannon")
    config = load_config(name, ["--seeds", SEEDS, *overrides, *flags, "--systems", json.dumps(systems)])
    run_seeds(config, given, "oracle.md", COLUMNS, papers_table())
    table = temperatures_table(*oracle_perplexities(config))
    write_table(Path("runs") / config.name / "temperatures.md", table)


if __name__ == "__main__":
    sys.exit(run_guarded(main))
