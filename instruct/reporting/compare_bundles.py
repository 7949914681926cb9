"""Bundles of benches side by side: a table of their objectives, and claims between those that scored the same rows."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from instruct.analysis.claims import settle
from instruct.analysis.results import Claim
from instruct.base.errors import InputError, one_line
from instruct.reporting.bench import CLAIM_COLUMNS, ENTROPY, MLE, as_difference, claim_between
from instruct.reporting.bundle import Bundle, read_bundle, recomputed, training_rows
from instruct.reporting.document import Document, Listing
from instruct.reporting.exports import ends
from instruct.reporting.render.html import tables_page
from instruct.reporting.tables import Column, Table, columns_table, text_columns
from instruct.reporting.text import bench_headlines, name

TITLE = "Benches side by side"
BETWEEN = "between bundles"
_WITHIN = (
    "Each objective beside MLE of its own bundle, computed again from the scores of its rows; intervals and p are over "
    "seeds and rows. p (Holm) is corrected within its bundle. Rows of different bundles are not pooled."
)
_PAIRED = (
    "Systems of two bundles on the rows that both scored, first minus second; their trainings are not paired. Whatever "
    "else differs between the bundles is a part of the difference. p (Holm) is corrected for all tests of this table."
)


@dataclass(frozen=True)
class _Row:
    bundle: Bundle
    claim: Claim


@dataclass(frozen=True)
class _Apart:
    """Two bundles whose rows of a measure are not compared, and why."""

    bundles: str
    measure: str
    why: str


@dataclass(frozen=True)
class BundleComparison:
    """What bundles say: `within` each, `between` those with the same rows, and what is only `apart`."""

    bundles: Sequence[Bundle]
    within: Sequence[_Row]
    between: Sequence[Claim]
    apart: Sequence[_Apart]

    def headlines(self) -> list[str]:
        """A sentence for each claim between bundles, of a single bundle, or of the primary outcomes of several."""
        if self.between or len(self.bundles) == 1:
            return bench_headlines(self.between or [row.claim for row in self.within])
        primary = [row for row in self.within if row.claim.primary]
        return [f"{name(row.bundle.name)}: {line}" for row in primary for line in bench_headlines([row.claim])]

    def document(self) -> Document:
        """Sentences and tables."""
        *opening, bundles = self._tables()
        return Document(TITLE, [Listing("", [(line, ()) for line in self.headlines()]), *opening], [], [bundles])

    def summary(self, _where: str = "") -> Document:
        """The same: there is nothing to leave out."""
        return self.document()

    def _tables(self) -> Iterator[Table]:
        bundle = Column("bundle", "bundle.name", text=True)
        columns = [bundle, *(column.within(lambda row: as_difference(row.claim)) for column in CLAIM_COLUMNS)]
        yield columns_table("Objectives beside MLE", self.within, columns, _WITHIN)
        yield columns_table("Between bundles", self.between, [*CLAIM_COLUMNS, _DIFFERS], _PAIRED)
        yield columns_table("Not paired", self.apart, text_columns("bundles", "measure", "why"))
        yield columns_table("Bundles", self.bundles, _BUNDLES)

    def to_html(self) -> str:
        """The comparison as a page of its own."""
        return tables_page(TITLE, [], list(self._tables()), self.headlines())

    def content(self) -> dict[str, Any]:
        """All figures, for programs."""
        return {
            "bundles": [
                {"path": str(bundle.path), "sha256": bundle.sha256, "model": bundle.model, "data": bundle.data}
                for bundle in self.bundles
            ],
            "within": [{"bundle": row.bundle.name, **row.claim.model_dump()} for row in self.within],
            "between": [claim.model_dump() for claim in self.between],
            "not_paired": [vars(row) for row in self.apart],
        }

    def rows(self) -> list[dict[str, Any]]:
        """A row for each claim: what CSV files have."""
        found: list[tuple[Bundle | None, Claim]] = [(row.bundle, row.claim) for row in self.within]
        found += [(None, claim) for claim in self.between]
        keys = ("judge", "candidate", "baseline", "measure", "trainings", "n")
        return [
            {
                "bundle": bundle.name if bundle else BETWEEN,
                "model": bundle.model if bundle else None,
                "data": bundle.data if bundle else None,
                **{key: getattr(claim, key) for key in keys},
                "difference": claim.value,
                **ends("interval", claim.interval),
                **{key: getattr(claim, key) for key in ("p", "adjusted_p", "finding")},
            }
            for bundle, claim in ((bundle, as_difference(claim)) for bundle, claim in found)
        ]

    def __str__(self) -> str:
        return "\n".join(self.headlines())


def compare_bundles(paths: Sequence[str | Path]) -> BundleComparison:
    """Read bundles of `instruct bench`, and compare systems of those that scored the same rows.

    Raises:
        InputError: a file is no bundle, or is there twice.
    """
    bundles = [read_bundle(path) for path in paths]
    for one, other in itertools.combinations(bundles, 2):
        if one.sha256 == other.sha256 or one.name == other.name:
            raise InputError(f"{one_line(other.path, 200)}: is the bundle {one.path} again, or has its name")
    within = [_Row(bundle, claim) for bundle in bundles for claim in recomputed(bundle)]
    measures = list(dict.fromkeys(row.claim.measure for row in within))
    within.sort(key=lambda row: (not row.claim.primary, measures.index(row.claim.measure)))
    between: list[Claim] = []
    apart: list[_Apart] = []
    for one, other in itertools.combinations(bundles, 2):
        for measure in measures:
            scores = [bundle.measured.scores.get(measure, {}) for bundle in (one, other)]
            if not all(scores):
                continue
            if why := _why_apart(one, other, measure):
                apart.append(_Apart(f"{one.name}, {other.name}", measure, why))
            else:
                between += _claims(one, other, measure)
    settle(between)
    return BundleComparison(bundles, within, between, apart)


def _why_apart(one: Bundle, other: Bundle, measure: str) -> str:
    """Why the rows of a measure cannot be paired; "" if they can."""
    rows = [set(next(iter(bundle.measured.scores[measure].values()))) for bundle in (one, other)]
    if rows[0] != rows[1]:
        shared = len(rows[0] & rows[1])
        return f"other rows: {len(rows[0])} and {len(rows[1])}, {shared} in both"
    if measure == ENTROPY and one.model != other.model:
        return "another model, and perhaps other tokens"
    if measure == ENTROPY and _template(one) != _template(other):
        return "another template, which is in front of the text"
    if one.measured.clusters.get(measure) != other.measured.clusters.get(measure):
        return "other clusters of rows"
    return ""


def _template(bundle: Bundle) -> list[Any]:
    data = bundle.about.config.get("data") or {}
    return [data.get(key) for key in ("template", "chat_template", "chat_template_kwargs", "empty_thinking")]


def _claims(one: Bundle, other: Bundle, measure: str) -> Iterator[Claim]:
    """The systems of two bundles against each other, those of MLE apart from the others."""
    for first, second in itertools.product(one.measured.names, other.measured.names):
        ours, theirs = (
            bundle.measured.of(measure, bundle.measured.names[key]) for bundle, key in ((one, first), (other, second))
        )
        if (first == MLE) == (second == MLE) and ours and theirs:
            about: dict[str, Any] = {
                "candidate": f"{first} ({one.name})",
                "baseline": f"{second} ({other.name})",
                "family": BETWEEN,
            }
            params = {"differs": ", ".join(_differing(one, first, other, second))}
            yield claim_between(measure, ours, theirs, one.measured.clusters.get(measure), params=params, **about)


def _differing(one: Bundle, first: str, other: Bundle, second: str) -> list[str]:
    """What systems of two bundles were made with that is not the same, beside the objective."""
    ours, theirs = _made_with(one, first), _made_with(other, second)
    return [name for name in dict.fromkeys((*ours, *theirs)) if ours.get(name) != theirs.get(name)]


def _made_with(bundle: Bundle, key: str) -> dict[str, Any]:
    """What an objective's trainings were trained and answer with, by what it is called."""
    config = bundle.about.config
    model, system = config.get("model") or {}, config["systems"][bundle.measured.names[key][0]]
    return {
        "model": bundle.model,
        "training rows": training_rows(bundle),
        **{section: config.get(section) for section in ("train", "lora", "from_scratch")},
        "template": _template(bundle),
        "model options": {name: value for name, value in model.items() if name not in ("name", "revision")},
        **{section: (config.get(section) or {}).get("generation") for section in ("answers", "continuations")},
        **{name: value for name, value in system.items() if name not in ("objective", "seed", "adapter")},
        "versions": bundle.about.versions,
    }


_DIFFERS = Column("also differs", "params.differs")
_BUNDLES = [
    Column("bundle", "name", text=True),
    *text_columns("model", "data"),
    Column("rows to train", "claims.bench.rows.train"),
    Column("rows to test", "claims.bench.rows.test"),
    Column("trainings", lambda bundle: sum(map(len, bundle.measured.names.values()))),
    Column("elsewhere", lambda bundle: len(bundle.measured.elsewhere) or None, when="known"),
    Column("sha256", lambda bundle: bundle.sha256[:16]),
]
