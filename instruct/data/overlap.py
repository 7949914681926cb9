"""How many evaluation prompts are in the training data, as whole texts or by shared 13-grams.

A 13-gram is what Brown et al. 2020 (GPT-3, arXiv 2005.14165, appendix C) search training data for: 13 words in a row,
in lower case, without punctuation.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from instruct.data.formats import alpaca_request
from instruct.data.rows import RowSet

N = 13
# Thai, Japanese and Chinese do not separate words.
UNSPACED = r"\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"[{UNSPACED}]|[^\W_{UNSPACED}]+")


def words(text: str) -> list[str]:
    """The words of a text, normalized (NFKC) and in lower case, without punctuation and symbols.

    Of scripts that do not separate words, each character.
    """
    if not text.isascii():
        text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return _WORD.findall(text.lower())


def find_overlap(prompts: Sequence[str], rows: RowSet) -> dict[str, Any]:
    """Search all training rows for evaluation prompts, in one pass.

    Returns:
        prompts: the number of evaluation prompts.
        rows: the number of training rows that were searched.
        exact: prompts that are a request (a prompt, or a user turn of a chat) or a whole text of the training data, in
            the same words.
        shared: prompts that share 13 words in a row with a training row, its answers included; long exact ones count.
        short: prompts of fewer than 13 words, which can only match exactly.
        found: of every prompt that matches either way, its number in the evaluation set, from 1, and the place of the
            first row that it matches.
    """
    whole: dict[tuple[str, ...], list[int]] = {}
    grams: dict[tuple[str, ...], list[int]] = {}
    short = 0
    for number, prompt in enumerate(prompts, start=1):
        own = tuple(words(prompt))
        short += len(own) < N
        if own:
            whole.setdefault(own, []).append(number)
        for start in range(len(own) - N + 1):
            grams.setdefault(own[start : start + N], []).append(number)
    exact: set[int] = set()
    shared: set[int] = set()
    places: dict[int, str] = {}
    for row, place in zip(rows.rows, rows.sources, strict=True):
        for is_request, text in _texts(row):
            of_row = words(text)
            matches = whole.get(tuple(of_row), ()) if is_request else ()
            exact.update(matches)
            shared_here: set[int] = set()
            for start in range(len(of_row) - N + 1):
                shared_here.update(grams.get(tuple(of_row[start : start + N]), ()))
            shared |= shared_here
            for number in (*matches, *shared_here):
                places.setdefault(number, place)
    counts = {"prompts": len(prompts), "rows": len(rows.dataset), "exact": len(exact), "shared": len(shared)}
    return {**counts, "short": short, "found": dict(sorted(places.items()))}


def overlap_text(overlap: Mapping[str, Any]) -> str:
    """An overlap in words, with shares of the evaluation prompts; `overlap`: what `find_overlap` returns."""
    prompts, exact, shared = overlap["prompts"], overlap["exact"], overlap["shared"]
    shares = [f"{100 * count / prompts:.1f} %" for count in (exact, shared)]
    if shared and not exact:
        return (
            f"{shared:,} of {prompts:,} evaluation prompts ({shares[1]}) share {N} words in a row with the training "
            "data, none is in it word for word"
        )
    return (
        f"{exact:,} of {prompts:,} evaluation prompts ({shares[0]}) are in the training data word for word, {shared:,} "
        f"({shares[1]}) share {N} words in a row with it"
    )


def _texts(row: Mapping[str, Any]) -> Iterator[tuple[bool, str]]:
    """The texts of a training row, each with whether it is a request or a whole text."""
    if "text" in row:
        yield True, row["text"]
        return
    for name in ("prompt", "completion", "messages"):
        part = row.get(name, [])
        if isinstance(part, str):
            yield name == "prompt", alpaca_request(part) if name == "prompt" else part
        else:
            for message in part:
                yield message["role"] == "user", str(message["content"])
