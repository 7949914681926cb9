"""From a judge's reply to a verdict, in the order in which the answers were shown."""

from __future__ import annotations

import logging
import re
from typing import Literal

from instruct.judging.cards import VerdictRule

Verdict = Literal["first", "second", "tie", "unparsed", "failed"]


def read_verdict(rule: VerdictRule, text: str, label_logprobs: dict[str, float] | None) -> Verdict:
    """The verdict of a reply by a card's rule; what cannot be read is `unparsed`, never a tie."""
    if rule.labels is not None:
        first, second = ((label_logprobs or {}).get(label) for label in (rule.labels.first, rule.labels.second))
        if first is None or second is None:
            return "unparsed"
        if first == second or abs(first - second) < rule.tie_margin:
            return "tie"
        return "first" if first > second else "second"
    return {"autoj": autoj, "pandalm": pandalm, "alpaca_eval": alpaca_eval}[str(rule.parser)](text)


def autoj(text: str) -> Verdict:
    """Auto-J pairwise (GAIR-NLP/auto-j): what follows the last "final decision is "."""
    marker = "final decision is "
    if marker not in text:
        return "unparsed"
    decision = text[text.rindex(marker) + len(marker) :].strip().lower()
    verdicts: dict[str, Verdict] = {"response 1": "first", "response 2": "second", "tie": "tie"}
    return next((verdict for start, verdict in verdicts.items() if decision.startswith(start)), "unparsed")


def autoj_rating(text: str) -> float | None:
    """Auto-J single (GAIR-NLP/auto-j): the number in the last "Rating: [[x]]"; None where there is none."""
    found = re.findall(r"Rating: \[\[(\d+(?:\.\d+)?)\]\]", text)
    return float(found[-1]) if found else None


def pandalm(text: str) -> Verdict:
    """PandaLM (WeOpenML/PandaLM): the first line."""
    verdicts: dict[str, Verdict] = {"1": "first", "2": "second", "tie": "tie"}
    return verdicts.get(text.strip().split("\n")[0].strip().lower(), "unparsed")


def alpaca_eval(text: str) -> Verdict:
    """AlpacaEval's ranking, read by the package's own parser; two equal ranks, which it reads as a win, are a tie."""
    from alpaca_eval.completion_parsers import ranking_parser

    # The package logs what it cannot read, reply and all, as an error; here it is a count in the report.
    logging.disable(logging.ERROR)
    try:
        first, second = (ranking_parser(text, f"model_{number}")[0] if text else None for number in (1, 2))
    finally:
        logging.disable(logging.NOTSET)
    if first not in (1, 2) or second not in (1, 2):
        return "unparsed"
    if first == second:
        return "tie"
    return "first" if first == 1 else "second"
