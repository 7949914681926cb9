"""`instruct list`: the available cards and runs, and where each was found."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.text import Text

from instruct.cards import list_cards
from instruct.errors import InputError, one_line


def print_listing(what: str) -> None:
    """Print the data cards, the judge cards, or the runs under `./runs`."""
    console = Console(highlight=False)
    for name, facts in {"data": _data, "judges": _judges, "runs": _runs}[what]():
        console.print(Text(one_line(name), style="bold"))
        console.print(Text("  " + " · ".join(one_line(fact, 2000) for fact in facts)), soft_wrap=True)
    if what == "judges":
        more = "The annotators of the alpaca-eval package also work by name, for example alpaca_eval_gpt4_turbo_fn."
        console.print(Text(more), soft_wrap=True)
    if what != "runs":
        for card in [*list_cards("data"), *list_cards("data/human")] if what == "data" else list_cards("judges"):
            if card.hides:
                console.print(
                    Text(one_line(f"note: {card.name} in {card.path} hides the packaged card {card.hides}", 2000))
                )


def _data() -> list[tuple[str, list[str]]]:
    from instruct.data.cards import load_dataset_card

    listed = []
    for found in list_cards("data"):
        card = load_dataset_card(str(found.path))
        purpose = "training" if card.purpose == "train" else "evaluation"
        rows = f"{card.rows:,} rows" if card.rows else "number of rows unknown"
        listed.append((found.name, [purpose, rows, f"licence: {card.licence}", str(found.path)]))
    return listed + _human_sets()


def _human_sets() -> list[tuple[str, list[str]]]:
    """For `instruct validate --against`."""
    from instruct.validation.human_cards import load_human_card

    listed = []
    for found in list_cards("data/human"):
        try:
            card = load_human_card(str(found.path))
        except InputError as error:  # list the others anyway
            listed.append((found.name, [one_line(error)]))
            continue
        rows = f"{card.rows:,} pairs" if card.rows else "number of pairs unknown"
        listed.append((found.name, ["human labels", rows, f"licence: {one_line(card.licence, 300)}", str(found.path)]))
    return listed


def _judges() -> list[tuple[str, list[str]]]:
    from instruct.judging.cards import load_judge_card
    from instruct.judging.human_agreement import agreement_words

    listed = []
    for found in list_cards("judges"):
        try:
            card = load_judge_card(str(found.path))
            measured = agreement_words(card)
        except InputError as error:  # list the others anyway
            listed.append((found.name, [one_line(error)]))
            continue
        orders = "both orders" if card.order_policy == "both" else "one order"
        facts = [
            f"model {card.model}",
            {"single": "single ratings", "reward": "reward model"}.get(card.protocol, f"pairwise, {orders}"),
            f"agreement with people: {measured}",
            f"licence: {card.licence}",
            str(found.path),
        ]
        listed.append((found.name, facts))
    return listed


def _runs() -> list[tuple[str, list[str]]]:
    from instruct.runs import RunDirectory

    listed = []
    for manifest in sorted(Path("runs").glob("*/manifest.json")):
        content = RunDirectory(manifest.parent).manifest()
        done = [name for name, step in content["steps"].items() if step["status"] == "done"]
        listed.append(
            (str(manifest.parent), [f"updated {content['updated']}", f"done: {', '.join(done) or 'nothing'}"])
        )
    return listed
