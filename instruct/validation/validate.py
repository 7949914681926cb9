"""`instruct validate`: a judge held against people's labels, by asking it or by replaying its verdicts."""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from instruct.cards import PACKAGE, find_card
from instruct.errors import InputError, StoppedError
from instruct.judging.cards import JudgeCard, load_judge_card
from instruct.judging.comparison import Comparison
from instruct.judging.options import JudgeOptions
from instruct.judging.showings import Answers
from instruct.judging.store import JudgmentStore
from instruct.runs import RunDirectory, now, write_atomically
from instruct.validation.agreement import Agreement, measure_agreement
from instruct.validation.agreement_report import render_markdown, render_terminal
from instruct.validation.human_sets import HumanSet, load_human_set
from instruct.validation.published import Order, read_published

OWN_LAYOUT = "verdicts by pair index"


@dataclass(frozen=True)
class Verdicts:
    """A judge's verdicts on a set in the order shown, one a pair; `source` says where they are from.

    `notes` is what must be said of them. `rows` is verdicts.jsonl. `by_card`: the card of this name made them.
    """

    verdicts: dict[Order, list[str]]
    source: str
    notes: list[str] = field(default_factory=list)
    positions_known: bool = True
    rows: list[dict[str, Any]] = field(default_factory=list)
    by_card: bool = True


def validate(
    judge: JudgeOptions,
    against: str,
    *,
    replay: str | None = None,
    replay_swapped: str | None = None,
    limit: int | None = None,
    output: str | None = None,
    write_card: bool = False,
    yes: bool = False,
    retry_failed: bool = False,
) -> tuple[str, StoppedError | None]:
    """Measure a judge's agreement with people; write agreement.json, agreement.md and verdicts.jsonl.

    Without a file to replay, the judge is asked about every pair in both orders, in the run directory
    `runs/validate-JUDGE-SET`: what is stored there is not asked for again.

    Args:
        judge: which judge, and how it is asked.
        against: the name of a set with human labels, or a file of such pairs.
        replay: a file of verdicts to score in the judge's place, shown in the set's order.
        replay_swapped: the same with each pair's second answer shown first.
        limit: only the first pairs, to try it out.
        output: the folder for the files; None: the run directory.
        write_card: put the figures into the judge's card, under `human_agreement`.
        yes: ask a judge that costs money without a budget.
        retry_failed: ask again what failed for good.

    Returns:
        The tables, for a terminal, and why asking stopped before its end, if it did.

    Raises:
        InputError: no such judge or set, or a file that does not fit the set.
    """
    card = load_judge_card(judge.card, model=judge.model)
    if replay_swapped and not replay:
        raise InputError("--replay-swapped goes with --replay, which gives the verdicts in the set's own order")
    if limit is not None and (replay or write_card or limit < 1):
        raise InputError("--limit tries a judge out on the first N pairs: give it without --replay and --write-card")
    path = _writable_card(judge) if write_card else None
    human = load_human_set(against)
    if limit is not None:
        human = replace(human, pairs=human.pairs[:limit])
    name = re.sub(r"[^\w.+@-]+", "_", f"validate-{card.name}-{human.name}")
    folder = Path("runs") / (f"{name}-replay" if replay else name)
    stopped: StoppedError | None = None
    if replay:
        found = _replayed(human, replay, replay_swapped)
    else:
        found, stopped = _asked(judge, card, human, folder, yes, retry_failed)
    agreement = measure_agreement(human, found.verdicts["first"], found.verdicts.get("swapped"), found.positions_known)
    head = _head(card, human, found, limit)
    target = Path(output) if output else folder
    _write(target, card, human, found, agreement, head)
    text = render_terminal([*head, f"written to {target}"], agreement)
    if path and not stopped:
        write_human_agreement(path, human.name, card_figures(agreement, card if found.by_card else None))
        text += f"\nthe figures stand in {path} under human_agreement.{human.name}\n"
    return text, stopped


def _replayed(human: HumanSet, replay: str, replay_swapped: str | None) -> Verdicts:
    files = [read_published(Path(replay).expanduser(), human.pairs)]
    if replay_swapped:
        files.append(read_published(Path(replay_swapped).expanduser(), human.pairs, "swapped"))
    verdicts: dict[Order, list[str]] = {}
    for file in files:
        for order, given in file.verdicts.items():
            if order in verdicts:
                raise InputError(f"{file.path}: the verdicts of order {order} are given twice; replay one file of them")
            verdicts[order] = given
    if "first" not in verdicts:
        raise InputError(f"{replay}: holds the swapped order only; give verdicts in the set's own order too")
    rows = [
        {"pair": index, "order": order, "verdict": given[index]}
        for index in range(len(human.pairs))
        for order, given in verdicts.items()
    ]
    source = "verdicts replayed from " + " and ".join(f"{file.path} (read as {file.layout})" for file in files)
    known = all(file.positions_known for file in files)
    notes = [] if known else ["AlpacaEval's annotations do not say which answer was shown first: no position figure"]
    return Verdicts(verdicts, source, notes, known, rows, all(file.layout == OWN_LAYOUT for file in files))


def _asked(
    judge: JudgeOptions, card: JudgeCard, human: HumanSet, folder: Path, yes: bool, retry_failed: bool
) -> tuple[Verdicts, StoppedError | None]:
    from instruct.judging.comparisons import ask_judge

    run = RunDirectory(folder)
    run.start({"name": folder.name, "judge": card.name, "against": human.name, "set_sha256": human.sha256})
    # Not judgments.sqlite: a verb without a path takes the newest run with one, and this is no comparison of systems.
    run.store = folder / "validation.sqlite"
    section = judge.model_copy(update={"orders": "both"})
    step = f"validate/{card.name}/{human.name}"
    inputs = {
        "set": human.sha256,
        "pairs": len(human.pairs),
        "judge": section.made_from(),
        "card": card.sha256(),
    }
    stopped: StoppedError | None = None
    if retry_failed or not run.is_done(step, inputs):
        try:
            ask_judge(
                run, section, card, [(step, inputs, _answers(human, "first"), _answers(human, "second"))],
                yes=yes, retry_failed=retry_failed,
            )  # fmt: skip
        except StoppedError as error:
            stopped = error
    with JudgmentStore(run.store) as store:
        verdicts, rows, reasons = _stored(store, card, len(human.pairs))
    results = run.manifest()["steps"].get(step, {}).get("results", {})
    notes = [*results.get("notes", []), *(f"{count} times {reason}" for reason, count in reasons.most_common(5))]
    if results.get("trimmed"):
        notes.append(f"{results['trimmed']} showings were trimmed to fit the judge's context")
    return Verdicts(verdicts, f"asked in {folder}", notes, card.protocol == "pairwise", rows), stopped


def _stored(
    store: JudgmentStore, card: JudgeCard, pairs: int
) -> tuple[dict[Order, list[str]], list[dict[str, Any]], Counter[str]]:
    """The verdicts in a store, the rows of verdicts.jsonl, and why verdicts are missing."""
    judgments = {(j.pair, j.position): j for j in store.judgments(Comparison(card.name, "first", "second"))}
    completions = store.completions(key for judgment in judgments.values() for key in judgment.key.split())
    orders: dict[Order, str] = {"first": "first"}
    if card.protocol == "pairwise":  # a judge that rates each answer alone shows them in no order
        orders["swapped"] = "second"
    verdicts: dict[Order, list[str]] = {order: [] for order in orders}
    rows: list[dict[str, Any]] = []
    reasons: Counter[str] = Counter()
    for index, (order, position) in itertools.product(range(pairs), orders.items()):
        row: dict[str, Any] = {"pair": index, "order": order, "verdict": "failed"}
        judgment = judgments.get((index, position))
        if judgment is None:
            reasons["failed: not asked"] += 1
        else:
            row["verdict"] = judgment.verdict
            if judgment.verdict in ("unparsed", "failed"):
                reasons[f"{judgment.verdict}: {judgment.reason}"] += 1
            if judgment.preference is not None:
                row["preference"] = judgment.preference
            done = completions.get(judgment.key)
            if done is not None and done.label_logprobs:
                row["label_logprobs"] = {label: round(value, 6) for label, value in done.label_logprobs.items()}
        rows.append(row)
        verdicts[order].append(row["verdict"])
    return verdicts, rows, reasons


def _answers(human: HumanSet, side: str) -> Answers:
    """One side of the set; a set may show one instruction several times, so a pair's index is its identity."""
    return Answers(
        side,
        [
            {
                "id": str(pair.index),
                "instruction": pair.instruction,
                "input": pair.input,
                "output": pair.first if side == "first" else pair.second,
                "dataset": pair.group or human.name,
                "generator": side,
            }
            for pair in human.pairs
        ],
    )


def _head(card: JudgeCard, human: HumanSet, found: Verdicts, limit: int | None) -> list[str]:
    head = [f"WARNING: {card.warning}"] if card.warning else []
    people = f"{len(human.annotators)} annotators" if len(human.annotators) > 1 else "one label each"
    head.append(f"Judge {card.name} ({card.model}) against people on {human.name}: {len(human.pairs)} pairs, {people}.")
    if limit is not None:
        head.append(f"Only the first {len(human.pairs)} pairs: a try, not a measurement.")
    head.append(f"Verdicts: {found.source}. In brackets 95 % bootstrap intervals over pairs.")
    return [*head, *(f"Note: {note}" for note in found.notes)]


def _write(
    folder: Path, card: JudgeCard, human: HumanSet, found: Verdicts, agreement: Agreement, head: list[str]
) -> None:
    content = {
        "judge": card.name,
        "model": card.model,
        "card_sha256": card.sha256() if found.by_card else None,
        "set": human.name,
        "set_sha256": human.sha256,
        "verdicts": found.source,
        "notes": found.notes,
        "measured": now(),
        **agreement,
    }
    write_atomically(folder / "agreement.json", json.dumps(content, indent=2, ensure_ascii=False) + "\n")
    title = f"{card.name} against {human.name}"
    write_atomically(folder / "agreement.md", render_markdown(title, head, agreement))
    lines = "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in found.rows)
    write_atomically(folder / "verdicts.jsonl", lines)


def card_figures(agreement: Agreement, card: JudgeCard | None) -> dict[str, Any]:
    """What a judge's card says of a set, in percent; `card`: the one that made the verdicts, None where it is unknown.

    accuracy, its interval and kappa are those of the set's own order.
    """
    listed = agreement["listed"]
    interval = listed["accuracy"]["interval"]
    figures: dict[str, Any] = {
        "pairs": agreement["pairs"],
        "accuracy": listed["accuracy"]["percent"],
        "accuracy_interval": interval and [round(value, 2) for value in interval],
        "kappa": None,
    }
    for name in ("both_orders", "consistency", "first_position_rate"):
        rate = agreement[name]
        figures[name] = rate and rate["percent"]
    figures = {name: round(value, 2) if isinstance(value, float) else value for name, value in figures.items()}
    figures["kappa"] = None if listed["kappa"] is None else round(listed["kappa"], 4)
    figures |= {"judge": card.sha256()[:12] if card else None, "measured": datetime.now(UTC).date().isoformat()}
    return {name: value for name, value in figures.items() if value is not None}


def _writable_card(judge: JudgeOptions) -> Path:
    if judge.model:
        raise InputError(
            "--write-card: with --judge-model another model than the card's is measured; give it a card of its own"
        )
    path = find_card("judges", judge.card)
    if (PACKAGE / "_cards") in path.resolve().parents:
        raise InputError(f"{path}: is the installed card; copy its folder to ./judges and write into that one")
    return path


def write_human_agreement(path: Path, name: str, figures: dict[str, Any]) -> None:
    """Put a set's figures into a judge.yaml; every line outside of `human_agreement` stays as it is.

    Raises:
        InputError: the file is written in a way that this would change more of.
    """
    text = path.read_text(encoding="utf-8")
    old = yaml.safe_load(text)
    measured = {**(old.get("human_agreement") or {}), name: figures}
    block = yaml.safe_dump({"human_agreement": measured}, sort_keys=False, default_flow_style=None, width=120)
    lines = text.splitlines(keepends=True)
    start = next((i for i, line in enumerate(lines) if line.startswith("human_agreement:")), len(lines))
    block_end = start + 1
    for i in range(start + 1, len(lines)):
        if lines[i].strip():
            if lines[i][0] not in " \t":
                break
            block_end = i + 1
    before = "".join(lines[:start])
    changed = before + ("\n" if before and not before.endswith("\n") else "") + block + "".join(lines[block_end:])
    try:
        as_meant = yaml.safe_load(changed) == {**old, "human_agreement": measured}
    except yaml.YAMLError:
        as_meant = False
    if not as_meant:
        raise InputError(f"{path}: human_agreement cannot be replaced by itself; write it as a block of its own lines")
    write_atomically(path, changed)
