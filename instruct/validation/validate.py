"""`instruct validate`: a judge compared with human labels, by asking it or by replaying its verdicts."""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from instruct.base.errors import InputError, InstructError, counted, one_line
from instruct.base.files import write_atomically
from instruct.base.machine import now
from instruct.base.output import Result
from instruct.engines.cluster import Where
from instruct.judging.asking import Judge
from instruct.judging.cards import JudgeCard
from instruct.judging.comparison import ComparisonKey
from instruct.judging.human_agreement import LEAST_PAIRS, HumanAgreement, share, yardstick_warning
from instruct.judging.interchange.numbered import POSITIONS
from instruct.judging.interchange.record import FileVerdict
from instruct.judging.judge import JudgingTask, ask_judges
from instruct.judging.options import JudgeOptions
from instruct.judging.presentations import Answers
from instruct.judging.store import Judgment, JudgmentStore
from instruct.judging.verdicts import margins
from instruct.judging.work import JudgingMode
from instruct.reporting.document import Document, Paragraph
from instruct.reporting.render.lines import render_markdown, terminal_table
from instruct.run.directory import RunDirectory
from instruct.run.lock import VERDICTS, only_process
from instruct.validation.agreement import Agreement, measure_agreement
from instruct.validation.agreement_report import agreement_tables
from instruct.validation.card_figures import (
    card_figures,
    check_measures,
    trained_on,
    writable_card,
    write_human_agreement,
)
from instruct.validation.human_sets import HumanSet
from instruct.validation.judge_labels import load_labels
from instruct.validation.published import Verdicts, read_published, write_verdicts

# A margin beyond any that a judge's log-probabilities give: certainty.
MOST_MARGIN = 1e9


def validate(
    judge: JudgeOptions | None,
    against: str | Sequence[str],
    *,
    reference: str | None = None,
    replay: str | Sequence[str] | None = None,
    replay_swapped: str | None = None,
    limit: int | None = None,
    output: str | None = None,
    write_card: bool = False,
    mode: JudgingMode | None = None,
    where: Where = None,
) -> Result:
    """Measure a judge's agreement with human labels; write agreement.json, agreement.md and verdicts.jsonl.

    Without a file to replay, the judge is asked about every pair in both orders, in the run directory
    `runs/validate-JUDGE-SET`; replies stored there are not asked for again.

    Args:
        judge: which judge, and how it is asked; None for a replay, which names its own judge.
        against: the name of a set with human labels, a file of labelled pairs, or AlpacaEval's annotations of one model
            or several (`judge_labels`).
        reference: the baseline's answers, for annotations that leave them out.
        replay: a file of verdicts to score instead of asking, made with the answers in the set's order; of annotations,
            one or several.
        replay_swapped: the same, made with each pair's second answer shown first.
        limit: use only the first pairs, as a trial.
        output: the folder for the files; None: the run directory.
        write_card: write the figures to the judge's card, under `human_agreement`. With `replay`, the file must state
            that this card made its verdicts.
        mode: whether a judge that costs money may do without a budget, and what is asked again.
        where: the judge's model is loaded, if it is a local one.

    Returns:
        agreement.json's content; how often the judge agrees, and on a line each what changes that claim; all tables as
        text; and why asking stopped early, if it did.

    Raises:
        InputError: unknown judge or set, or a file that does not fit the set.
    """
    # In both orders, whatever the options say.
    resolved = Judge(judge.model_copy(update={"orders": "both"}), where=where) if judge else None
    if resolved is None and (write_card or not replay):
        raise InputError("`judge` is required to ask a judge and to write its card; add it")
    if replay_swapped and not replay:
        raise InputError("`replay_swapped` requires `replay`, which gives the verdicts in the set's own order")
    if limit is not None and (replay or write_card or limit < 1):
        raise InputError("`limit` must be at least 1, and cannot be combined with `replay` or `write_card`")
    path = writable_card(judge) if judge and write_card else None
    human = load_labels([against] if isinstance(against, str) else against, reference)
    if write_card and not human.by_people:
        raise InputError(
            f"`write_card`: the labels of {human.name} are a judge's, and a card states agreement with people; leave "
            "it out"
        )
    human = replace(human, pairs=human.pairs[:limit])
    card, stopped = resolved.card if resolved else None, None
    if replay:
        files = [replay] if isinstance(replay, str) else replay
        verdicts, card = _replayed(human, files, replay_swapped, card)
        if path and card is None:
            raise InputError(
                f"`write_card`: {files[0]} does not state that {path} in its present form made these verdicts; ask "
                "the judge, or replay a verdicts.jsonl that `instruct validate` wrote with this card"
            )
        folder = _folder(verdicts.judge, human, "-replay")
    trained = 0 if replay and verdicts.about else trained_on(card, human.pairs)
    if write_card:  # before anything is asked
        check_measures(human, trained)
    if resolved and not replay:
        folder = _folder(resolved.card.name, human)
        verdicts, stopped = _asked(resolved, human, folder, mode or JudgingMode())
    agreement = measure_agreement(human, verdicts.raters(), verdicts.positions_known)
    figures = card_figures(agreement, card, verdicts.about)
    warnings = _warnings(card, human, limit, figures, trained)
    shorter, n = agreement.measurements["listed", "shorter_better", ""], agreement.pairs
    sentence = (
        f"Agrees with {human.labels_by} on {share(figures['accuracy'], n)} of {counted(n, 'pair')} "
        f"({figures['yardstick']}: {share(figures['yardstick_accuracy'], n)})."
    )
    if shorter.value is None:
        sentence += " No pair's shorter answer is the better one."
    else:
        sentence += f" On {shorter.value:.1f} % of the {shorter.n} whose shorter answer is the better one."
    headline = [sentence, *(f"WARNING: {warning}" for warning in warnings)]
    head = _head(human, verdicts, headline, agreement)
    target = Path(output) if output else folder
    content = {
        "judge": verdicts.judge,
        "model": verdicts.model,
        "card_sha256": verdicts.card,
        "set": human.name,
        "set_sha256": human.sha256,
        "verdicts": verdicts.source,
        "notes": verdicts.notes,
        "measured": now(),
        "warnings": warnings,
        **agreement.content(),
    }
    write_atomically(target / "agreement.json", json.dumps(content, indent=2, ensure_ascii=False) + "\n")
    tables = [table for table in agreement_tables(agreement) if table.rows]
    document = Document(f"{verdicts.judge} against {human.name}", [*map(Paragraph, head), *tables])
    write_atomically(target / "agreement.md", render_markdown(document))
    write_verdicts(target / "verdicts.jsonl", verdicts)
    lines = [one_line(line, 1000) for line in (*head, f"written to {target}")]
    for table in tables:
        lines += ["", table.title, *terminal_table(table, 80, indent=2)]
    text = "\n".join(lines) + "\n"
    if path and not stopped:
        write_human_agreement(path, human.name, figures)
        text += f"\nwrote human_agreement.{human.name} to {path}\n"
    return Result(content, "\n".join(headline), text, stopped)


def _folder(judge: str, human: HumanSet, ending: str = "") -> Path:
    return Path("runs") / (re.sub(r"[^\w.+@-]+", "_", f"validate-{judge}-{human.name}") + ending)


def _replayed(
    human: HumanSet, replay: Sequence[str], replay_swapped: str | None, judge: JudgeCard | None
) -> tuple[Verdicts, JudgeCard | None]:
    """The verdicts of files, and the judge's card if the files state that it made them."""
    files = [read_published([Path(file).expanduser() for file in replay], human.pairs)]
    if replay_swapped:
        files.append(read_published([Path(replay_swapped).expanduser()], human.pairs, "swapped"))
    verdicts = sorted(
        (each for file in files for each in file.verdicts),
        key=lambda each: (each.judgment.pair, each.judgment.position),
    )
    shown = Counter(each.judgment.position for each in verdicts)
    if repeated := [order for order, position in POSITIONS.items() if shown[position] > len(human.pairs)]:
        raise InputError(f"{replay_swapped}: a second set of verdicts for order {repeated[0]}; replay only one of them")
    if "first" not in shown:
        raise InputError(f"{replay[0]}: has the swapped order only; give verdicts in the set's own order too")
    for file in files:
        if file.set_sha256 not in (None, human.sha256):
            raise InputError(
                f"{replay[0]}: has verdicts on another set (its first line states set_sha256 "
                f"{one_line(file.set_sha256, 70)}, but {human.name} has {human.sha256}); give the verdicts on this set"
            )
    made = {(file.card, file.model) for file in files}
    stated, model = made.pop() if len(made) == 1 else (None, None)
    card = judge if judge and judge.sha256() == stated else None
    known = all(file.positions_known for file in files)
    notes = [] if known else ["AlpacaEval's annotations do not tell which answer was shown first: no position figure"]
    if judge and card is None:
        notes.append(f"the file does not state that the card {judge.name} made these verdicts")
    return replace(
        files[0],
        verdicts=verdicts,
        source="replayed from " + " and ".join(file.source for file in files),
        notes=notes,
        positions_known=known and not (card and card.rates_alone),
        model=model,
        card=stated,
    ), card


def _asked(judge: Judge, human: HumanSet, folder: Path, mode: JudgingMode) -> tuple[Verdicts, InstructError | None]:
    """The judge's verdicts on every pair in both orders, and why asking stopped early, if it did."""
    card = judge.card
    run = RunDirectory(folder)
    run.start({"name": folder.name, "judge": card.name, "against": human.name, "set_sha256": human.sha256})
    # Not judgments.sqlite: verbs without a RUN take the newest run that has one, and this compares no systems.
    run.store = folder / "validation.sqlite"
    _take_replies(human, card.name, run)
    step = f"validate/{card.name}/{human.name}"
    made_from = {"judge": judge.options.made_with(), "card": card.sha256()}
    inputs = {"set": human.sha256, "pairs": len(human.pairs), **made_from}
    task = JudgingTask(step, inputs, _answers(human, "first"), _answers(human, "second"))
    stopped = ask_judges(run, [judge], lambda _: [task], mode)
    with JudgmentStore(run.store) as store:
        verdicts, reasons = _stored(store, card, len(human.pairs))
    results = run.manifest()["steps"].get(step, {}).get("results", {})
    notes = [*results.get("notes", []), *(f"{count} × {reason}" for reason, count in reasons.most_common(5))]
    if results.get("trimmed"):
        notes.append(f"trimmed to fit the judge's context: {counted(results['trimmed'], 'prompt')}")
    return Verdicts(
        verdicts,
        card.name,
        f"asked in {folder}",
        notes,
        positions_known=not card.rates_alone,
        model=card.model,
        card=card.sha256(),
        set_sha256=human.sha256,
        tie_margin=card.verdict.tie_margin,
    ), stopped


def _take_replies(human: HumanSet, judge: str, run: RunDirectory) -> None:
    """Take the judge's replies from the run that has the labels, so that none is asked for twice."""
    labeled = RunDirectory(human.path.parent)
    if human.path != labeled.labels or not labeled.manifest_path.is_file() or not labeled.store.exists():
        return
    with JudgmentStore(labeled.store) as theirs:
        made = [judged for key in theirs.comparisons() if key.judge == judge for judged in theirs.judgments(key)]
        replies = theirs.completions(key for judged in made for key in judged.key.split())
    if replies:
        with only_process(run, VERDICTS), JudgmentStore(run.store) as ours:
            there = ours.completions(replies)
            ours.add_replies(judge, [(key, reply, 0.0) for key, reply in replies.items() if key not in there])


def _stored(store: JudgmentStore, card: JudgeCard, pairs: int) -> tuple[list[FileVerdict], Counter[str]]:
    """The verdicts of each pair and order, and why verdicts are missing."""
    comparison = ComparisonKey(card.name, "first", "second")
    judgments = {(j.pair, j.position): j for j in store.judgments(comparison)}
    completions = store.completions(key for judgment in judgments.values() for key in judgment.key.split())
    known = margins(card, list(judgments.values()), completions)
    verdicts: list[FileVerdict] = []
    reasons: Counter[str] = Counter()
    for pair, position in itertools.product(range(pairs), ["first"] if card.rates_alone else POSITIONS.values()):
        not_asked = Judgment(*comparison, pair, str(pair), "", position, "", "failed", "not asked")
        judgment = judgments.get((pair, position), not_asked)
        missing = judgment.verdict in ("unparsed", "failed")
        if missing:
            reasons[f"{judgment.verdict}: {judgment.reason}"] += 1
        margin = None if missing else known.of(judgment)
        if margin is not None:
            margin = max(-MOST_MARGIN, min(MOST_MARGIN, round(margin, 6)))  # JSON has no infinity
        reply = completions.get(judgment.key)
        replies = {judgment.key: reply} if reply else {}
        verdicts.append(FileVerdict(judgment, str(store.path), replies=replies, margin=margin))
    return verdicts, reasons


def _answers(human: HumanSet, side: Literal["first", "second"]) -> Answers:
    """One side of the set; an instruction may occur in several pairs, so a pair's index is its id."""
    rows = []
    for index, pair in enumerate(human.pairs):
        earlier = pair.earlier if side == "second" and pair.earlier is not None else pair.prompt.earlier
        prompt = replace(pair.prompt, dataset=pair.group or human.name, earlier=earlier)
        rows.append(prompt.row(getattr(pair, side), side, id=str(index)))
    return Answers(side, rows)


def _head(human: HumanSet, verdicts: Verdicts, headline: Sequence[str], agreement: Agreement) -> list[str]:
    model = f" ({verdicts.model})" if verdicts.model else ""
    labels = f"{len(human.annotators)} annotators" if len(human.annotators) > 1 else "one label each"
    whose = "human labels" if human.by_people else f"the verdicts of {human.labels_by}"
    pairs, instructions = counted(len(human.pairs), "pair"), len(set(agreement.clusters))
    notes = [*human.notes, *verdicts.notes]
    if verdicts.unreadable_are_ties and (unread := agreement.value("listed", "unparsed")):
        right = round((agreement.value("listed", "accuracy") or 0) * len(human.pairs) / 100)
        as_ties = right + (agreement.value("listed", "confusion", "tie, no verdict") or 0)
        notes.append(
            f"{counted(int(unread), 'unreadable verdict')}: counted as wrong {right} of {len(human.pairs)} are "
            f"right; as ties, as PandaLM's authors count them, {as_ties:.0f}"
        )
    return [
        f"Judge {verdicts.judge}{model} vs. {whose} on {human.name}: {pairs}, {labels}.",
        *headline,
        f"Verdicts: {verdicts.source}. Parentheses: 95 % intervals over {counted(instructions, 'instruction')}.",
        *(f"Note: {note}" for note in notes),
    ]


def _warnings(
    card: JudgeCard | None, human: HumanSet, limit: int | None, figures: HumanAgreement, trained: int
) -> list[str]:
    """What changes the claim of the agreement; `card`: the one that made the verdicts, None if that is not known."""
    pairs = counted(len(human.pairs), "pair")
    warnings = [card.warning] if card and card.warning else []
    if trained:
        warnings.append(
            f"the judge was trained on {trained} of these {pairs}, so this is not how well it judges what it has not "
            "seen"
        )
    if limit is not None:
        warnings.append(f"Only the first {pairs}: a trial, not a measurement.")
    elif len(human.pairs) < LEAST_PAIRS:
        warnings.append(f"measured on {pairs} only; a figure takes at least {LEAST_PAIRS}")
    if warning := yardstick_warning(human.name, figures, human.labels_by):
        warnings.append(f"the judge {warning}.")
    return warnings
