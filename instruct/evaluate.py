"""`instruct evaluate`: numbers about the systems of a run, without a judge. What is done is not done again."""

from __future__ import annotations

from typing import Any

from instruct.config import ExperimentConfig
from instruct.engines.forward import ForwardModel, open_model
from instruct.errors import InputError
from instruct.metrics import Metrics, merge_metrics, metrics_path, read_metrics, write_values
from instruct.runs import RunDirectory
from instruct.systems import system_folders
from instruct.text_metrics.held_out import HeldOut, read_held_out, windows
from instruct.text_metrics.model import SystemTexts
from instruct.text_metrics.options import TextMetricOptions
from instruct.text_metrics.perplexity import likelihoods, perplexity


def evaluate_run(config: ExperimentConfig, run: RunDirectory) -> Metrics:
    """Compute what the config asks for and write it into the run's metrics.json.

    Raises:
        InputError: nothing to evaluate, a system that is not trained, texts that cannot be read.
    """
    options = config.evaluation.texts if config.evaluation else None
    if options is None:
        raise InputError(
            f"{run.folder / 'config.yaml'}: nothing to evaluate; name held-out text with "
            "--evaluation.texts.held_out.files FILE"
        )
    _evaluate_held_out(config, run, options)
    return read_metrics(run)


def _evaluate_held_out(config: ExperimentConfig, run: RunDirectory, options: TextMetricOptions) -> None:
    """Perplexity of every system on held-out text."""
    if options.held_out is None:
        return
    held_out = read_held_out(options.held_out)
    model: ForwardModel | None = None
    for system, folder in system_folders(config, run).items():
        model = open_model(config.model, folder, like=model)
        inputs = {
            "weights": model.identity,
            "dtype": [config.model.dtype, config.model.quantization],
            "texts": held_out.sha256,
            "max_length": options.max_length,
        }
        if not _is_done(run, "perplexity", system, inputs):
            with run.step(f"evaluate/perplexity/{system}", inputs) as results:
                results |= _perplexity(run, system, model, held_out, options.max_length)
    if model:
        model.close()


def _is_done(run: RunDirectory, metric: str, system: str, inputs: dict[str, Any]) -> bool:
    texts = read_metrics(run).texts.get(system)
    written = texts is not None and getattr(texts, metric) is not None
    return written and run.is_done(f"evaluate/{metric}/{system}", inputs)


def _perplexity(
    run: RunDirectory, system: str, model: ForwardModel, held_out: HeldOut, max_length: int
) -> dict[str, Any]:
    values = likelihoods(model, held_out, windows(model, held_out, max_length))
    found = perplexity(values)
    write_values(
        run,
        "perplexity",
        system,
        {"id": held_out.ids, "nats": values.nats.tolist(), "tokens": values.tokens.tolist()},
    )
    merge_metrics(run, "texts", system, SystemTexts(perplexity=found))
    return found.model_dump(mode="json")


def metrics_text(metrics: Metrics, run: RunDirectory) -> str:
    """The numbers, a line a system, and where they are."""
    lines = []
    for system, texts in metrics.texts.items():
        if texts.perplexity:
            found = texts.perplexity
            lines.append(
                f"{system}: perplexity {found.perplexity:.2f} ({found.texts:,} texts, {found.tokens:,} tokens)"
            )
    return "\n".join([*lines, f"metrics: {metrics_path(run)}"])
