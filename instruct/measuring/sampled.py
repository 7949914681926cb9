"""Metrics of the continuations that the systems of a run wrote.

Continuations are taken in draws: one of each prefix, with the same seed and sample number. A figure of a whole sample
of texts is computed for each draw, against the human text of the same prefixes, and averaged.
"""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from instruct.analysis.jackknife import Sample, estimate, kept
from instruct.base.errors import InputError
from instruct.base.files import sha256_of
from instruct.base.machine import has_nvidia_gpu
from instruct.base.models import EMBEDDED_MODEL, ModelOptions
from instruct.engines.forward import ForwardModel, open_model
from instruct.generation.continuations import Continuation, read_continuations
from instruct.measuring.texts.diversity import diversity, repeated_fraction, tokens
from instruct.measuring.texts.entropy import Entropies, entropies
from instruct.measuring.texts.held_out import HeldOut, windows
from instruct.measuring.texts.mauve import LEAST_TEXTS, Mauve, mauve
from instruct.measuring.texts.options import TextMetricOptions
from instruct.measuring.texts.perplexity import Likelihoods, likelihoods, oracle_perplexity
from instruct.measuring.texts.rouge import NAMES, has_tokens, rouge
from instruct.run.directory import RunDirectory
from instruct.run.measurements import Details, PartResult, measure, numbers

OfContinuations = Literal["oracle_perplexity", "mauve", "rouge", "diversity"]
OF_CONTINUATIONS: tuple[OfContinuations, ...] = ("oracle_perplexity", "mauve", "rouge", "diversity")
GPU_FEATURES = "openai-community/gpt2-large"


class Measurer:
    """A metric of one system's continuations."""

    def inputs(self) -> dict[str, Any]:
        """What it depends on besides the continuations, as a step's inputs."""
        return {}

    def measure(self, rows: Sequence[Continuation]) -> PartResult:
        """The metric, and its values for each continuation."""
        raise NotImplementedError

    def close(self) -> None:
        """Release models."""


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
    features = run.folder / "metrics" / "features"
    for metric in metrics:
        _measure_systems(run, metric, _measurer(metric, options, features), config=options.model_dump(mode="json"))
        if metric == "mauve":
            shutil.rmtree(features, ignore_errors=True)


def measure_entropy(options: TextMetricOptions, run: RunDirectory) -> None:
    """Measure how sure the reference model is of the next token in each system's texts: for texts whose writers are not
    at hand, whose own entropy `evaluate/entropy` is otherwise of.

    Raises:
        InputError: continuations that cannot be read.
    """
    assert options.reference_model
    _measure_systems(run, "entropy", EntropyOf(options.reference_model, options.max_length))


def _measure_systems(run: RunDirectory, part: str, measurer: Measurer, **about: Any) -> None:
    """Measure every system's continuations; `about` as in `measure`."""
    try:
        for system in continued_systems(run):
            path = run.continuations / f"{system}.json"
            inputs = {"continuations": sha256_of(path), **measurer.inputs()}
            measure(run, part, system, inputs, partial(_measured, measurer, path), **about)
    finally:
        measurer.close()


def _measured(measurer: Measurer, path: Path) -> PartResult:
    rows = read_continuations(path)
    keys = {name: [getattr(row, name) for row in rows] for name in ("id", "seed", "sample")}
    measured = measurer.measure(rows)
    return PartResult(measured.numbers, {**keys, **measured.values}, measured.without)


def _measurer(metric: OfContinuations, options: TextMetricOptions, features: Path) -> Measurer:
    if metric == "mauve":
        return MauveOf(options.mauve_model, options.mauve_length, features)
    if metric == "rouge":
        return RougeOf()
    if metric == "diversity":
        return DiversityOf()
    assert options.reference_model
    return OraclePerplexityOf(options.reference_model, options.max_length)


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


class _ModelMeasurer(Measurer):
    """A metric that reads texts with a model; human texts once for all draws and systems with the same prefixes."""

    def __init__(self, options: ModelOptions, max_length: int, role: str = "reference") -> None:
        self.options, self.max_length, self._role = options, max_length, role
        self.model: ForwardModel = open_model(options)
        self._human: tuple[Any, Any] | None = None

    def inputs(self) -> dict[str, Any]:
        made_from = [self.model.identity, self.options.dtype, self.options.quantization]
        return {self._role: made_from, "max_length": self.max_length}

    def read(self, texts: Any) -> Any:
        """What the metric takes from the model."""
        raise NotImplementedError

    def read_human(self, texts: Any) -> Any:
        if self._human is None or self._human[0] != texts:
            self._human = texts, self.read(texts)
        return self._human[1]

    def close(self) -> None:
        self.model.close()


class OraclePerplexityOf(_ModelMeasurer):
    """PPL_oracle: the perplexity of continuations, given their prefixes, under a reference model."""

    def measure(self, rows: Sequence[Continuation]) -> PartResult:
        values: Likelihoods = self.read(_continued(rows, [row.continuation for row in rows]))
        human = None
        if all(row.reference is not None for row in rows):
            first = list({row.id: row for row in rows}.values())
            human = self.read_human(_continued(first, [row.reference or "" for row in first]))
        perplexities = oracle_perplexity(values, [row.seed for row in rows], self.options.name, human)
        return PartResult(perplexities, {"nats": values.nats.tolist(), "tokens": values.tokens.tolist()})

    def read(self, texts: HeldOut) -> Likelihoods:
        return likelihoods(self.model, texts, windows(self.model, texts, self.max_length))


class EntropyOf(_ModelMeasurer):
    """The mean entropy of a reference model's next-token distributions on texts, in nats."""

    def measure(self, rows: Sequence[Continuation]) -> PartResult:
        values: Entropies = self.read(_continued(rows, [row.continuation for row in rows]))
        human: Entropies = self.read_human(_continued(rows, human_texts(rows)))
        known = human.means[0] if human.tokens.sum() else None
        figure = {"entropy": values.means[0] if values.tokens.sum() else None}
        found = numbers(figure, len(rows), temperature=1.0, tokens=int(values.tokens.sum()), human=known)
        return PartResult(found, {"nats": values.nats[0].tolist(), "tokens": values.tokens.tolist()})

    def read(self, texts: HeldOut) -> Entropies:
        return entropies(self.model, texts, windows(self.model, texts, self.max_length), [1.0])


def _continued(rows: Sequence[Continuation], texts: list[str]) -> HeldOut:
    """Texts to score, each after the prefix of its row."""
    return HeldOut([row.id for row in rows], [row.prefix for row in rows], texts, whole=False)


class MauveOf(_ModelMeasurer):
    """MAUVE of prefix + continuation against the human texts, from a causal model's last hidden states.

    `folder` keeps them until every system is measured.
    """

    def __init__(self, model: ModelOptions | None, max_length: int, folder: Path | None = None) -> None:
        self._folder = folder
        default = ModelOptions(name=GPU_FEATURES if has_nvidia_gpu() else EMBEDDED_MODEL)
        super().__init__(model or default, max_length, "features")

    def measure(self, rows: Sequence[Continuation]) -> PartResult:
        by_draw: dict[str, Mauve] = {}
        for name, draw in draws(rows).items():
            references = human_texts(draw)
            human = self.read_human([row.prefix + text for row, text in zip(draw, references, strict=True)])
            by_draw[name] = mauve(human, self.read([row.prefix + row.continuation for row in draw]))
        return mauve_measured(by_draw, self.options.name, self.max_length)

    def read(self, texts: Sequence[str]) -> np.ndarray:
        """[texts, width]; a text without a token counts as an end token alone."""
        limit = min(self.max_length, self.model.context)
        return self.model.last_states(
            [ids[:limit] or [self.model.end] for ids in self.model.encode(texts)], self._folder
        )


def mauve_measured(by_draw: Mapping[str, Mauve], features: str, max_length: int) -> PartResult:
    """The mean over draws; `features`: the model whose last hidden states of `max_length` tokens are compared."""
    of_draws = list(by_draw.values())
    return _of_draws(
        {"mauve": [draw.measured for draw in of_draws]},
        of_draws[0].n,
        by_draw={name: draw.value for name, draw in by_draw.items()},
        by_kmeans_seed=np.mean([draw.by_seed for draw in of_draws], axis=0).tolist(),
        star=statistics.fmean(draw.star for draw in of_draws),
        frontier_integral=statistics.fmean(draw.frontier_integral for draw in of_draws),
        curve=np.mean([draw.curve for draw in of_draws], axis=0).tolist(),
        clusters=of_draws[0].clusters,
        features=features,
        max_length=max_length,
    )


def _of_draws(samples: Mapping[str, Sequence[Sample | None]], n: int, **details: Any) -> PartResult:
    """The mean of each figure over draws, which share their prefixes; they are samples, not trainings, so they widen
    nothing. A figure that is not defined for a draw is not defined."""
    rows, without = numbers(dict.fromkeys(samples), n, **details), {}
    for row in rows:
        defined = [sample for sample in samples[row.metric] if sample is not None]
        if len(defined) < len(samples[row.metric]):
            continue
        known = [sample.without for sample in defined if sample.without is not None]
        whole = Sample(
            statistics.fmean(sample.value for sample in defined),
            np.mean(known, axis=0) if len(known) == len(defined) else None,
            statistics.fmean(sample.other_variance for sample in defined),
        )
        row.value, row.interval = whole.value, estimate([whole]).interval
        row.details = Details(**details, other_variance=whole.other_variance)
        if whole.without is not None:
            without[row.metric] = whole.without.tolist()
    return PartResult(rows, without=without)


class RougeOf(Measurer):
    """ROUGE of continuations, and of prefix + continuation, against the human ones: mean F1."""

    def measure(self, rows: Sequence[Continuation]) -> PartResult:
        columns: dict[str, list[float]] = {name: [] for name in (*NAMES, *(f"{name}_whole" for name in NAMES))}
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
        return PartResult(numbers(means, len(rows), without_tokens=unseen), columns)


class DiversityOf(Measurer):
    """Diversity of continuations, and of the human ones for comparison."""

    def measure(self, rows: Sequence[Continuation]) -> PartResult:
        repetition = [repeated_fraction(row.continuation) for row in rows]
        by_draw = list(draws(rows).values())
        of_draws = [_diversity([row.continuation for row in draw]) for draw in by_draw]
        first = [row.reference for row in by_draw[0] if row.reference is not None]
        human = _human_diversity(first) if len(first) == len(by_draw[0]) else {}
        about = {"empty": sum(not row.continuation.strip() for row in rows), "continuations": len(rows)}
        samples = {name: [draw[name] for draw in of_draws] for name in of_draws[0]}
        measured = _of_draws(samples, len(by_draw[0]), **about)
        repeated = numbers({"repetition": statistics.fmean(repetition)}, len(by_draw[0]), **about)
        for row in (*measured.numbers, *repeated):
            row.details = row.details.model_copy(update={"human": human.get(row.metric)})
        return PartResult([*measured.numbers, *repeated], {"repetition": repetition}, measured.without)


def _diversity(texts: Sequence[str]) -> dict[str, Sample | None]:
    """The figures of one draw; None: not defined."""
    corpus = [tokens(text) for text in texts]
    whole, left = diversity(corpus), diversity(corpus, kept(len(corpus)))
    return {
        name: None
        if np.isnan(value).any()
        else Sample(float(value[0]), None if np.isnan(left[name]).any() else left[name])
        for name, value in whole.items()
    }


def _human_diversity(texts: Sequence[str]) -> dict[str, float]:
    figures = {name: float(value[0]) for name, value in diversity([tokens(text) for text in texts]).items()}
    figures["repetition"] = statistics.fmean(map(repeated_fraction, texts))
    return {name: value for name, value in figures.items() if not np.isnan(value)}
