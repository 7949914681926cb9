"""Every system of a run is asked tasks. What is done is not done again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from instruct.base.errors import InputError
from instruct.base.models import ModelOptions
from instruct.base.output import say
from instruct.data.templates import DEFAULT, Rendering
from instruct.engines.forward import ForwardModel, open_model
from instruct.measuring.tasks.harness import Harness
from instruct.measuring.tasks.options import TaskOptions
from instruct.run.directory import RunDirectory
from instruct.run.measurements import Measurement, measure, metric_step, read_metrics


def evaluate_tasks(
    options: TaskOptions,
    run: RunDirectory,
    base: ModelOptions,
    systems: Mapping[str, Path | None],
    rendering: Rendering = DEFAULT,
) -> None:
    """Every system of the run is asked every task.

    Args:
        systems: the folder of each one's weights; None: the base.
        rendering: how chats become text.

    Raises:
        InputError: a task that cannot be read.
    """
    if not options.cards and not options.lm_eval:
        raise InputError("evaluation.tasks: names no task; give --tasks NAMES")
    options = _left(options, run, list(systems))
    if not options.cards and not options.lm_eval:
        return
    harness = Harness(options, rendering)
    for part in harness.parts:  # what is wrong with a task's rows is found before the work
        harness.load(part)
    model: ForwardModel | None = None
    for system, folder in systems.items():
        model = open_model(base, folder, like=model)
        inputs: dict[str, Any] = {"weights": model.identity, "dtype": [base.dtype, base.quantization]}
        replies = run.folder / "metrics" / "replies" / f"{_digest(inputs)}.jsonl"
        for part in harness.parts:
            made_from = inputs | harness.inputs(part)
            recorded = run.manifest()["steps"].get(metric_step(part, system), {}).get("inputs", {})
            if part.startswith("lm_eval/") and recorded and "files" not in recorded:  # older ones lack it
                made_from.pop("files", None)
            measure(run, part, system, made_from, partial(harness.evaluate, model, part, replies))
    if model:
        model.close()


def _left(options: TaskOptions, run: RunDirectory, systems: list[str]) -> TaskOptions:
    """The options without the cards that every system answered before cards were tasks of lm-eval, as asked for now."""
    steps = run.manifest()["steps"]
    kept = [
        card
        for card in options.cards
        if all(
            any(
                "task" in steps.get(metric_step(row.part, system), {}).get("inputs", {})
                for row in read_metrics(run).measurements
                if row.system == system and _is_of(row, card, options)
            )
            for system in systems
        )
    ]
    if kept:
        say(f"note: tasks kept as they were measured by an earlier version: {', '.join(kept)}")
    return options.model_copy(update={"cards": [card for card in options.cards if card not in kept]})


def _is_of(row: Measurement, card: str, options: TaskOptions) -> bool:
    """Whether a row is a card's accuracy with these options."""
    about = row.details
    extra = about.model_extra or {}
    return (
        (row.kind, row.metric, about.task) == ("tasks", "accuracy", Path(card).stem)
        and (about.rule, options.shots or about.shots) == (options.rule, about.shots)
        and row.n == min(options.limit or about.of, about.of)
        and extra.get("variant") in (None, options.variant)
        and extra.get("retriever") in (None, options.retriever)
    )


def _digest(inputs: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(inputs).encode()).hexdigest()[:16]
