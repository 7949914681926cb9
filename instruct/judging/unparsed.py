"""A judge most of whose replies have no readable verdict: what one says, what is read, and where all of them are."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable

from instruct.base.errors import UnparsedError, counted, one_line
from instruct.base.files import write_atomically
from instruct.base.output import warn
from instruct.judging.cards import JudgeCard
from instruct.judging.comparison import ComparisonKey
from instruct.judging.store import JudgmentStore
from instruct.run.directory import RunDirectory

# Above this share of replies without a readable verdict, those with one are no fair sample.
MOST_UNPARSED = 0.5


def check_readable(run: RunDirectory, card: JudgeCard, comparisons: Iterable[ComparisonKey]) -> None:
    """Warn of a judge if most of its replies in some comparisons have no readable verdict.

    They are written to the run's unparsed-JUDGE.jsonl: judge, candidate, baseline, instruction, position, reason and
    the replies' texts, a line for each.

    Raises:
        UnparsedError: none of its replies has one.
    """
    with JudgmentStore(run.store) as store:
        replied = [j for key in comparisons for j in store.judgments(key) if j.key and j.verdict != "failed"]
        unparsed = [judgment for judgment in replied if judgment.verdict == "unparsed"]
        replies = store.completions(key for judgment in unparsed for key in judgment.key.split())
    path = run.folder / ("unparsed-" + re.sub(r"[^\w.@+-]", "-", card.name) + ".jsonl")
    if len(unparsed) <= MOST_UNPARSED * len(replied):
        path.unlink(missing_ok=True)
        return
    texts = [[replies[key].text for key in judgment.key.split() if key in replies] for judgment in unparsed]
    rows = [
        {name: getattr(judgment, name) for name in (*ComparisonKey._fields, "instruction", "position", "reason")}
        | {"replies": its}
        for judgment, its in zip(unparsed, texts, strict=True)
    ]
    write_atomically(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    reasons = Counter(one_line(judgment.reason or "", 80) for judgment in unparsed).most_common(3)
    sample = next((text for its in texts for text in its if text.strip()), "")
    problem = (
        f"judge {card.name}: {len(unparsed)} of {counted(len(replied), 'verdict')} cannot be read "
        f"({', '.join(f'{count} × {reason}' for reason, count in reasons)}); expected {expectation(card)}; one reply: "
        f"{json.dumps(one_line(sample, 200), ensure_ascii=False)}; all are in {path}; change the prompt, max_tokens or "
        "verdict in a copy of the card (for another verdict alone nothing is asked again), or ask another model"
    )
    if len(unparsed) == len(replied):
        raise UnparsedError(problem)
    warn(problem)


def expectation(card: JudgeCard) -> str:
    """What a card reads in a reply, in words."""
    rule, what = card.verdict, ""
    if rule.words:
        what = ", ".join(repr(word) for word in (rule.words.first, rule.words.second, rule.words.tie) if word)
        what = f"one of {what}"
    elif rule.labels:
        return f"{rule.labels.first!r} or {rule.labels.second!r} as the first token, with its log-probability"
    elif rule.grades:
        what = f"one of {', '.join(map(repr, rule.grades))}"
    elif scale := rule.rating or rule.scores:
        what = f"{'a number' if rule.rating else 'two numbers'} from {scale.low:g} to {scale.high:g}"
    if rule.parser:
        return f"the form that the parser {rule.parser} of the judge's authors reads" + (what and f", {what}")
    if rule.json_field:
        return f"a JSON object whose field {rule.json_field!r} is {what}"
    return what + (f" where {rule.regex} matches" if rule.regex else " on the first line" if rule.scores else "")
