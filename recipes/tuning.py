"""Choosing each objective's learning rate, and energy's weight, by two rules on validation text.

Not a recipe by itself: small_model.py and oracle.py tune all objectives on the same grid, MLE as hard as the others,
before they train the systems that they compare. Cross-entropy is MLE's own loss and may favor it, so the choice by
another stands beside it: the highest MAUVE of what each candidate writes, or, where the truth is a model, the lowest
Jensen-Shannon divergence from it.
"""

from __future__ import annotations

import itertools
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


# The sign by which the lowest value is the best, of the metrics that can decide beside cross-entropy.
SECOND = {"mauve": -1, "jensen_shannon": 1}


def tuned_systems(
    config: ExperimentConfig, rates: list[float], weights: list[float], steps: int, second: str
) -> dict[str, dict[str, Any]]:
    """The config's systems with the learning rate, and the weight, whose validation cross-entropy is lowest; where the
    second rule chooses otherwise, that choice follows as NAME_by_SECOND.

    Trains each candidate for `steps` steps in runs/NAME-tuning, once, and writes what was found to its tuning.json.

    Args:
        config: with data to evaluate on and continuations, and without seeds.
        second: of SECOND, measured on the validation text.
    """
    from instruct.base.files import write_atomically
    from instruct.phases.experiment import run_experiment, run_folder
    from instruct.run.directory import RunDirectory
    from instruct.run.measurements import read_metrics

    systems = candidates(config, rates, weights)
    base = {name: system.pop("tunes") for name, system in systems.items()}
    tuning = _tuning_config(config, systems, steps, "mauve" if second == "mauve" else "distances")
    run_experiment(tuning, last="evaluate")
    run = RunDirectory(run_folder(tuning))
    done, metrics = run.manifest()["steps"], read_metrics(run)
    by_rule: dict[str, dict[str, float | None]] = {
        "ce": {name: float(done[f"train/{name}"]["results"]["evaluation"]["kept"]["ce"]) for name in systems},
        second: {name: metrics.value(name, second) for name in systems},
    }
    chosen: dict[str, dict[str, dict[str, Any]]] = {rule: {} for rule in by_rule}
    for (rule, values), (name, system) in itertools.product(by_rule.items(), config.systems.items()):
        own = {each: value for each, value in values.items() if base[each] == name and value is not None}
        best = min(own, key=lambda each: SECOND.get(rule, 1) * own[each], default=None)
        chosen[rule][name] = {**(systems[best] if best else system.model_dump(mode="json")), "seed": None}
    record: dict[str, Any] = {"steps": steps}
    for rule, values in by_rule.items():
        record[f"validation_{rule}"] = {name: value and round(value, 4) for name, value in values.items()}
    record["chosen"] = {
        rule: {name: {key: each[key] for key in ("learning_rate", "energy_weight")} for name, each in own.items()}
        for rule, own in chosen.items()
    }
    write_atomically(run.folder / "tuning.json", json.dumps(record, indent=1) + "\n")
    print(f"tuned     {run.folder / 'tuning.json'}", flush=True)
    others = {f"{name}_by_{second}": own for name, own in chosen[second].items() if own != chosen["ce"][name]}
    return chosen["ce"] | others


def _tuning_config(
    config: ExperimentConfig, systems: dict[str, dict[str, Any]], steps: int, metric: str
) -> ExperimentConfig:
    """The run that tunes: each candidate for some steps, then its continuations of the validation text, measured."""
    from instruct.config import make_config

    content = config.model_dump(mode="json")
    texts = content["evaluation"]["texts"] | {"metrics": [metric], "matched_temperature": False}
    content |= {
        "name": f"{config.name}-tuning",
        "systems": systems,
        "train": {**config.train, "max_steps": steps, "eval_steps": steps, "save_steps": steps},
        "answers": None,
        "continuations": content["continuations"] | {"files": config.data.eval_files},
        "evaluation": content["evaluation"] | {"texts": texts},
    }
    return make_config(content, [], "tuning")


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
