"""`instruct preview`: what training would see, before a GPU hour is spent on the wrong tokens."""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from instruct.base import output
from instruct.base.errors import InputError, counted
from instruct.data.arrow import numbers
from instruct.data.token_weights import split_labels, weights_line, weights_record
from instruct.data.tokens import PERCENTILES, length_percentiles
from instruct.engines.memory import peak_gib, restart_peak
from instruct.training.options import TrainingOptions
from instruct.training.rows import TrainingRows, evaluated, load_training_rows
from instruct.training.train import make_trainer, trainer_arguments

# Around what is trained on, followed by its weight if that is not 1. A pipe has no colors, and text has these rarely.
BEGIN, END = "⟦", "⟧"
# What of a chat is trained on, by `train_on`.
TRAINED_TEXTS = {
    "assistant_turns": "each trained on with its end token",
    "last_turn": "the last of each chat trained on with its end token",
    "all_tokens": "all tokens trained on",
}
# If a larger fraction of the answers is cut, max_length is wrong, not the rows.
MOST_TRUNCATED = 0.2


@dataclass(frozen=True)
class Step:
    """One forward and backward pass: its mean loss over `tokens`, its gradient norm, and what it took."""

    objective: str
    loss: float
    tokens: int
    gradient_norm: float
    seconds: float
    gib: float | None

    def words(self) -> str:
        """The step as a sentence."""
        memory = "" if self.gib is None else f", {self.gib:.1f} GiB"
        return (
            f"one step ({self.objective}): loss {self.loss:.4f} over {self.tokens} tokens, "
            f"gradient norm {self.gradient_norm:.3f}, {self.seconds:.1f} s{memory}"
        )


@dataclass(frozen=True)
class Preview:
    """What a preview found.

    Attributes:
        counts: rows by what became of them.
        lengths: percentiles of the lengths before truncation, in tokens.
        notes: on the rows.
        rows: the rows shown: where each is from, and its text in pieces with whether they are trained on (and a
            `weight` other than 1).
        weights: of the tokens that are trained on, see `weights_record`; None if all are 1.
        step: one step of training.
    """

    counts: dict[str, int]
    lengths: dict[str, dict[int, int]]
    notes: list[str]
    rows: list[dict[str, Any]]
    step: Step
    weights: dict[str, Any] | None = None


def print_preview(config: TrainingOptions, shown: int = 3) -> Preview:
    """Print rows with their mask, counts and lengths; run one forward and backward pass.

    Args:
        shown: the number of rows to print.

    Returns:
        What it printed, for programs.

    Raises:
        InputError: the length truncates more than MOST_TRUNCATED of the answers, or the first step has no finite loss
            or no gradient.
    """
    console = output.console()
    data = load_training_rows(config.data, config.model, config.train)
    encoded, weights = data.encoded, weights_record(data.encoded.weights) or None
    lengths = length_percentiles(encoded)
    _print_data(console, data, lengths, config.train.get("train_on", "assistant_turns"))
    printed = _print_rows(console, data, shown)
    truncated = int((numbers(encoded.encoded, "length") > numbers(encoded.encoded, "tokens")).sum())
    if truncated > MOST_TRUNCATED * len(encoded.encoded):
        raise InputError(
            f"data: max_length {numbers(encoded.encoded, 'tokens').max()} truncates {truncated} of "
            f"{len(encoded.encoded)} answers, which lose their end token; raise train.max_length (the longest row has "
            f"{lengths['total'][100]} tokens)"
        )
    with tempfile.TemporaryDirectory() as folder:
        arguments = trainer_arguments(config, config.first_trained(), Path(folder), data.rows.plain_text)
        trainer = make_trainer(config.model, config.lora, arguments, data, config.from_scratch)
        with output.progress("one training step", total=1) as done:
            step = one_step(trainer)
            done(1)
    console.print(step.words(), highlight=False)
    return Preview(data.counts, lengths, data.notes, printed, step, weights)


def _print_data(console: Console, data: TrainingRows, lengths: Mapping[str, Mapping[int, int]], train_on: str) -> None:
    """What was read, what became of it, and how long it is."""
    rows, counts = data.rows, data.counts
    form = "plain text" if rows.plain_text else f"template {data.template}"
    console.print(f"[bold]{counted(counts['read'], 'row')} read[/], {form}:", highlight=False)
    table = Table(*(name.replace("_", " ") for name in counts))
    table.add_row(*(f"{number:,}" for number in counts.values()))
    console.print(table)
    table = Table("tokens", *(f"{percent} %" for percent in PERCENTILES[:-1]), "longest")
    for part, name in {"prompt": "not trained on", "completion": "trained on", "total": "total"}.items():
        table.add_row(name, *(f"{lengths[part][percent]:,}" for percent in PERCENTILES))
    console.print(table)
    lines = [f"{rows.turns['answers']:,} answers of chats, {TRAINED_TEXTS[train_on]}"] if rows.turns else []
    if data.eval_encoded:
        lines.append(f"evaluation: {evaluated(data)}")
    if weights := weights_record(data.encoded.weights):
        lines.append(f"weights: {weights_line(weights)}")
    for line in [*lines, *(f"note: {note}" for note in data.notes)]:
        console.print(line, highlight=False, markup=False)


def _print_rows(console: Console, data: TrainingRows, shown: int) -> list[dict[str, Any]]:
    """Print the text of the first `shown` rows with its mask; return the same."""
    import torch

    printed = []
    for row in itertools.islice(data.encoded.encoded, shown):
        parts: list[dict[str, Any]] = []
        masked = Text()
        labels, weights = (part.tolist() for part in split_labels(torch.tensor(row["labels"])))
        kinds = [(label != -100, weight) for label, weight in zip(labels, weights, strict=True)]
        for (trained, weight), places in itertools.groupby(range(row["tokens"]), key=kinds.__getitem__):
            text = data.tokenizer.decode([row["input_ids"][place] for place in places])
            text = "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)
            own = {} if weight == 1 else {"weight": weight}
            parts.append({"text": text, "trained_on": trained, **own})
            end = f"{END}×{weight:.4g}" if own else END
            masked.append(f"{BEGIN}{text}{end}" if trained else text, style="green" if trained else "dim")
        console.rule(Text(row["place"]), align="left")
        console.print(masked)
        printed.append({"source": row["place"], "parts": parts})
    if shown:
        console.rule()
        weight = "×weight" if data.encoded.weights.keys() - {1.0} else ""
        legend = f"{BEGIN}trained on{END}{weight}; the rest is seen, not trained on"
        console.print(legend, style="dim", highlight=False)
    return printed


def one_step(trainer: Any) -> Step:
    """One forward and backward pass over the first batch."""
    import torch

    batch = next(iter(trainer.get_train_dataloader()))
    trainer.model.train()
    restart_peak()
    begun = time.perf_counter()
    with trainer.compute_loss_context_manager():
        loss = trainer.compute_loss(trainer.model, trainer._prepare_inputs(batch))
    loss.backward()
    trainer.check_finite()
    seconds = time.perf_counter() - begun
    squares = [p.grad.float().square().sum() for p in trainer.model.parameters() if p.grad is not None]
    norm = float(torch.stack(squares).sum().sqrt()) if squares else 0.0
    if not torch.isfinite(loss) or norm == 0:
        raise InputError(f"the first step has loss {loss.item()} and gradient norm {norm}; check model, data and dtype")
    tokens = int((batch["labels"][:, 1:] != -100).sum())
    return Step(trainer.args.objective, loss.item(), tokens, norm, round(seconds, 3), peak_gib())
