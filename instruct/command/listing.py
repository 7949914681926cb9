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
    """A card or a run: its name, its facts for programs, the same as words, and the packaged card that it hides."""

    name: str
    facts: dict[str, Any]
    words: list[str]
    hides: Path | None = None

    def content(self) -> dict[str, Any]:
        """For `--json`."""
        return {"name": self.name, **self.facts}


def listed(what: str) -> list[Listed]:
    """The data cards, the judge cards, the task cards, or the runs under `./runs`."""
    if what == "runs":
        return _runs()
    return [card for kind, facts_of in _KINDS[what].items() for card in _cards(kind, facts_of)]


def render_names(entries: Sequence[Listed]) -> str:
    """One name a line."""
    return "\n".join(one_line(entry.name) for entry in entries)


def render_text(entries: Sequence[Listed], what: str) -> str:
    """Two lines for each, then what else there is to know; an empty list says how to fill it."""
    if not entries:
        return EMPTY[what]
    lines = [
        line
        for entry in entries
        for line in (one_line(entry.name), "  " + " · ".join(one_line(word, 2000) for word in entry.words))
    ]
    if what == "judges":
        lines.append("The annotators of the alpaca-eval package also work by name, such as alpaca_eval_gpt4_turbo_fn.")
    lines += [
        one_line(f"note: {entry.name} in {entry.facts['path']} hides the packaged card {entry.hides}", 2000)
        for entry in entries
        if entry.hides
    ]
    return "\n".join(lines)


def _cards(kind: Kind, facts_of: Callable[[str], tuple[dict[str, Any], list[str]]]) -> list[Listed]:
    """The cards of a kind with their facts; a card that cannot be read is listed with its error."""

    def one(card: CardLocation) -> Listed:
        try:
            facts, words = facts_of(str(card.path))
        except InputError as error:
            return Listed(card.name, {"path": str(card.path), "error": str(error)}, [one_line(error)], card.hides)
        return Listed(card.name, {**facts, "path": str(card.path)}, [*words, str(card.path)], card.hides)

    return [one(card) for card in list_cards(kind)]


def _data_facts(path: str) -> tuple[dict[str, Any], list[str]]:
    from instruct.data.cards import load_dataset_card

    card = load_dataset_card(path)
    purpose = {"train": "training", "eval": "evaluation", "continue": "text to continue"}[card.purpose]
    rows = f"{card.rows:,} rows" if card.rows else "number of rows unknown"
    facts = {"purpose": purpose, "rows": card.rows, "licence": card.licence}
    return facts, [purpose, rows, f"licence: {card.licence}"]


def _human_facts(path: str) -> tuple[dict[str, Any], list[str]]:
    """Of labels for `instruct validate --against`."""
    from instruct.validation.human_sets import load_human_card

    card = load_human_card(path)
    rows = f"{card.rows:,} pairs" if card.rows else "number of pairs unknown"
    facts = {"purpose": "human labels", "rows": card.rows, "licence": card.licence}
    return facts, ["human labels", rows, f"licence: {one_line(card.licence, 300)}"]


def _judge_facts(path: str) -> tuple[dict[str, Any], list[str]]:
    from instruct.judging.cards import load_judge_card
    from instruct.judging.human_agreement import agreement_words

    card = load_judge_card(path)
    measured = agreement_words(card)
    orders = "both orders" if card.order_policy == "both" else "one order"
    protocol = {"single": "single ratings", "reward": "reward model"}.get(card.protocol, f"pairwise, {orders}")
    facts = {"model": card.model, "protocol": protocol, "agreement": measured, "licence": card.licence}
    words = [f"model {card.model}", protocol, f"agreement with people: {measured}", f"licence: {card.licence}"]
    return facts, words


def _task_facts(path: str) -> tuple[dict[str, Any], list[str]]:
    from instruct.measuring.task_cards import read_task

    task = read_task(path, trusted=True)  # nothing is run
    shots, licence = task.content.get("num_fewshot", 0), str(task.about.get("licence", "not stated"))
    facts = {"shots": shots, "source": task.content.get("dataset_path"), "licence": licence}
    return facts, [f"{shots} shots", f"from {facts['source']}", f"licence: {one_line(licence, 300)}"]


def _runs() -> list[Listed]:
    from instruct.run.directory import RunDirectory

    runs = []
    for manifest in sorted(Path("runs").glob("*/manifest.json")):
        try:
            content = RunDirectory(manifest.parent).manifest()
        except InputError as error:
            runs.append(Listed(str(manifest.parent), {"updated": None, "done": []}, [str(error)]))
            continue
        done = [name for name, step in content["steps"].items() if step["status"] == "done"]
        updated = content.get("updated")  # None in a manifest that something else wrote
        words = [f"updated {updated or 'at an unknown time'}", f"done: {', '.join(done) or 'nothing'}"]
        runs.append(Listed(str(manifest.parent), {"updated": updated, "done": done}, words))
    return runs


_KINDS: dict[str, dict[Kind, Callable[[str], tuple[dict[str, Any], list[str]]]]] = {
    "data": {"data": _data_facts, "data/human": _human_facts},
    "judges": {"judges": _judge_facts},
    "tasks": {"data/tasks": _task_facts},
}
