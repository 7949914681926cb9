"""`instruct list`: the available cards and runs, and where each was found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from instruct.base.cards import CardLocation, Kind, list_cards
from instruct.base.errors import InputError, one_line

EMPTY = {
    "data": "no data cards found; copy one from the project's data folder into ./data",
    "judges": "no judge cards found; copy one from the project's judges folder into ./judges",
    "tasks": "no task cards found; copy one from the project's data/tasks folder into ./data/tasks",
    "runs": "no runs in ./runs yet; make one: instruct run demo, or instruct judge --judge J --candidate a.json "
    "--baseline b.json --output runs/NAME",
}


class Listed(NamedTuple):
    """A card or a run: its name, what is known of it, and the packaged card that it hides."""

    name: str
    facts: dict[str, Any]
    hides: Path | None = None

    def content(self) -> dict[str, Any]:
        """For `--json`."""
        return {"name": self.name, **self.facts}

    def line(self) -> str:
        """The facts in a line."""
        facts = {key: ", ".join(fact) if isinstance(fact, list) else fact for key, fact in self.facts.items()}
        return " · ".join(one_line(f"{key}: {fact}", 2000) for key, fact in facts.items() if fact not in (None, ""))


def listed(what: str) -> list[Listed]:
    """The data cards, the judge cards, the task cards, or the runs under `./runs`."""
    if what == "runs":
        return [_run(manifest.parent) for manifest in sorted(Path("runs").glob("*/manifest.json"))]
    return [_card(card, facts_of) for kind, facts_of in _KINDS[what].items() for card in list_cards(kind)]


def render_names(entries: Sequence[Listed]) -> str:
    """One name a line."""
    return "\n".join(one_line(entry.name) for entry in entries)


def render_text(entries: Sequence[Listed], what: str) -> str:
    """Two lines for each, then what else there is to know; an empty list says how to fill it."""
    if not entries:
        return EMPTY[what]
    lines = [line for entry in entries for line in (one_line(entry.name), f"  {entry.line()}")]
    if what == "judges":
        lines.append("The annotators of the alpaca-eval package also work by name, such as alpaca_eval_gpt4_turbo_fn.")
    lines += [
        one_line(f"note: {entry.name} in {entry.facts['path']} hides the packaged card {entry.hides}", 2000)
        for entry in entries
        if entry.hides
    ]
    return "\n".join(lines)


def _card(card: CardLocation, facts_of: Callable[[str], dict[str, Any]]) -> Listed:
    """A card with its facts; one that cannot be read is listed with its error."""
    try:
        facts = facts_of(str(card.path))
    except InputError as error:
        facts = {"error": str(error)}
    return Listed(card.name, {**facts, "path": str(card.path)}, card.hides)


def _data_facts(path: str) -> dict[str, Any]:
    from instruct.data.cards import load_dataset_card

    card = load_dataset_card(path)
    purpose = {"train": "training", "eval": "evaluation", "continue": "text to continue"}[card.purpose]
    return {"purpose": purpose, "rows": card.rows, "licence": card.licence}


def _human_facts(path: str) -> dict[str, Any]:
    """Of labels for `instruct validate --against`."""
    from instruct.validation.human_sets import load_human_card

    card = load_human_card(path)
    return {"purpose": "human labels", "rows": card.rows, "licence": card.licence}


def _judge_facts(path: str) -> dict[str, Any]:
    from instruct.judging.cards import load_judge_card
    from instruct.judging.human_agreement import agreement_words

    card = load_judge_card(path)
    orders = "both orders" if card.order_policy == "both" else "one order"
    protocol = {"single": "single ratings", "reward": "reward model"}.get(card.protocol, f"pairwise, {orders}")
    return {"model": card.model, "protocol": protocol, "agreement": agreement_words(card), "licence": card.licence}


def _task_facts(path: str) -> dict[str, Any]:
    from instruct.measuring.task_cards import read_task

    task = read_task(path, trusted=True)  # nothing is run
    licence = str(task.about.get("licence", "not stated"))
    return {"shots": task.content.get("num_fewshot", 0), "source": task.content.get("dataset_path"), "licence": licence}


def _run(folder: Path) -> Listed:
    from instruct.run.directory import RunDirectory

    try:
        manifest = RunDirectory(folder).manifest()
    except InputError as error:
        return Listed(str(folder), {"updated": None, "done": [], "error": str(error)})
    done = [name for name, step in manifest["steps"].items() if step["status"] == "done"]
    return Listed(str(folder), {"updated": manifest.get("updated"), "done": done})


_KINDS: dict[str, dict[Kind, Callable[[str], dict[str, Any]]]] = {
    "data": {"data": _data_facts, "data/human": _human_facts},
    "judges": {"judges": _judge_facts},
    "tasks": {"data/tasks": _task_facts},
}
