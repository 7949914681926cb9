"""Metrics of the continuations that the systems of a run wrote.

Continuations are taken in draws: one of each prefix, with the same seed and sample number. A figure of a whole sample
of texts is computed for each draw, against the human text of the same prefixes, and averaged.
"""

from __future__ import annotations

import contextlib
import math
import shutil
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from instruct.analysis.clusters import numbered, repeats
from instruct.analysis.jackknife import estimate, groups
from instruct.base.errors import InputError
from instruct.base.files import sha256_of
from instruct.base.machine import has_nvidia_gpu
from instruct.base.models import EMBEDDED_MODEL, ModelOptions
from instruct.engines.forward import ForwardModel, open_model
from instruct.generation.continuations import Continuation, read_continuations
from instruct.measuring.mauve import LEAST_TEXTS, Mauve, mauve
from instruct.measuring.options import TextMetricOptions
from instruct.measuring.predictions import HeldOut, Likelihoods, Reading, likelihoods
from instruct.measuring.words import ROUGE, distinct, has_rouge_tokens, repeated_fraction, rouge, tokens
from instruct.run.directory import RunDirectory
from instruct.run.measurements import (
    HIGHER,
    NEAR_HUMAN,
    Details,
    MetricTraits,
    Number,
    PartResult,
    measure,
    numbers,
)

OfContinuations = Literal["oracle_perplexity", "mauve", "rouge", "diversity"]
# Of a sample of texts, with its value without each group of them; empty: that is not known.
_Figure = tuple[float, NDArray[np.float64]]
OF_CONTINUATIONS: tuple[OfContinuations, ...] = ("oracle_perplexity", "mauve", "rouge", "diversity")
# What reports show of continuations.
SAMPLED = {
    "oracle_perplexity": MetricTraits("oracle perplexity", "lower is likelier, not better", math.inf),
    "mauve": MetricTraits("MAUVE", HIGHER),
    "rouge1": MetricTraits("ROUGE-1 of samples", HIGHER),
    "rouge2": MetricTraits("ROUGE-2 of samples", HIGHER),
    "rougeL": MetricTraits("ROUGE-L of samples", HIGHER),
    "rougeL_whole": MetricTraits("ROUGE-L of samples with prefix", HIGHER),
    "distinct_1": MetricTraits("distinct-1", NEAR_HUMAN),
    "distinct_2": MetricTraits("distinct-2", NEAR_HUMAN),
    "repetition": MetricTraits("repetition", NEAR_HUMAN),
    "words": MetricTraits("words", NEAR_HUMAN, math.inf),
}
# Figures of one text, whose means are reported.
_OF_A_TEXT: dict[str, Callable[[str], float]] = {
    "repetition": repeated_fraction,
    "words": lambda text: len(tokens(text)),
}


def continued_systems(run: RunDirectory) -> list[str]:
    """The systems that have continuations in a run, controls included."""
    return sorted(path.stem for path in run.continuations.glob("*.json"))


def lacking_of_continuations(run: RunDirectory) -> dict[OfContinuations, str]:
    """What metrics of a run's continuations need and what is missing.

    Raises:
        InputError: continuations that cannot be read.
    """
    systems = continued_systems(run)
    if not systems:
        return dict.fromkeys(OF_CONTINUATIONS, "continuations; set continuations and run `instruct generate`")
    path = run.continuations / f"{systems[0]}.json"
    rows = read_continuations(path)
    prefixes = len({row.id for row in rows})
    if any(row.reference is None for row in rows):
        return dict.fromkeys(("mauve", "rouge"), f"how the human texts continue, which {path} does not have")
    if prefixes < LEAST_TEXTS:
        return {
            "mauve": f"at least {LEAST_TEXTS} prefixes, not {prefixes}; running text gives more if cut into windows"
        }
    return {}


def measure_continuations(options: TextMetricOptions, run: RunDirectory, metrics: Sequence[OfContinuations]) -> None:
    """Measure every system's continuations by every metric; each measurement is a step of the run.

    Raises:
        InputError: continuations that cannot be read, or what a metric refuses.
    """
    states = run.folder / "metrics" / "features"
    for metric in metrics:
        with contextlib.ExitStack() as stack:
            inputs: dict[str, Any] = {}
            measured: Callable[[list[Continuation]], PartResult]
            if metric in ("mauve", "oracle_perplexity"):
                if metric == "mauve":
                    large = "openai-community/gpt2-large" if has_nvidia_gpu() else EMBEDDED_MODEL
                    model, length = options.mauve_model or ModelOptions(name=large), options.mauve_length
                else:
                    assert options.reference_model
                    model, length = options.reference_model, options.max_length
                reader = stack.enter_context(contextlib.closing(TextReader(model, length, states)))
                inputs = {"features" if metric == "mauve" else "reference": reader.made_from, "max_length": length}
                measured = partial(mauve_of if metric == "mauve" else oracle_perplexity_of, reader)
            else:
                measured = rouge_of if metric == "rouge" else diversity_of
            for system in continued_systems(run):
                path = run.continuations / f"{system}.json"
                made_from = {"continuations": sha256_of(path), **inputs}
                compute = partial(_with_ids, measured, path)
                measure(run, metric, system, made_from, compute, config=options.model_dump(mode="json"))
        if metric == "mauve":
            shutil.rmtree(states, ignore_errors=True)


def _with_ids(measured: Callable[[list[Continuation]], PartResult], path: Path) -> PartResult:
    """What is measured of a file of continuations, with what identifies each."""
    rows = read_continuations(path)
    result = measured(rows)
    ids = {name: [getattr(row, name) for row in rows] for name in ("id", "seed", "sample")}
    if clusters := text_clusters(rows):
        ids["cluster"] = [clusters[row.id] for row in rows]
    return PartResult(result.numbers, {**ids, **result.values}, result.without)


def draws(rows: Sequence[Continuation]) -> dict[str, list[Continuation]]:
    """The rows of each draw, by `seed/sample`, in the order of the prefixes' ids.

    Raises:
        InputError: a draw lacks a prefix that another has.
    """
    by_draw: dict[str, list[Continuation]] = {}
    for row in sorted(rows, key=lambda row: (row.seed, row.sample, row.id)):
        by_draw.setdefault(f"{row.seed}/{row.sample}", []).append(row)
    ids = {row.id for row in rows}
    for name, draw in by_draw.items():
        if len(draw) < len(ids):
            missing = min(ids - {row.id for row in draw})
            raise InputError(f"continuations: draw {name} (seed/sample) lacks prefix {missing!r}; generate them again")
    return by_draw


def text_clusters(rows: Iterable[Continuation]) -> dict[str, str]:
    """The cluster of each prefix by its id: the first id with the same text, or of the same named cluster; {}: no two
    depend on each other."""
    names = {row.id: row.cluster or row.prefix for row in rows}
    return repeats(names, chosen=any(row.cluster for row in rows))


def _units(draw: Sequence[Continuation]) -> NDArray[np.intp]:
    """The number of the cluster of each row of a draw."""
    return numbered((row.id for row in draw), text_clusters(draw))


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


class TextReader:
    """A model that reads texts; what it makes of human ones is kept for all draws and systems with the same prefixes.

    `made_from`: what it is, as a step's inputs.

    Args:
        max_length: it reads so many tokens of a text, or at a time.
        folder: where the states of texts are kept.
    """

    def __init__(self, options: ModelOptions, max_length: int, folder: Path | None = None) -> None:
        self.options, self.max_length, self._folder = options, max_length, folder
        self.model: ForwardModel = open_model(options)
        self.made_from = [self.model.identity, self.model.engine.dtype, options.quantization]
        self.states_of_human = lru_cache(1)(self.states)
        self.likelihoods_of_human = lru_cache(1)(self.likelihoods)

    def likelihoods(self, texts: Sequence[tuple[str, str, str]]) -> Likelihoods:
        """Of texts after prefixes; each is an id, a prefix and a text."""
        ids, prefixes, continued = ([text[part] for text in texts] for part in range(3))
        return likelihoods(Reading(self.model, HeldOut(ids, prefixes, continued, whole=False), self.max_length))

    def states(self, texts: Sequence[str]) -> np.ndarray:
        """The last hidden states, [texts, width]; a text without a token counts as an end token alone."""
        limit = min(self.max_length, self.model.context)
        ids = [ids[:limit] or [self.model.end] for ids in self.model.encode(texts)]
        return self.model.last_states(ids, self._folder)

    def close(self) -> None:
        self.model.close()


def oracle_perplexity_of(reader: TextReader, rows: Sequence[Continuation]) -> PartResult:
    """PPL_oracle: the perplexity of continuations, given their prefixes, under a reference model, per token of that
    model, over all and for each seed that they were sampled with; beside it that of the human continuations. Empty
    continuations have no token and are counted."""
    values = reader.likelihoods([(row.id, row.prefix, row.continuation) for row in rows])
    human = None
    if all(row.reference is not None for row in rows):
        known = dict.fromkeys((row.id, row.prefix, row.reference or "") for row in rows)
        human = reader.likelihoods_of_human(tuple(known)).perplexity()
    seeds = np.array([row.seed for row in rows])
    by_seed = {str(seed): values.perplexity(seeds == seed) for seed in sorted(set(seeds.tolist()))}
    found = numbers(
        {"oracle_perplexity": values.perplexity()},
        len(rows),
        reference=reader.options.name,
        human=human,
        by_seed={seed: value for seed, value in by_seed.items() if value is not None},
        tokens=int(values.tokens.sum()),
        empty=int((values.tokens == 0).sum()),
    )
    return PartResult(found, {"nats": values.nats.tolist(), "tokens": values.tokens.tolist()})


def mauve_of(reader: TextReader, rows: Sequence[Continuation]) -> PartResult:
    """MAUVE of prefix + continuation against the human texts, from a causal model's last hidden states."""
    by_draw: dict[str, Mauve] = {}
    for name, draw in draws(rows).items():
        human = tuple(row.prefix + text for row, text in zip(draw, human_texts(draw), strict=True))
        own = [row.prefix + row.continuation for row in draw]
        by_draw[name] = mauve(reader.states_of_human(human), reader.states(own), dependent=_units(draw))
    return mauve_measured(by_draw, reader.options.name, reader.max_length)


def mauve_measured(by_draw: Mapping[str, Mauve], features: str, max_length: int) -> PartResult:
    """The mean over draws; `features`: the model whose last hidden states of `max_length` tokens are compared."""
    of_draws = list(by_draw.values())
    return _of_draws(
        {"mauve": [(draw.value, draw.without) for draw in of_draws]},
        of_draws[0].n,
        statistics.fmean(draw.variance for draw in of_draws),
        by_draw={name: draw.value for name, draw in by_draw.items()},
        by_kmeans_seed=np.mean([draw.by_seed for draw in of_draws], axis=0).tolist(),
        star=statistics.fmean(draw.star for draw in of_draws),
        frontier_integral=statistics.fmean(draw.frontier_integral for draw in of_draws),
        clusters=of_draws[0].clusters,
        features=features,
        max_length=max_length,
    )


def _of_draws(
    figures: Mapping[str, Sequence[_Figure | None]], n: int, other_variance: float = 0.0, **details: Any
) -> PartResult:
    """The mean of each figure over draws, which share their prefixes; they are samples, not trainings, so they widen
    nothing. A figure that is not defined for a draw is not defined."""
    rows, without = [], {}
    for metric, of_draws in figures.items():
        rows.append(row := Number(metric=metric, value=None, n=n, details=Details(**details)))
        defined = [figure for figure in of_draws if figure is not None]
        if len(defined) < len(of_draws):
            continue
        values, withouts = zip(*defined, strict=True)
        left = np.mean(withouts, axis=0) if all(map(len, withouts)) else np.array([])
        row.value = statistics.fmean(values)
        row.interval = estimate([row.value], [left], other_variance).interval
        row.details = Details(**details, other_variance=other_variance)
        if len(left):
            without[metric] = left.tolist()
    return PartResult(rows, without=without)


def rouge_of(rows: Sequence[Continuation]) -> PartResult:
    """ROUGE of continuations, and of prefix + continuation, against the human ones: mean F1."""
    pairs = list(zip(rows, human_texts(rows), strict=True))
    alone = [rouge(reference, row.continuation) for row, reference in pairs]
    whole = [rouge(row.prefix + reference, row.prefix + row.continuation) for row, reference in pairs]
    columns = {name: [f1[name] for f1 in alone] for name in ROUGE}
    columns |= {f"{name}_whole": [f1[name] for f1 in whole] for name in ROUGE}
    unseen = sum(not (has_rouge_tokens(reference) and has_rouge_tokens(row.continuation)) for row, reference in pairs)
    means = {name: statistics.fmean(values) for name, values in columns.items()}
    return PartResult(numbers(means, len(rows), without_tokens=unseen), columns)


def diversity_of(rows: Sequence[Continuation]) -> PartResult:
    """Diversity of continuations, and of the human ones for comparison."""
    by_draw = list(draws(rows).values())
    n, about = len(by_draw[0]), {"empty": sum(not row.continuation.strip() for row in rows), "continuations": len(rows)}
    figures: dict[str, list[_Figure | None]] = {f"distinct_{size}": [] for size in (1, 2, 3, 4)}
    human: dict[str, float] = {}
    references = [row.reference for row in by_draw[0] if row.reference is not None]
    words = [([tokens(row.continuation) for row in draw], groups(_units(draw))) for draw in by_draw]
    words_of_human = [tokens(text) for text in references]
    for size, name in enumerate(figures, 1):
        figures[name] = [distinct(of_draw, size, grouped) for of_draw, grouped in words]
        if len(references) == n and (whole := distinct(words_of_human, size, words[0][1])):
            human[name] = whole[0]
    if len(references) == n:
        human |= {name: statistics.fmean(map(of_text, references)) for name, of_text in _OF_A_TEXT.items()}
    measured = _of_draws(figures, n, **about)
    values = {name: [of_text(row.continuation) for row in rows] for name, of_text in _OF_A_TEXT.items()}
    means = numbers({name: statistics.fmean(column) for name, column in values.items()}, n, **about)
    for row in (*measured.numbers, *means):
        row.details = row.details.model_copy(update={"human": human.get(row.metric)})
    return PartResult([*measured.numbers, *means], values, measured.without)
