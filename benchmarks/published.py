"""The table of docs/evidence_published.md: published tables of objectives, and what their sizes can tell from chance.

    python -m benchmarks.published                 # writes the table into the page
    python -m benchmarks.published --print

The figures were typed from the sources that the page names; the rest is arithmetic. A test compares the page with it.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from pathlib import Path
from statistics import NormalDist
from typing import NamedTuple

PAGE = Path(__file__).resolve().parents[1] / "docs" / "evidence_published.md"
BEGIN, END = "<!-- python -m benchmarks.published -->", "<!-- end of the published tables -->"
QUANTILE = NormalDist().inv_cdf(0.975)
POWER = NormalDist().inv_cdf(0.8)


class Published(NamedTuple):
    """A figure in bold, in percent, beside that of cross-entropy in the same column.

    `n`: items of the benchmark; `samples`: answers to each that are averaged; None: not published.
    """

    table: str
    benchmark: str
    n: int | None
    samples: int | None
    method: str
    bold: float
    mle: float


def _rows(table: str, method: str, *figures: tuple[str, int | None, int | None, float, float]) -> Iterator[Published]:
    for benchmark, n, samples, bold, mle in figures:
        yield Published(table, benchmark, n, samples, method, bold, mle)


EAFT = "EAFT, Qwen3-4B"
ASFT = "ASFT, {} rows"
PUBLISHED = [
    *_rows(f"{EAFT}, math", "EAFT", ("AIME25", 30, None, 53.3, 50.0)),
    *_rows(f"{EAFT}, math", "FLOW", ("AIME24", 30, None, 66.7, 63.3)),
    *_rows(f"{EAFT}, math", "SFT-KL", ("CLUEWSC", None, None, 89.4, 74.5)),
    *_rows(f"{EAFT}, math", "EAFT", ("MMLU", 14042, None, 76.6, 76.5), ("IFEval", 541, None, 80.1, 79.5)),
    *_rows(f"{EAFT}, medical", "EAFT", ("MedMCQA", 4183, None, 63.9, 63.3), ("MedQA", 1273, None, 80.0, 79.5)),
    *_rows(f"{EAFT}, medical", "EAFT", ("MMLU", 14042, None, 80.1, 78.3)),
    *_rows("PSFT, Qwen2.5-7B", "PSFT", ("AIME24", 30, 32, 15.94, 14.69), ("AIME25", 30, 32, 18.13, 15.42)),
    *_rows("PSFT, Qwen2.5-7B", "PSFT", ("AMC", 40, 32, 58.05, 56.64), ("GPQA", None, 32, 38.89, 35.80)),
    *_rows("PSFT, Qwen2.5-7B", "PSFT", ("MMLU-Pro", 12032, 32, 51.28, 46.50)),
    *_rows(ASFT.format("10k"), "ASFT", ("MedQA", 1273, 1, 39.28, 33.31), ("MMLU (medical)", None, 1, 46.37, 33.52)),
    *_rows(ASFT.format("10k"), "ASFT", ("MedMCQA", 4183, 1, 40.45, 33.28), ("Minerva", 272, 16, 19.91, 11.30)),
    *_rows(ASFT.format("10k"), "ASFT", ("AMC23", 40, 16, 36.41, 17.03)),
    *_rows(ASFT.format("10k"), "DFT", ("AIME24", 30, 16, 4.18, 1.24), ("Math500", 500, 16, 59.51, 41.84)),
    *_rows(ASFT.format("10k"), "DFT", ("Olympiad", 675, 16, 24.95, 12.26)),
    *_rows(ASFT.format("30k"), "ASFT", ("MedQA", 1273, 1, 42.03, 33.54), ("MMLU (medical)", None, 1, 44.94, 38.48)),
    *_rows(ASFT.format("30k"), "ASFT", ("MedMCQA", 4183, 1, 39.06, 36.03), ("AIME24", 30, 16, 5.81, 2.71)),
    *_rows(ASFT.format("30k"), "ASFT", ("AMC23", 40, 16, 30.00, 21.56)),
    *_rows(ASFT.format("30k"), "DFT", ("Math500", 500, 16, 57.93, 44.74), ("Minerva", 272, 16, 23.28, 13.21)),
    *_rows(ASFT.format("30k"), "DFT", ("Olympiad", 675, 16, 25.31, 13.44)),
    *_rows(ASFT.format("100k"), "ASFT", ("MedQA", 1273, 1, 40.61, 33.46), ("MMLU (medical)", None, 1, 42.02, 38.01)),
    *_rows(ASFT.format("100k"), "ASFT", ("MedMCQA", 4183, 1, 37.32, 35.67), ("AIME24", 30, 16, 6.66, 0.83)),
    *_rows(ASFT.format("100k"), "ASFT", ("Math500", 500, 16, 59.99, 47.30), ("Minerva", 272, 16, 23.55, 13.46)),
    *_rows(ASFT.format("100k"), "ASFT", ("Olympiad", 675, 16, 25.57, 14.16), ("AMC23", 40, 16, 36.72, 20.00)),
]


def unpaired_error(row: Published, samples: int = 1) -> float:
    """The standard error of the difference, in points, of answers that are all independent, `samples` to an item.

    With one, it is also that of any number if each item is always or never solved.
    """
    assert row.n
    variance = sum(share * (1 - share) for share in (row.bold / 100, row.mle / 100))
    return 100 * math.sqrt(variance / (row.n * samples))


def detectable(row: Published, samples: int = 1) -> float:
    """The difference, in points, that such answers show in four of five cases by a two-sided test at 5 %."""
    return (QUANTILE + POWER) * unpaired_error(row, samples)


def best_paired_p(row: Published) -> float:
    """McNemar's exact p of single answers if no item was lost: the least that any pairing gives."""
    assert row.n
    gained = round((row.bold - row.mle) / 100 * row.n)
    return min(1.0, 2 * 0.5**gained)


def verdict(row: Published) -> str:
    """Whether the difference can be told from chance for these two trainings, on other items like these."""
    if row.n is None:
        return "cannot be told from what is published"
    if row.bold - row.mle > QUANTILE * unpaired_error(row):
        return "yes, even unpaired"
    if row.samples in (1, None) and best_paired_p(row) > 0.05:
        return "no" if row.samples else "no, if each item was answered once"
    return "cannot be told from what is published"


def table() -> str:
    """The table in Markdown."""
    header = "| table | benchmark | n | samples | bold | figure | SFT | difference | detectable | from chance? |"
    lines = [header, "|---" * 10 + "|"]
    for row in PUBLISHED:
        sizes = "not published | not published" if row.n is None else f"{row.n:,} | {row.samples or 'not published'}"
        if row.n is None and row.samples:
            sizes = f"not published | {row.samples}"
        lines.append(
            f"| {row.table} | {row.benchmark} | {sizes} | {row.method} | {row.bold:g} | {row.mle:g} | "
            f"{row.bold - row.mle:+.1f} | {_range(row)} | {verdict(row)} |"
        )
    return "\n".join(lines)


def _range(row: Published) -> str:
    """What can be detected unpaired: from independent samples to items that are always or never solved."""
    if row.n is None:
        return "-"
    most = f"{detectable(row):.1f}"
    return most if row.samples in (1, None) else f"{detectable(row, row.samples):.1f} to {most}"


def summary() -> str:
    """How many figures in bold above SFT's can be told from chance."""
    verdicts = [verdict(row) for row in PUBLISHED]
    counts = {name: sum(each.startswith(name) for each in verdicts) for name in ("yes", "no", "cannot")}
    return (
        f"Of {len(PUBLISHED)} figures in bold that are above SFT's, {counts['yes']} can be told from chance even if "
        f"nothing was paired, {counts['no']} cannot, and of {counts['cannot']} what is published does not tell."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--print", action="store_true", dest="only_print", help="print the table and change nothing")
    made = f"{summary()}\n\n{table()}"
    if parser.parse_args().only_print:
        print(made)
        return
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{made}\n{END}{rest.partition(END)[2]}", encoding="utf-8")


if __name__ == "__main__":
    main()
