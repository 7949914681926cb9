"""MAUVE, ROUGE and diversity of continuations, for `instruct evaluate`.

Continuations are taken in draws: one of each prefix, with the same seed and sample number. A figure of a whole sample
of texts is computed for each draw, against the human text of the same prefixes, and averaged.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np
from pydantic import BaseModel

from instruct.analysis.jackknife import Measured, estimate, kept
from instruct.base.errors import InputError
from instruct.base.machine import has_nvidia_gpu
from instruct.base.models import EMBEDDED_MODEL, ModelOptions
from instruct.engines.forward import ForwardModel, open_model
from instruct.generation.continuations import Continuation
from instruct.measuring.texts.diversity import diversity, repeated_fraction, tokens
from instruct.measuring.texts.mauve import Mauve, mauve
from instruct.measuring.texts.model import Diversity, MauveFigures, Rouge, SampleFigure
from instruct.measuring.texts.rouge import NAMES, has_tokens, rouge

GPU_FEATURES = "openai-community/gpt2-large"
Columns = dict[str, list[Any]]


def draws(rows: Sequence[Continuation]) -> dict[str, list[Continuation]]:
    """The rows of each draw, by `seed/sample`, in the order of the prefixes' ids.

    Raises:
        InputError: a draw lacks a prefix that another has.
    """
    found: dict[str, list[Continuation]] = {}
    for row in sorted(rows, key=lambda row: (row.seed, row.sample, row.id)):
        found.setdefault(f"{row.seed}/{row.sample}", []).append(row)
    ids = {row.id for row in rows}
    for name, each in found.items():
        if len(each) < len(ids):
            missing = min(ids - {row.id for row in each})
            raise InputError(f"continuations: draw {name} (seed/sample) lacks prefix {missing!r}; generate them again")
    return found


def human_texts(rows: Sequence[Continuation]) -> list[str]:
    """How the human text of each row continues.

    Raises:
        InputError: it is not known.
    """
    for row in rows:
        if row.reference is None:
            raise InputError(
                f"continuations: the human text of prefix {row.id!r} is unknown; choose a corpus card with references, "
                "or leave mauve and rouge out of evaluation.texts.metrics"
            )
    return [row.reference or "" for row in rows]


def sample_figure(measured: Sequence[Measured]) -> SampleFigure:
    """The mean over draws, which share their prefixes; they are samples, not trainings, so they widen nothing."""
    known = [each.without for each in measured if each.without is not None]
    whole = Measured(
        statistics.fmean(each.value for each in measured),
        np.mean(known, axis=0) if len(known) == len(measured) else None,
        statistics.fmean(each.other_variance for each in measured),
    )
    found = estimate([whole])
    return SampleFigure(
        value=whole.value,
        interval=found.interval,
        without=None if whole.without is None else [float(value) for value in whole.without],
        other_variance=whole.other_variance,
    )


class MauveOf:
    """MAUVE of prefix + continuation against the human texts, from a causal model's last hidden states."""

    def __init__(self, model: ModelOptions | None, max_length: int) -> None:
        self.options = model or ModelOptions(name=GPU_FEATURES if has_nvidia_gpu() else EMBEDDED_MODEL)
        self.max_length = max_length
        self._model: ForwardModel = open_model(self.options)
        self._human: tuple[tuple[str, ...], np.ndarray] | None = None

    def inputs(self) -> dict[str, Any]:
        """What the features depend on."""
        made_from = [self._model.identity, self.options.dtype, self.options.quantization]
        return {"features": made_from, "max_length": self.max_length}

    def measure(self, rows: Sequence[Continuation]) -> tuple[BaseModel, Columns]:
        found: dict[str, Mauve] = {}
        for name, each in draws(rows).items():
            references = human_texts(each)
            human = self._human_features([row.prefix + text for row, text in zip(each, references, strict=True)])
            found[name] = mauve(human, self._features([row.prefix + row.continuation for row in each]))
        first = next(iter(found.values()))
        figures = MauveFigures(
            mauve=sample_figure([each.measured for each in found.values()]),
            by_draw={name: each.value for name, each in found.items()},
            by_kmeans_seed=[float(value) for value in np.mean([each.by_seed for each in found.values()], axis=0)],
            star=statistics.fmean(each.star for each in found.values()),
            frontier_integral=statistics.fmean(each.frontier_integral for each in found.values()),
            curve=[(float(x), float(y)) for x, y in np.mean([each.curve for each in found.values()], axis=0)],
            texts=first.n,
            clusters=first.clusters,
            features=self.options.name,
            max_length=self.max_length,
        )
        return figures, {}

    def _human_features(self, texts: Sequence[str]) -> np.ndarray:
        """Computed once for all draws and systems with the same prefixes."""
        if self._human is None or self._human[0] != tuple(texts):
            self._human = tuple(texts), self._features(texts)
        return self._human[1]

    def _features(self, texts: Sequence[str]) -> np.ndarray:
        """[texts, width]; a text without a token counts as an end token alone."""
        limit = min(self.max_length, self._model.context)
        return self._model.last_states([ids[:limit] or [self._model.end] for ids in self._model.encode(texts)])

    def close(self) -> None:
        self._model.close()


class RougeOf:
    """ROUGE of continuations, and of prefix + continuation, against the human ones."""

    def inputs(self) -> dict[str, Any]:
        """It depends on nothing else."""
        return {}

    def measure(self, rows: Sequence[Continuation]) -> tuple[BaseModel, Columns]:
        columns: Columns = {name: [] for name in (*NAMES, *(f"{name}_whole" for name in NAMES))}
        references = human_texts(rows)
        for row, reference in zip(rows, references, strict=True):
            whole = rouge(row.prefix + reference, row.prefix + row.continuation)
            for name, value in rouge(reference, row.continuation).items():
                columns[name].append(value)
                columns[f"{name}_whole"].append(whole[name])
        unseen = sum(
            not (has_tokens(reference) and has_tokens(row.continuation))
            for row, reference in zip(rows, references, strict=True)
        )
        means = {name: statistics.fmean(values) for name, values in columns.items()}
        return Rouge(**means, texts=len(rows), without_tokens=unseen), columns

    def close(self) -> None:
        """Nothing is loaded."""


class DiversityOf:
    """Diversity of continuations, and of the human ones for comparison."""

    def inputs(self) -> dict[str, Any]:
        """It depends on nothing else."""
        return {}

    def measure(self, rows: Sequence[Continuation]) -> tuple[BaseModel, Columns]:
        columns: Columns = {"repetition": [repeated_fraction(row.continuation) for row in rows]}
        by_draw = list(draws(rows).values())
        of_draws = [_diversity([row.continuation for row in each]) for each in by_draw]
        human = [row.reference for row in by_draw[0] if row.reference is not None]
        figures = Diversity(
            **{name: _over_draws([each[name] for each in of_draws]) for name in of_draws[0]},
            repetition=statistics.fmean(columns["repetition"]),
            texts=len(by_draw[0]),
            empty=sum(not row.continuation.strip() for row in rows),
            continuations=len(rows),
            human=_human_diversity(human) if len(human) == len(by_draw[0]) else {},
        )
        return figures, columns

    def close(self) -> None:
        """Nothing is loaded."""


def _diversity(texts: Sequence[str]) -> dict[str, Measured | None]:
    """The figures of one draw; None: not defined."""
    corpus = [tokens(text) for text in texts]
    whole, left = diversity(corpus), diversity(corpus, kept(len(corpus)))
    return {
        name: None
        if np.isnan(value).any()
        else Measured(float(value[0]), None if np.isnan(left[name]).any() else left[name])
        for name, value in whole.items()
    }


def _over_draws(measured: Sequence[Measured | None]) -> SampleFigure | None:
    known = [each for each in measured if each is not None]
    return sample_figure(known) if len(known) == len(measured) else None


def _human_diversity(texts: Sequence[str]) -> dict[str, float]:
    found = {name: float(value[0]) for name, value in diversity([tokens(text) for text in texts]).items()}
    found["repetition"] = statistics.fmean(map(repeated_fraction, texts))
    return {name: value for name, value in found.items() if not np.isnan(value)}
