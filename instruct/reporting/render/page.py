"""report.html: the report, and the pairs behind its numbers, as one file that opens from disk and loads nothing."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from instruct.analysis.outcomes import UNKNOWN_ORDER, outcome_of
from instruct.base.errors import one_line
from instruct.base.files import write_atomically
from instruct.base.replies import Completion
from instruct.data.prompts import request_of
from instruct.judging.store import Judgment
from instruct.reporting.digits import number, span
from instruct.reporting.document import Brief, Caution, Listing, Paragraph, Verdict, document
from instruct.reporting.model import ReportData
from instruct.reporting.read import MOST_PAIRS, Judged
from instruct.reporting.render.html import escaped_json, image, render
from instruct.reporting.tables import Table
from instruct.reporting.text import capital
from instruct.run.directory import RunDirectory

Kind = TypeVar("Kind")
# Characters kept of an answer and of a judge's reply, tried in turn until the packed texts stay within _MOST_BYTES:
# the judge's replies are shortened first.
_LIMITS = ((20_000, 8_000), (20_000, 2_000), (20_000, 600), (6_000, 300), (2_000, 300), (700, 200), (200, 100))
_MOST_BYTES = 2_300_000
_NUMBER = re.compile(r"\s*[-+]?\d*\.?\d+(e[-+]?\d+)?\s*", re.IGNORECASE)


def write_page(run: RunDirectory, report: ReportData, pairs: str) -> None:
    """Write report/report.html next to the report's other files, with its figures and pairs.

    Args:
        pairs: as in render_page.
    """
    write_atomically(run.report / "report.html", render_page(report, page_figures(report, run.report), pairs))


def render_page(report: ReportData, figures: Mapping[str, Path], pairs: str | None) -> str:
    """report.html.

    The page's policy (Content-Security-Policy) allows its own style sheet and script by their hashes, and embedded
    images: nothing else runs, and nothing is loaded. Names are escaped; prompts, answers and replies come as JSON and
    are shown with `textContent` only.

    Args:
        figures: a figure's title to its SVG file; shown as an image, in which nothing can run.
        pairs: what packed_pairs made, in the order of the report's comparisons; None: a page without them.
    """
    shown = document(report)
    verdicts = _of_kind(Verdict, shown.opening)
    # Without verdicts the first screen has the tables that a terminal has.
    opened = [block.content if isinstance(block, Brief) and not verdicts else block for block in shown.opening]
    leading = _of_kind(Table, opened)
    return render(
        "report.html.jinja",
        "report.css",
        "report.js",
        run=shown.title,
        created=one_line(report.created)[:10],
        verdicts=verdicts,
        listings=_of_kind(Listing, shown.opening),
        warnings=[block.warning for block in _of_kind(Caution, shown.opening) if not block.about],
        judges=shown.judges,
        paragraphs=[block.text for block in _of_kind(Paragraph, shown.opening) if not block.about],
        trust={block.about: block.text for block in _of_kind(Paragraph, shown.opening)},
        figures={one_line(title): image(path.read_text(encoding="utf-8")) for title, path in figures.items()},
        leading=leading,
        tables=[table for table in shown.numbers if table not in leading],
        made=shown.made,
        version=one_line(report.versions.get("instruct", "")),
        # The names go with the pairs: the script shows them with the texts.
        data=_json(verdicts, pairs) if pairs is not None and verdicts else None,
        clean=one_line,
        capital=capital,
        number=number,
        span=span,
    )


def _of_kind(kind: type[Kind], blocks: Iterable[object]) -> list[Kind]:
    return [block for block in blocks if isinstance(block, kind)]


def page_figures(report: ReportData, folder: Path) -> dict[str, Path]:
    """The report's figures by title; missing files are left out."""
    files = {figure.title: folder / figure.svg for figure in report.figures}
    return {title: path for title, path in files.items() if path.is_file()}


def _json(verdicts: list[Verdict], pairs: str) -> str:
    names = [{key: getattr(verdict, key) for key in ("judge", "candidate", "baseline")} for verdict in verdicts]
    return escaped_json({"names": names, "packed": pairs})


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
            "p": texts.number(request_of(row) if row else name, 0),
            "c": texts.number(ours["output"] if ours else None, 0),
            "b": texts.number(theirs["output"] if theirs else None, 0),
            "v": [_verdict(judgment, judged.replies, texts) for judgment in judgments],
        }
        if result and result.score not in (None, 0, 0.5, 1):
            pair["s"] = round(result.score or 0.0, 3)
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
    shown: dict[str, Any] = {"o": outcome_of(judgment)}
    if judgment.reason != UNKNOWN_ORDER:
        shown["f"] = judgment.position
    if judgment.reason:
        shown["r"] = judgment.reason[:400]
    if judgment.preference is not None:
        shown["q"] = round(judgment.preference, 3)
    said = [replies[key] for key in judgment.key.split() if key in replies]
    words = [reply.text for reply in said]
    if judgment.ratings is not None:
        shown["g"] = [f"{rating:.3g}" for rating in judgment.ratings]
        words = [] if all(map(_NUMBER.fullmatch, words)) else words  # the ratings again
    if said:
        shown["w"] = [texts.number(text, 1) for text in words]
    logprobs = next((reply.label_logprobs for reply in said if reply.label_logprobs), None)
    if logprobs:
        shown["k"] = ", ".join(f"{label.strip()} {value:.2f}" for label, value in logprobs.items())
    return shown


def _inconsistent(judgments: Sequence[Judgment]) -> bool:
    """Whether both orders were read, with different results."""
    outcomes = [outcome_of(judgment) for judgment in judgments]
    return len(outcomes) == 2 and not {"unparsed", "failed"} & set(outcomes) and outcomes[0] != outcomes[1]
