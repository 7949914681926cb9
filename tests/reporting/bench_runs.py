"""A run of `instruct bench` as its steps leave it, without training: answers, likelihoods, logs, records."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import yaml

from instruct.judging.store import Judgment, JudgmentStore
from instruct.reporting.bench import STEP
from instruct.run.directory import RunDirectory
from instruct.run.measurements import Number, write_numbers, write_values

VERSIONS = {"instruct": "0.1.0", "torch": "2.13.0"}
WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight"]


def bench_run(folder: Path, objectives: Mapping[str, int], *, rows: int = 30) -> RunDirectory:
    """Objectives with so many trainings."""
    run = RunDirectory(folder)
    run.adapters.mkdir(parents=True)
    run.outputs.mkdir()
    names = {key: [f"{key}-seed{seed}" for seed in range(1, number + 1)] for key, number in objectives.items()}
    systems = {name: {"objective": key, "seed": seed} for key in names for seed, name in enumerate(names[key], 1)}
    config = {"name": folder.name, "model": {"name": "tiny"}, "systems": systems}
    (folder / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    trained = {"status": "done", "inputs": {"data": "d" * 64}, "results": {"steps": 200}}
    inputs = {"rows": {"train": 1000, "choose": 100, "test": rows}, "rates": {}, "data": "d.jsonl"}
    manifest = {
        "format": 3,
        "created": "2026-01-02T03:04:05+00:00",
        "updated": "2026-01-02T03:04:05+00:00",
        "versions": VERSIONS,
        "machine": {"processor": "A CPU", "cores": 2, "memory_gib": 23.5, "gpus": []},
        "steps": {f"train/{name}": trained for name in systems}
        | {STEP: {"status": "done", "inputs": inputs, "results": {}}},
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    rng = np.random.default_rng(len(folder.name))
    ids = [f"secret prompt {row}" for row in range(rows)]
    references = [" ".join(WORDS) for _ in ids]
    write_outputs(run, "baseline", ids, references)
    for name in systems:
        kept = rng.integers(1 + 2 * name.startswith("dft"), len(WORDS), rows)
        write_outputs(run, name, ids, [" ".join(WORDS[:count]) for count in kept])
        (run.adapters / name).mkdir()
        (run.adapters / name / "training_log.json").write_text(json.dumps([{"step": 1, "loss": 2.5}]))
        nats = rng.uniform(4, 8, rows).tolist()
        write_values(run, "perplexity", name, {"id": ids, "nats": nats, "tokens": [4] * rows})
        write_numbers(run, "perplexity", name, [Number(metric="perplexity", value=4.0, n=rows)])
    return run


def judge_seeds(run: RunDirectory) -> None:
    """Verdicts of a judge on dft against mle, seed by seed, of which every seventh is missing."""
    with JudgmentStore(run.store) as store:
        store.add_judgments(
            Judgment(
                "j", f"dft-seed{seed}", f"mle-seed{seed}", row, f"secret prompt {row}", "d", "first", "k",
                "unparsed" if (row + seed) % 7 == 0 else "first" if (row * seed) % 3 else "second",
            )
            for seed in (1, 2, 3)
            for row in range(30)
        )  # fmt: skip


def write_outputs(run: RunDirectory, name: str, ids: list[str], outputs: list[str]) -> None:
    rows = [
        {"dataset": "d", "instruction": row, "output": output, "generator": name}
        for row, output in zip(ids, outputs, strict=True)
    ]
    (run.outputs / f"{name}.json").write_text(json.dumps(rows))
