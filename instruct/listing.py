"""`instruct list`: what a name finds, and where."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table

from instruct.cards import list_cards


def print_listing(what: str) -> None:
    """Print the data cards, the judge cards, or the runs under `./runs`."""
    table = {"data": _data, "judges": _judges, "runs": _runs}[what]()
    Console().print(table)
    if what != "runs":
        for card in list_cards("data" if what == "data" else "judges"):
            if card.hides:
                print(f"note: {card.name} of {card.path} hides the installed card {card.hides}")


def _data() -> Table:
    from instruct.data.cards import load_dataset_card

    table = Table("name", "for", "rows", "template", "licence", "found in")
    for found in list_cards("data"):
        card = load_dataset_card(str(found.path))
        rows = f"{card.rows:,}" if card.rows else "?"
        template = card.template if card.purpose == "train" else "as trained"
        table.add_row(found.name, card.purpose, rows, template, card.licence, found.origin)
    return table


def _judges() -> Table:
    from instruct.judging.cards import load_judge_card

    table = Table("name", "model", "protocol", "orders", "licence", "human agreement", "found in")
    for found in list_cards("judges"):
        card = load_judge_card(str(found.path))
        measured = str(card.human_agreement) if card.human_agreement else "not measured"
        table.add_row(found.name, card.model, card.protocol, card.order_policy, card.licence, measured, found.origin)
    return table


def _runs() -> Table:
    from instruct.runs import RunDirectory

    table = Table("run", "updated", "steps done")
    for manifest in sorted(Path("runs").glob("*/manifest.json")):
        content = RunDirectory(manifest.parent).manifest()
        done = [name for name, step in content["steps"].items() if step["status"] == "done"]
        table.add_row(str(manifest.parent), content["updated"], ", ".join(done) or "none")
    return table
