"""Every system of a run is asked tasks. What is done is not done again."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from instruct.base.errors import InputError
from instruct.base.models import ModelOptions
from instruct.base.output import say
from instruct.data.templates import DEFAULT, Rendering
from instruct.engines.cluster_options import ClusterOptions
from instruct.measuring.tasks.harness import Harness
from instruct.measuring.tasks.options import TaskOptions
from instruct.measuring.tasks.systems import AskedSystems
from instruct.run.directory import RunDirectory
from instruct.run.measurements import Measurement, PartResult, measure, metric_step, read_metrics

if TYPE_CHECKING:
    from instruct.measuring.tasks.lm import Kept

# Before or after training, in tasks of forgetting.
When = Literal["before", "after"] | None


def evaluate_tasks(
    options: TaskOptions,
    run: RunDirectory,
    base: ModelOptions,
    systems: Mapping[str, Path | None],
    rendering: Rendering = DEFAULT,
    cluster: ClusterOptions | None = None,
) -> None:
    """Every system of the run is asked every task.

    Args:
        systems: the folder of each one's weights; None: the base.
        rendering: how chats become text.
        cluster: where models are loaded; None: on this machine.

    Raises:
        InputError: a task that cannot be read.
        StoppedError: requests without a reply.
    """
    if not options.named:
        raise InputError("evaluation.tasks: names no task; give --tasks NAMES")
    rendering = dataclasses.replace(rendering, remedy="set --no-chat")
    with contextlib.closing(AskedSystems(options, base, systems, rendering, cluster)) as asked:
        options = _left(options, run, asked, systems)
        if not options.named:
            return
        harness = Harness(options, rendering, asked.engine)
        harness.load_all()
        for system, folder in _with_base(systems, harness).items():
            inputs = asked.made_from(system, folder)
            replies = run.folder / "metrics" / "replies" / f"{_digest(inputs | asked.elsewhere)}.jsonl"
            for part in harness.parts if system in systems else harness.forgetting:
                made_from = inputs | harness.inputs(part)
                when: When = None
                if part in harness.forgetting:
                    when = "after" if folder else "before"
                    made_from["forgetting"] = when
                recorded = _recorded(run, part, system)
                if part.startswith("lm_eval/") and recorded and "files" not in recorded:  # older ones lack it
                    made_from.pop("files", None)
                opened = functools.partial(asked.opened, system, folder, replies)
                measure(run, part, system, made_from, functools.partial(_evaluated, harness, opened, part, when))


def _with_base(systems: Mapping[str, Path | None], harness: Harness) -> dict[str, Path | None]:
    """The systems, and the untrained base, if tasks of forgetting need it and no system is that."""
    if not harness.forgetting or None in systems.values():
        return dict(systems)
    if "base" in systems:
        raise InputError(
            "evaluation.tasks.forgetting: needs the untrained base, but the system called base is trained; add one "
            "under systems: untrained: {objective: none}"
        )
    return {"base": None, **systems}


def _evaluated(
    harness: Harness, opened: Callable[[], AbstractContextManager[Kept]], part: str, when: When
) -> PartResult:
    """A task's results; those of tasks of forgetting say whether the system is trained."""
    with opened() as lm:
        result = harness.evaluate(lm, part)
    if when:
        for number in result.numbers:
            number.details = number.details.model_copy(update={"forgetting": when})
    return result


def _recorded(run: RunDirectory, part: str, system: str) -> dict[str, Any]:
    """The inputs of a part that was measured before; none if it was not."""
    inputs: dict[str, Any] = run.manifest()["steps"].get(metric_step(part, system), {}).get("inputs", {})
    return inputs


def _left(
    options: TaskOptions, run: RunDirectory, asked: AskedSystems, systems: Mapping[str, Path | None]
) -> TaskOptions:
    """The options without the cards that every system answered before cards were tasks of lm-eval, as asked for now."""
    answered: dict[str, set[str]] = {card: set() for card in options.cards}
    for row in read_metrics(run).measurements:
        recorded = _recorded(run, row.part, row.system)
        for card in answered:
            if (
                row.system in systems
                and "task" in recorded
                and _is_of(row, card, options)
                and recorded.items() >= asked.made_from(row.system, systems[row.system]).items()
            ):
                answered[card].add(row.system)
    kept = [card for card, own in answered.items() if own == set(systems)]
    if kept:
        say(f"note: tasks kept as an earlier version measured them: {', '.join(kept)}; a new run measures them")
    return options.model_copy(update={"cards": [card for card in options.cards if card not in kept]})


def _is_of(row: Measurement, card: str, options: TaskOptions) -> bool:
    """Whether a row is a card's accuracy with these options."""
    about = row.details
    extra = about.model_extra or {}
    return (
        (row.kind, row.metric, about.task) == ("tasks", "accuracy", Path(card).stem)
        and about.rule == options.rule
        and options.shots in (None, about.shots)
        and row.n == min(options.limit or about.of, about.of)
        and extra.get("variant") == options.variant
        and extra.get("retriever") in (None, options.retriever)
    )


def _digest(inputs: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(inputs).encode()).hexdigest()[:16]
