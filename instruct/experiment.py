"""The phases of an experiment: a run, its answers, each skipped where its result is there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from instruct.config import ExperimentConfig
from instruct.data.cards import load_dataset_card
from instruct.errors import InputError
from instruct.models import resolve_model
from instruct.runs import RunDirectory, sha256_of, write_atomically

if TYPE_CHECKING:
    pass


def run_folder(config: ExperimentConfig) -> Path:
    """Where an experiment's run stands."""
    return Path("runs") / config.name


def open_run(config: ExperimentConfig) -> RunDirectory:
    """`runs/NAME/`, created or taken up again.

    Raises:
        InputError: the directory holds a run with another config.
    """
    from accelerate import PartialState

    run = RunDirectory(run_folder(config))
    with PartialState().main_process_first():  # of several that train; the others find it there
        run.start(config.model_dump(mode="json"))
    return run


def answer_template(config: ExperimentConfig) -> str:
    """The template of the prompts: the one that the systems were trained with, unless the config names another."""
    if config.answers.template or config.data.template:
        return str(config.answers.template or config.data.template)
    return load_dataset_card(config.data.card).template if config.data.card else "chat"


def answer_prompts(config: ExperimentConfig, run: RunDirectory) -> None:
    """Every trained system of the run answers the evaluation set; one engine start serves all adapters.

    Raises:
        InputError: a system is not trained yet.
    """
    from instruct.generation.answers import generate_answers
    from instruct.generation.prompts import evaluation_set

    systems: dict[str, Path | None] = {}
    weights: dict[str, str] = {}
    for name in config.systems:
        folder = run.adapters / name
        files = sorted(folder.glob("*.safetensors"))
        if not files:
            raise InputError(f"{folder}: no trained weights; train first: instruct train {run.folder / 'config.yaml'}")
        systems[name] = folder
        weights[name] = sha256_of(files[0])
    evaluation = evaluation_set(config.answers)
    inputs = {
        "weights": weights,
        "prompts": evaluation.sha256,
        "answers": config.answers.model_dump(mode="json"),
        "template": answer_template(config),
    }
    outputs = {name: run.outputs / f"{name}.json" for name in systems}
    if run.is_done("answers", inputs) and all(path.is_file() for path in outputs.values()):
        return
    if evaluation.baseline:
        text = json.dumps(evaluation.baseline, indent=1, ensure_ascii=False)
        write_atomically(run.outputs / "baseline.json", text + "\n")
    with run.step("answers", inputs) as results:
        stats = generate_answers(
            resolve_model(config.model.name),
            systems,
            evaluation.prompts,
            answer_template(config),
            config.answers.generation,
            run.outputs,
            revision=config.model.revision,
        )
        for name, path in outputs.items():
            results[name] = {**vars(stats[name]), "sha256": sha256_of(path)}
