"""Choosing each objective's learning rate, and energy's weight, by cross-entropy on validation text.

Not a recipe by itself: small_model.py and oracle.py tune all objectives on the same grid, MLE as hard as the others,
before they train the systems that they compare.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from instruct.config import ExperimentConfig


def candidates(config: ExperimentConfig, rates: list[float], weights: list[float]) -> dict[str, dict[str, Any]]:
    """A system for each objective and point of the grid, by name; energy has a point for each pair of values."""
    found = {}
    for name, system in config.trained.items():
        for rate in rates:
            for weight in weights if system.objective == "energy" else [None]:
                over = {"learning_rate": rate} | ({} if weight is None else {"energy_weight": weight})
                label = f"{name}-lr{rate:g}" + ("" if weight is None else f"-w{weight:g}")
                found[label] = {**system.model_dump(mode="json"), "seed": 0, **over, "tunes": name}
    return found


def tuned_systems(
    config: ExperimentConfig, rates: list[float], weights: list[float], steps: int
) -> dict[str, dict[str, Any]]:
    """The config's systems with the learning rate, and the weight, whose validation cross-entropy is lowest.

    Trains each candidate for `steps` steps in runs/NAME-tuning, once, and writes what was found to its tuning.json.

    Args:
        config: with data to evaluate on, and without seeds.
    """
    from instruct.base.files import write_atomically
    from instruct.config import make_config
    from instruct.phases.experiment import run_experiment, run_folder
    from instruct.run.directory import RunDirectory

    systems = candidates(config, rates, weights)
    base = {name: system.pop("tunes") for name, system in systems.items()}
    content = config.model_dump(mode="json") | {
        "name": f"{config.name}-tuning",
        "systems": systems,
        "train": {**config.train, "max_steps": steps, "eval_steps": steps, "save_steps": steps},
        "answers": None,
        "continuations": None,
        "evaluation": None,
    }
    tuning = make_config(content, [], "tuning")
    run_experiment(tuning, last="train")
    run = RunDirectory(run_folder(tuning))
    results = {name: run.manifest()["steps"][f"train/{name}"]["results"] for name in systems}
    ce = {name: float(results[name]["evaluation"]["kept"]["ce"]) for name in systems}
    chosen = {}
    for name, system in config.systems.items():
        own = [candidate for candidate, tunes in base.items() if tunes == name]
        best = min(own, key=ce.__getitem__, default=None)
        chosen[name] = {**(systems[best] if best else system.model_dump(mode="json")), "seed": None}
    record = {
        "steps": steps,
        "validation_ce": {name: round(value, 4) for name, value in ce.items()},
        "chosen": {
            name: {key: system[key] for key in ("learning_rate", "energy_weight")} for name, system in chosen.items()
        },
    }
    write_atomically(run.folder / "tuning.json", json.dumps(record, indent=1) + "\n")
    print(f"tuned     {run.folder / 'tuning.json'}", flush=True)
    return chosen


def first_words(files: list[str], words: int | None, to: Path) -> None:
    """Write the first `words` words (None: all) of text files to one file, whole lines, unless it exists."""
    from instruct.base.files import write_atomically
    from instruct.data.rows import load_rows

    if to.is_file():
        return
    kept, count = [], 0
    for row in load_rows(None, files=files, documents="line", format="text").rows:
        if words is not None and count >= words:
            break
        kept.append(str(row["text"]))
        count += len(kept[-1].split())
    to.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(to, "\n".join(kept) + "\n")
