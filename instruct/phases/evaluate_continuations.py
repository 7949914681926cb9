"""Numbers about the continuations that the systems of a run wrote, for `instruct evaluate`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol

from pydantic import BaseModel

from instruct.base.files import sha256_of
from instruct.base.models import ModelOptions
from instruct.config import ExperimentConfig
from instruct.engines.forward import ForwardModel, open_model
from instruct.generation.continuations import Continuation, read_continuations
from instruct.measuring.metrics import is_measured, merge_metrics, metric_step, write_values
from instruct.measuring.sampled import DiversityOf, MauveOf, RougeOf
from instruct.measuring.texts.held_out import HeldOut, windows
from instruct.measuring.texts.mauve import LEAST_TEXTS
from instruct.measuring.texts.model import SystemTexts
from instruct.measuring.texts.perplexity import Likelihoods, likelihoods, oracle_perplexity
from instruct.run.directory import RunDirectory

OfContinuations = Literal["oracle_perplexity", "mauve", "rouge", "diversity"]
OF_CONTINUATIONS: tuple[OfContinuations, ...] = ("oracle_perplexity", "mauve", "rouge", "diversity")


class Measurer(Protocol):
    """A metric of one system's continuations; models that it needs are loaded when it first measures."""

    def inputs(self) -> dict[str, Any]:
        """What it depends on besides the continuations, as a step's inputs."""
        ...

    def measure(self, rows: Sequence[Continuation]) -> tuple[BaseModel, dict[str, list[Any]]]:
        """The metric, which is a field of `SystemTexts`, and its values for each continuation, as columns."""
        ...

    def close(self) -> None:
        """Release models."""
        ...


def continued_systems(run: RunDirectory) -> list[str]:
    """The systems that have continuations in a run, controls included."""
    return sorted(path.stem for path in (run.folder / "continuations").glob("*.json"))


def lacking_of_continuations(run: RunDirectory) -> dict[OfContinuations, str]:
    """What metrics of a run's continuations need and what is missing.

    Raises:
        InputError: continuations that cannot be read.
    """
    systems = continued_systems(run)
    if not systems:
        return dict.fromkeys(OF_CONTINUATIONS, "continuations; set continuations and run `instruct generate`")
    path = run.folder / "continuations" / f"{systems[0]}.json"
    rows = read_continuations(path)
    prefixes = len({row.id for row in rows})
    if any(row.reference is None for row in rows):
        return dict.fromkeys(("mauve", "rouge"), f"how the human texts continue, which {path} does not have")
    if prefixes < LEAST_TEXTS:
        return {
            "mauve": f"at least {LEAST_TEXTS} prefixes, not {prefixes}; running text gives more if cut into windows"
        }
    return {}


def measure_continuations(config: ExperimentConfig, run: RunDirectory, metrics: Sequence[OfContinuations]) -> None:
    """Measure every system's continuations by every metric; each measurement is a step of the run.

    Raises:
        InputError: continuations that cannot be read, or what a metric refuses.
    """
    for metric in metrics:
        measurer = _measurer(metric, config)
        try:
            for system in continued_systems(run):
                path = run.folder / "continuations" / f"{system}.json"
                inputs = {"continuations": sha256_of(path), **measurer.inputs()}
                if is_measured(run, metric, system, inputs):
                    continue
                made_with = config.text_metrics.model_dump(mode="json")
                with run.step(metric_step(metric, system), inputs, config=made_with) as results:
                    rows = read_continuations(path)
                    found, values = measurer.measure(rows)
                    keys = {name: [getattr(row, name) for row in rows] for name in ("id", "seed", "sample")}
                    write_values(run, metric, system, {**keys, **values})
                    merge_metrics(run, "texts", system, SystemTexts.model_validate({metric: found}))
                    results |= found.model_dump(mode="json")
        finally:
            measurer.close()


def _measurer(metric: OfContinuations, config: ExperimentConfig) -> Measurer:
    options = config.text_metrics
    if metric == "mauve":
        return MauveOf(options.mauve_model, options.mauve_length)
    if metric == "rouge":
        return RougeOf()
    if metric == "diversity":
        return DiversityOf()
    assert options.reference_model
    return OraclePerplexityOf(options.reference_model, options.max_length)


class OraclePerplexityOf:
    """PPL_oracle: the perplexity of continuations, given their prefixes, under a reference model."""

    def __init__(self, reference: ModelOptions, max_length: int) -> None:
        self.reference, self.max_length = reference, max_length
        self._model: ForwardModel = open_model(reference)
        self._human: tuple[HeldOut, Likelihoods] | None = None

    def inputs(self) -> dict[str, Any]:
        made_from = [self._model.identity, self.reference.dtype, self.reference.quantization]
        return {"reference": made_from, "max_length": self.max_length}

    def measure(self, rows: Sequence[Continuation]) -> tuple[BaseModel, dict[str, list[Any]]]:
        values = self._likelihoods(_continued(rows, [row.continuation for row in rows]))
        human = None
        if all(row.reference is not None for row in rows):
            human = self._of_human_texts(list({row.id: row for row in rows}.values()))
        found = oracle_perplexity(values, [row.seed for row in rows], self.reference.name, human)
        return found, {"nats": values.nats.tolist(), "tokens": values.tokens.tolist()}

    def _of_human_texts(self, rows: Sequence[Continuation]) -> Likelihoods:
        """Computed once for all systems with the same prefixes."""
        texts = _continued(rows, [row.reference or "" for row in rows])
        if self._human is None or self._human[0] != texts:
            self._human = texts, self._likelihoods(texts)
        return self._human[1]

    def _likelihoods(self, texts: HeldOut) -> Likelihoods:
        return likelihoods(self._model, texts, windows(self._model, texts, self.max_length))

    def close(self) -> None:
        self._model.close()


def _continued(rows: Sequence[Continuation], texts: list[str]) -> HeldOut:
    """Texts to score, each after the prefix of its row."""
    return HeldOut([row.id for row in rows], [row.prefix for row in rows], texts, False, 0, "continuations")
