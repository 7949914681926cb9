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
its PPL_oracle is half, as EMO's is in the paper, and each system's, is interpolated. learnable_truth.py is the exact
sister of this recipe.

The generator is the config's evaluation.texts.reference_model. Its texts are in runs/NAME-texts; means over seeds are
printed next to the paper's figures and written to runs/NAME/oracle.md. Rerun the command to resume.
"""

from __future__ import annotations

import itertools
import json
import math
import statistics
from collections.abc import Mapping
from pathlib import Path

import study
from scratch import SHAPE, make_small_model
from study import by_system, config_for_machine, markdown, paper

from instruct.analysis.inference import student
from instruct.base.errors import InputError
from instruct.base.files import write_atomically
from instruct.base.models import model_path
from instruct.base.output import say
from instruct.config import ExperimentConfig, load_config
from instruct.phases.experiment import open_run, run_folder
from instruct.run.directory import RunDirectory
from instruct.run.measurements import read_metrics

RATES = {True: [1e-3, 3e-3, 1e-2], False: [2e-5, 5e-5, 1e-4]}  # from scratch, fine-tuning
PARTS = ("train", "valid", "test")
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
    generator, options = config.text_metrics.reference_model, config.continuations
    assert generator
    assert options
    start = folder / "nothing.txt"
    write_atomically(start, "Every text begins before this one.\n")
    generation = options.generation.model_dump(mode="json")
    generation |= {"max_new_tokens": config.train["max_length"] - 1, "min_new_tokens": 0}
    continuations = {"files": [str(start)], "prefix": "0 tokens", "samples": sum(counts.values())}
    continuations["generation"] = generation
    name, model = f"{config.name}-generator", generator.model_dump(mode="json")
    texts = iter([row.continuation for row in study.sampled(name, model=model, continuations=continuations)[1]])
    files = {part: folder / f"{part}.jsonl" for part in counts}
    for part, count in counts.items():
        study.write_texts(files[part], filter(str.strip, itertools.islice(texts, count)))
    return {part: str(file) for part, file in files.items()}


def oracle_perplexities(config: ExperimentConfig) -> tuple[dict[str, dict[float, float]], dict[str, list[float]]]:
    """PPL_oracle of each MLE system's samples by temperature, and that of all systems by name without seed."""
    from instruct.phases.evaluate import evaluate_run

    run = RunDirectory(run_folder(config.name))
    metrics, content = read_metrics(run), config.model_dump(mode="json")
    values = {name: value for name in metrics.texts if (value := metrics.value(name, "oracle_perplexity")) is not None}
    generation = content["continuations"]["generation"]
    evaluation = {"texts": content["evaluation"]["texts"] | {"metrics": ["oracle_perplexity"]}}
    curves: dict[str, dict[float, float]] = {}
    for name in by_system({name: name for name in config.trained}).get("mle", []):
        curves[name] = {1.0: values[name]}
        model = content["model"] | {"name": f"./{run.adapters / name}"}
        for at in TEMPERATURES:
            cooled = content["continuations"] | {"generation": generation | {"temperature": at}}
            sections = {"model": model, "continuations": cooled, "evaluation": evaluation}
            writer, _ = study.sampled(f"{config.name}-{name}-t{at:g}", **sections)
            value = evaluate_run(writer, open_run(writer)).value("writer", "oracle_perplexity")
            assert value
            curves[name][at] = value
    return curves, by_system(values)


def temperatures_table(found: Mapping[str, Mapping[float, float]], systems: Mapping[str, list[float]]) -> list[str]:
    """The temperature at which MLE's PPL_oracle is half of its own, and that of each system: the mean over MLE's seeds,
    and Student's 95 % interval."""
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
            error = statistics.stdev(at) / len(at) ** 0.5 if len(at) > 1 else 0
            if interval := student(statistics.fmean(at), error, len(at) - 1).interval:
                cell += " ({:.3f} to {:.3f})".format(*interval)
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
    import torch

    defaults = (250_000, 5_000, 5_000, 1_000) if torch.cuda.is_available() else (1_000, 100, 500, 60)
    sizes = zip((*PARTS, "tuning_steps"), defaults, strict=True)
    own = {name: {"type": int, "default": size} for name, size in sizes}
    options, overrides = study.recipe_arguments(__doc__, **own)
    name = config_for_machine(options, "oracle", "oracle_smollm2")
    plain = study.plain_config(name, overrides)
    generator = plain.text_metrics.reference_model
    if generator is None or plain.continuations is None:
        raise InputError(f"{plain.name}: has no generator; set evaluation.texts.reference_model, and continuations")
    counts = {part: getattr(options, part) for part in PARTS}
    say(
        f"plan      {generator.name} writes {sum(counts.values()):,} texts; {options.tuning_steps} steps for each "
        f"point of a grid to tune; then {len(plain.trained)} objectives from each seed"
    )
    if options.dry_run:
        return
    texts = generated_texts(plain, counts, Path("runs") / f"{plain.name}-texts")
    flags = ["--data.files", f"[{texts['train']}]", "--data.eval_files", f"[{texts['valid']}]"]
    flags += ["--continuations.files", f"[{texts['test']}]"]
    if plain.from_scratch:
        start = Path("runs") / f"{plain.name}-start"
        make_small_model(start.absolute(), generator.name, **SHAPE, max_position_embeddings=512)
        flags += ["--model.name", f"./{start}"]
    cost = model_path(generator.name) if plain.from_scratch else None
    plain = study.plain_config(name, overrides, *flags, cost=cost)
    systems = study.tuned_systems(plain, RATES[plain.from_scratch], options.tuning_steps, "jensen_shannon")
    config = load_config(name, ["--seeds", study.SEEDS, *overrides, *flags, "--systems", json.dumps(systems)])
    study.run_seeds(config, options, "oracle.md", COLUMNS, papers_table())
    table = temperatures_table(*oracle_perplexities(config))
    study.write_table(Path("runs") / config.name / "temperatures.md", table)


if __name__ == "__main__":
    study.run_recipe(main)
