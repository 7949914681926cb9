"""The pairs behind the numbers, for the page: prompts, answers, verdicts and the judge's own words, packed."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from instruct.analysis.outcomes import UNKNOWN_ORDER, outcome_of
from instruct.base.replies import Completion
from instruct.judging.store import Judgment
from instruct.reporting.read import MOST_PAIRS, Judged

# Characters kept of an answer and of a judge's reply, tried in turn until the packed texts stay within _MOST_BYTES:
# the judge's replies are shortened first.
_LIMITS = ((20_000, 8_000), (20_000, 2_000), (20_000, 600), (6_000, 300), (2_000, 300), (700, 200), (200, 100))
_MOST_BYTES = 2_300_000


@dataclass
class _Texts:
    """Texts by number, each once; a text that is cut has its full length with it."""

    numbers: dict[tuple[str, int], int] = field(default_factory=dict)

    def number(self, text: str | None, kind: int) -> int | None:
        """The text's number; `kind`: which limit it is cut to, 0 an answer's, 1 a reply's."""
        return None if text is None else self.numbers.setdefault((text, kind), len(self.numbers))

    def cut(self, limits: tuple[int, int]) -> list[str | list[Any]]:
        return [text if len(text) <= limits[kind] else [text[: limits[kind]], len(text)] for text, kind in self.numbers]


def packed_pairs(comparisons: Sequence[Judged]) -> str:
    """The pairs as JSON, compressed (zlib) and in base64: letters, digits and `+/=` only.

    `comparisons` holds, in the order given, `pairs` and the number `more` that were left out; texts are in `texts` and
    referred to by their index there. If all do not fit into a page, each is cut to the same length.
    """
    texts = _Texts()
    shown = [_comparison(judged, texts) for judged in comparisons]
    packed = b""
    for limits in _LIMITS:
        content = {"comparisons": shown, "texts": texts.cut(limits)}
        packed = base64.b64encode(zlib.compress(json.dumps(content, separators=(",", ":")).encode(), 6))
        if len(packed) <= _MOST_BYTES:
            break
    return packed.decode()


def _comparison(judged: Judged, texts: _Texts) -> dict[str, Any]:
    results = {result.instruction: result for result in judged.pairs}
    shown: dict[str, list[Judgment]] = {}
    for judgment in judged.judgments:
        shown.setdefault(judgment.instruction, []).append(judgment)
    kept = dict(list(shown.items())[:MOST_PAIRS])
    pairs = []
    for name, judgments in kept.items():
        ours, theirs = (side.by_pair.get(name) if side else None for side in judged.sides)
        result = results.get(name)
        row = ours or theirs
        pair: dict[str, Any] = {
            "n": judgments[0].pair + 1,
            "d": judgments[0].dataset,
            "o": result.outcome if result else "open",
            "p": texts.number(row["instruction"] if row else name, 0),
            "c": texts.number(ours["output"] if ours else None, 0),
            "b": texts.number(theirs["output"] if theirs else None, 0),
            "v": [_verdict(judgment, judged.replies, texts) for judgment in judgments],
        }
        if result and result.score not in (None, 0, 0.5, 1):
            pair["s"] = round(result.score or 0.0, 4)
        if _inconsistent(judgments):
            pair["x"] = 1
        if result and result.tie == "identical":
            pair["i"] = 1
        if any(judgment.trimmed for judgment in judgments):
            pair["t"] = 1
        # Code points, as everywhere in a report; a browser would count UTF-16.
        if ours and theirs:
            pair["l"] = [len(ours["output"]), len(theirs["output"])]
        pairs.append(pair)
    return {"pairs": pairs, "more": len(shown) - len(kept)}


def _verdict(judgment: Judgment, replies: dict[str, Completion], texts: _Texts) -> dict[str, Any]:
    """One showing: the candidate's place if known, the outcome for the candidate, why, and the judge's words."""
    found: dict[str, Any] = {"o": outcome_of(judgment)}
    if judgment.reason != UNKNOWN_ORDER:
        found["f"] = judgment.position
    if judgment.reason:
        found["r"] = judgment.reason[:400]
    if judgment.preference is not None:
        found["q"] = round(judgment.preference, 4)
    if judgment.ratings is not None:
        found["g"] = list(judgment.ratings)
    said = [replies[key] for key in judgment.key.split() if key in replies]
    if said:
        found["w"] = [texts.number(reply.text, 1) for reply in said]
    logprobs = next((reply.label_logprobs for reply in said if reply.label_logprobs), None)
    if logprobs:
        found["k"] = ", ".join(f"{label.strip()} {value:.2f}" for label, value in logprobs.items())
    return found


def _inconsistent(judgments: Sequence[Judgment]) -> bool:
    """Whether both orders were read, with different results."""
    found = [outcome_of(judgment) for judgment in judgments]
    return len(found) == 2 and not {"unparsed", "failed"} & set(found) and found[0] != found[1]
