"""Metrics of the continuations that the systems of a run wrote.

Continuations are taken in draws: one of each prefix, with the same seed and sample number. A figure of a whole sample
of texts is computed for each draw, against the human text of the same prefixes, and averaged.
"""

from __future__ import annotations

import contextlib
import shutil
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from instruct.analysis.clusters import numbered, repeats
from instruct.analysis.jackknife import Sample, estimate, kept
from instruct.base.errors import InputError
from instruct.base.files import sha256_of
from instruct.base.machine import has_nvidia_gpu
from instruct.base.models import EMBEDDED_MODEL, ModelOptions
from instruct.engines.forward import ForwardModel, open_model
from instruct.generation.continuations import Continuation, read_continuations
from instruct.measuring.texts.diversity import diversity, repeated_fraction, tokens
from instruct.measuring.texts.mauve import LEAST_TEXTS, Mauve, mauve
from instruct.measuring.texts.options import TextMetricOptions
from instruct.measuring.texts.predictions import HeldOut, Window, likelihoods, oracle_perplexity, windows
from instruct.measuring.texts.rouge import NAMES, has_tokens, rouge
from instruct.run.directory import RunDirectory
from instruct.run.measurements import Details, PartResult, measure, numbers

OfContinuations = Literal["oracle_perplexity", "mauve", "rouge", "diversity"]
OF_CONTINUATIONS: tuple[OfContinuations, ...] = ("oracle_perplexity", "mauve", "rouge", "diversity")
Read = TypeVar("Read")


def default_model() -> ModelOptions:
    """The model that reads texts if none is named: GPT-2 large with a GPU, else the bundled one."""
    return ModelOptions(name="openai-community/gpt2-large" if has_nvidia_gpu() else EMBEDDED_MODEL)


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
    config = options.model_dump(mode="json")
    for metric in metrics:
        if metric == "rouge":
            _measure_systems(run, metric, rouge_of, {}, config=config)
        elif metric == "diversity":
            _measure_systems(run, metric, diversity_of, {}, config=config)
        elif metric == "mauve":
            model = options.mauve_model or default_model()
            with contextlib.closing(TextReader(model, options.mauve_length, states)) as reader:
                inputs = reader.inputs("features")
                _measure_systems(run, metric, partial(mauve_of, reader), inputs, config=config)
            shutil.rmtree(states, ignore_errors=True)
        else:
            assert options.reference_model
            with contextlib.closing(TextReader(options.reference_model, options.max_length)) as reader:
                inputs = reader.inputs("reference")
                _measure_systems(run, metric, partial(oracle_perplexity_of, reader), inputs, config=config)


def _measure_systems(
    run: RunDirectory,
    part: str,
    measured: Callable[[list[Continuation]], PartResult],
    inputs: Mapping[str, Any],
    **about: Any,
) -> None:
    """Measure every system's continuations; `inputs`: what else a metric depends on; `about` as in `measure`."""
    for system in continued_systems(run):
        path = run.continuations / f"{system}.json"

        def compute(path: Path = path) -> PartResult:
            rows = read_continuations(path)
            ids = {name: [getattr(row, name) for row in rows] for name in ("id", "seed", "sample")}
            result = measured(rows)
            clusters = text_clusters(rows)
            if clusters:
                ids["cluster"] = [clusters[row.id] for row in rows]
            return PartResult(result.numbers, {**ids, **result.values}, result.without)

        measure(run, part, system, {"continuations": sha256_of(path), **inputs}, compute, **about)


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


def _units(rows: Sequence[Continuation]) -> NDArray[np.intp]:
    """The number of the cluster of each row of a draw."""
    return numbered((row.id for row in rows), text_clusters(rows))


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

    Args:
        max_length: it reads so many tokens of a text, or at a time.
        folder: where the states of texts are kept.
    """

    def __init__(self, options: ModelOptions, max_length: int, folder: Path | None = None) -> None:
        self.options, self.max_length, self._folder = options, max_length, folder
        self.model: ForwardModel = open_model(options)
        self._human: tuple[Any, Any] = (None, None)

    def inputs(self, role: str) -> dict[str, Any]:
        """What a metric depends on besides the texts, as a step's inputs."""
        made_from = [self.model.identity, self.model.engine.dtype, self.options.quantization]
        return {role: made_from, "max_length": self.max_length}

    def continued(
        self, read: Callable[[ForwardModel, HeldOut, list[Window]], Read], rows: Sequence[Continuation]
    ) -> tuple[Read, Read | None]:
        """What `read` makes of continuations after their prefixes, and of the human ones; None: not all are known."""

        def of(texts: HeldOut) -> Read:
            return read(self.model, texts, windows(self.model, texts, self.max_length))

        human = None
        if all(row.reference is not None for row in rows):
            first = list({row.id: row for row in rows}.values())
            human = self._of_human(_continued(first, [row.reference or "" for row in first]), of)
        return of(_continued(rows, [row.continuation for row in rows])), human

    def states(self, texts: Sequence[str], human: bool = False) -> np.ndarray:
        """The last hidden states, [texts, width]; a text without a token counts as an end token alone."""
        if human:
            return self._of_human(texts, self.states)
        limit = min(self.max_length, self.model.context)
        ids = [ids[:limit] or [self.model.end] for ids in self.model.encode(texts)]
        return self.model.last_states(ids, self._folder)

    def _of_human(self, texts: Any, read: Callable[[Any], Read]) -> Read:
        if self._human[0] != texts:
            self._human = texts, read(texts)
        known: Read = self._human[1]
        return known

    def close(self) -> None:
        self.model.close()


def _continued(rows: Sequence[Continuation], texts: list[str]) -> HeldOut:
    """Texts to score, each after the prefix of its row."""
    return HeldOut([row.id for row in rows], [row.prefix for row in rows], texts, whole=False)


def oracle_perplexity_of(reader: TextReader, rows: Sequence[Continuation]) -> PartResult:
    """PPL_oracle: the perplexity of continuations, given their prefixes, under a reference model."""
    values, human = reader.continued(likelihoods, rows)
    perplexities = oracle_perplexity(values, [row.seed for row in rows], reader.options.name, human)
    return PartResult(perplexities, {"nats": values.nats.tolist(), "tokens": values.tokens.tolist()})


def mauve_of(reader: TextReader, rows: Sequence[Continuation]) -> PartResult:
    """MAUVE of prefix + continuation against the human texts, from a causal model's last hidden states."""
    by_draw: dict[str, Mauve] = {}
    for name, draw in draws(rows).items():
        human = [row.prefix + text for row, text in zip(draw, human_texts(draw), strict=True)]
        own = [row.prefix + row.continuation for row in draw]
        by_draw[name] = mauve(reader.states(human, human=True), reader.states(own), dependent=_units(draw))
    return mauve_measured(by_draw, reader.options.name, reader.max_length)


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


def rouge_of(rows: Sequence[Continuation]) -> PartResult:
    """ROUGE of continuations, and of prefix + continuation, against the human ones: mean F1."""
    pairs = list(zip(rows, human_texts(rows), strict=True))
    alone = [rouge(reference, row.continuation) for row, reference in pairs]
    whole = [rouge(row.prefix + reference, row.prefix + row.continuation) for row, reference in pairs]
    columns = {name: [f1[name] for f1 in alone] for name in NAMES}
    columns |= {f"{name}_whole": [f1[name] for f1 in whole] for name in NAMES}
    unseen = sum(not (has_tokens(reference) and has_tokens(row.continuation)) for row, reference in pairs)
    means = {name: statistics.fmean(values) for name, values in columns.items()}
    return PartResult(numbers(means, len(rows), without_tokens=unseen), columns)


# Figures of one text, whose means are reported.
_OF_A_TEXT: dict[str, Callable[[str], float]] = {
    "repetition": repeated_fraction,
    "words": lambda text: len(tokens(text)),
}


def diversity_of(rows: Sequence[Continuation]) -> PartResult:
    """Diversity of continuations, and of the human ones for comparison."""
    values = {name: [of_text(row.continuation) for row in rows] for name, of_text in _OF_A_TEXT.items()}
    by_draw = list(draws(rows).values())
    of_draws = [_diversity([row.continuation for row in draw], _units(draw)) for draw in by_draw]
    first = [row.reference for row in by_draw[0] if row.reference is not None]
    human: dict[str, float] = {}
    if len(first) == len(by_draw[0]):
        human = {name: float(value[0]) for name, value in diversity([tokens(text) for text in first]).items()}
        human = {name: value for name, value in human.items() if not np.isnan(value)}
        human |= {name: statistics.fmean(map(of_text, first)) for name, of_text in _OF_A_TEXT.items()}
    about = {"empty": sum(not row.continuation.strip() for row in rows), "continuations": len(rows)}
    samples = {name: [draw[name] for draw in of_draws] for name in of_draws[0]}
    measured = _of_draws(samples, len(by_draw[0]), **about)
    means = numbers({name: statistics.fmean(column) for name, column in values.items()}, len(by_draw[0]), **about)
    for row in (*measured.numbers, *means):
        row.details = row.details.model_copy(update={"human": human.get(row.metric)})
    return PartResult([*measured.numbers, *means], values, measured.without)


def _diversity(texts: Sequence[str], clusters: NDArray[np.intp]) -> dict[str, Sample | None]:
    """The figures of one draw; None: not defined."""
    corpus = [tokens(text) for text in texts]
    whole, left = diversity(corpus), diversity(corpus, kept(clusters))
    return {
        name: None
        if np.isnan(value).any()
        else Sample(float(value[0]), None if np.isnan(left[name]).any() else left[name])
        for name, value in whole.items()
    }
