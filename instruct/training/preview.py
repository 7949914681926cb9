"""`instruct preview`: what training would see, before a GPU hour is spent on the wrong tokens."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from instruct.base import output
from instruct.base.errors import InputError, counted
from instruct.data.arrow import numbers
from instruct.data.overlap import find_overlap, overlap_text
from instruct.data.templates import Rendering
from instruct.data.token_weights import split_labels, weights_line, weights_record
from instruct.data.tokens import PERCENTILES, TRAINED, length_percentiles
from instruct.engines.memory import available_gib
from instruct.engines.network import shared_length
from instruct.training.estimate import memory_gib, model_shape
from instruct.training.options import TrainingOptions
from instruct.training.rows import TrainingRows, evaluated, load_training_rows
from instruct.training.train import first_trained, make_trainer, trainer_arguments

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
    """One forward and backward pass: its mean loss over `tokens`, which `over` names, and its gradient norm."""

    objective: str
    loss: float
    tokens: int
    over: str
    gradient_norm: float

    def words(self) -> str:
        """The step as a sentence."""
        return (
            f"one step ({self.objective}): loss {self.loss:.4f} over {self.tokens} {self.over}, "
            f"gradient norm {self.gradient_norm:.3f}"
        )


@dataclass(frozen=True)
class Preview:
    """What a preview found.

    Attributes:
        counts: rows by what became of them.
        lengths: percentiles of the lengths before truncation, in tokens.
        notes: on the rows.
        dropped: what rows have that is not in the text that is trained on, by kind.
        overlap: how many evaluation prompts are in the training data; None if nobody counted.
        rows: the rows shown: where each is from, its text in pieces with whether they are trained on (and a `weight`
            other than 1), and `server`: the prompt that a server sends, if it is another.
        weights: of the tokens that are trained on, see `weights_record`; None if all are 1.
        memory_gib: the estimated memory by what needs it.
        step: one step of training.
    """

    counts: dict[str, int]
    lengths: dict[str, dict[int, int]]
    notes: list[str]
    dropped: dict[str, int]
    overlap: dict[str, int] | None
    rows: list[dict[str, Any]]
    memory_gib: dict[str, float]
    step: Step
    weights: dict[str, Any] | None = None


def print_preview(config: TrainingOptions, shown: int = 3, prompts: Sequence[str] = ()) -> Preview:
    """Print rows with their mask, counts, lengths, a memory estimate; run one forward and backward pass.

    Args:
        shown: the number of rows, or blocks, to print.
        prompts: of the evaluation set, to count how many are in the training data.

    Returns:
        What it printed, for programs.

    Raises:
        InputError: the length truncates more than MOST_TRUNCATED of the answers, or the first step has no finite loss
            or no gradient.
    """
    console = output.console()
    data = load_training_rows(config)
    rows, encoded = data.rows, data.encoded
    weights = weights_record(encoded.weights) or None
    overlap = find_overlap(prompts, rows) if prompts else None
    lengths = length_percentiles(encoded)
    _print_data(console, config, data, lengths, overlap)
    packs = rows.plain_text and config.train.get("packing", True)
    printed = [] if packs else _print_rows(console, data, config.data.rendering(), shown)
    truncated = int((numbers(encoded.encoded, "length") > numbers(encoded.encoded, "tokens")).sum())
    if truncated > MOST_TRUNCATED * len(encoded.encoded):
        raise InputError(
            f"data: max_length {numbers(encoded.encoded, 'tokens').max()} truncates {truncated} of "
            f"{len(encoded.encoded)} answers, which lose their end token; raise train.max_length (the longest row has "
            f"{lengths['total'][100]} tokens)"
        )

    system = first_trained(config)
    with tempfile.TemporaryDirectory() as folder:
        arguments = trainer_arguments(config, system, Path(folder), rows.plain_text)
        trainer = make_trainer(config, arguments, data.tokenizer, encoded.dataset(), data.eval_encoded)
        if packs:
            print_blocks(console, trainer, data, shown)
        memory = memory_gib(config, model_shape(config), arguments)
        listed = ", ".join(f"{name} {size:.2f}" for name, size in memory.items())
        console.print(f"memory, estimated: {sum(memory.values()):.1f} GiB ({listed}); free: {available_gib():.1f} GiB")
        with output.progress("one training step", total=1) as done:
            weighted = "weighted tokens" if weights else "response tokens"
            step = one_step(trainer, "tokens" if rows.plain_text and not weights else weighted)
            done(1)
        console.print(step.words(), highlight=False)
    return Preview(data.counts, lengths, data.notes, data.dropped, overlap, printed, memory, step, weights)


def _print_data(
    console: Console,
    config: TrainingOptions,
    data: TrainingRows,
    lengths: Mapping[str, Mapping[int, int]],
    overlap: dict[str, int] | None,
) -> None:
    """What was read, what became of it, and how long it is."""
    rows, counts = data.rows, data.encoded.counts
    form = "plain text" if rows.plain_text else f"template {data.template}"
    console.print(f"[bold]{counted(rows.counts['read'], 'row')} read[/], {form}:", highlight=False)
    if rows.plain_text:
        counts = {"texts": counts["kept"], "blank": counts["empty"]}
    if "held_out" in rows.counts:
        counts = {**counts, "held_out": rows.counts["held_out"]}
    table = Table(*(name.replace("_", " ") for name in counts))
    table.add_row(*(f"{number:,}" for number in counts.values()))
    console.print(table)
    names = {"prompt": "prompt", "completion": "completion", "total": "total"}
    if rows.plain_text:
        names = {"total": "total"}
    elif config.train.get("prompt_loss_weight"):
        names |= {"prompt": "before answers", "completion": "answers"}
    elif rows.turns:  # several answers of a chat are trained on
        names |= {"prompt": "not trained on", "completion": "trained on"}
    table = Table("tokens", *(f"{percent} %" for percent in PERCENTILES[:-1]), "longest")
    for part, name in names.items():
        table.add_row(name, *(f"{lengths[part][percent]:,}" for percent in PERCENTILES))
    console.print(table)
    how = TRAINED_TEXTS[config.train.get("train_on", "assistant_turns")]
    lines = [f"{rows.turns['answers']:,} answers of chats, {how}"] if rows.turns else []
    if data.eval_encoded:
        lines.append(f"evaluation: {evaluated(data)}")
    if not rows.plain_text:
        dropped = ", ".join(f"{count:,} × {kind}" for kind, count in data.dropped.items())
        lines.append(f"dropped: {dropped or 'nothing'}")
    if weights := weights_record(data.encoded.weights):
        lines.append(f"weights: {weights_line(weights)}")
    lines += [f"note: {note}" for note in data.notes]
    if overlap:
        lines.append(f"overlap: {overlap_text(overlap)}")
    for line in lines:
        console.print(line, highlight=False, markup=False)


def _print_rows(console: Console, data: TrainingRows, rendering: Rendering, shown: int) -> list[dict[str, Any]]:
    """Print the first `shown` rows: the prompt that a server sends, the text with its mask, and what vLLM makes of the
    answer; return the same.
    """
    import torch

    printed = []
    for row in itertools.islice(data.encoded.encoded, shown):
        decode, length, answers = data.tokenizer.decode, row["tokens"], row["answers"]
        begin = answers[0] if answers and answers[0] < length else 0
        parts: list[dict[str, Any]] = []
        masked = Text()
        labels, weights = (part.tolist() for part in split_labels(torch.tensor(row["labels"])))
        kinds = [(label != -100, weight) for label, weight in zip(labels, weights, strict=True)]
        for (trained, weight), places in itertools.groupby(range(length), key=kinds.__getitem__):
            text = _escaped(decode([row["input_ids"][place] for place in places]))
            own = {} if weight == 1 else {"weight": weight}
            parts.append({"text": text, "trained_on": trained, **own})
            end = f"{END}×{weight:.4g}" if own else END
            masked.append(f"{BEGIN}{text}{end}" if trained else text, style="green" if trained else "dim")
        record: dict[str, Any] = {"source": row["place"], "parts": parts}
        panes: list[tuple[str, Text]] = []
        chat = data.rows.rows[row["chat"]] if data.rows.format else {}  # of one data set
        messages = chat.get("messages") or chat.get("prompt")
        if isinstance(messages, list) and row["status"] in TRAINED:
            # The prompts of a chat's turns that a server sends by default.
            more = {"tools": chat["tools"]} if chat.get("tools") else {}
            ends = range(1, len(messages) + 1) if "prompt" not in chat else [len(messages)]
            prompts = [rendering.render(data.tokenizer, messages[:end], prompt=True, **more) for end in ends]
            sent = [decode(ids) for ids in data.tokenizer(prompts, add_special_tokens=False)["input_ids"]]
            before = decode(row["input_ids"][:begin])
            said = f"the text before {'the answer' if begin and labels[begin - 1] != -100 else BEGIN}"
            if begin and before not in sent:
                other = max(sent, key=lambda prompt: shared_length(prompt, before))
                record["server"] = other
                alike = shared_length(other, decode(row["input_ids"]))
                said = f"… {_escaped(other[max(0, other.rfind('<', 0, alike)) :])}"
            panes.append(("a server sends", Text(said, style="yellow")))
        panes.append(("training has", masked))
        console.rule(Text(row["place"]), align="left")
        for title, content in panes:
            console.print(Text(f"{title}: ", style="bold") + content if len(panes) > 1 else content)
        printed.append(record)
    if shown:
        console.rule()
        weight = "×weight" if data.encoded.weights.keys() - {1.0} else ""
        legend = f"{BEGIN}trained on{END}{weight}; the rest is seen, not trained on"
        console.print(legend, style="dim", highlight=False)
    return printed


def _escaped(text: str) -> str:
    """The text with its control characters escaped."""
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)


def print_blocks(console: Console, trainer: Any, data: TrainingRows, shown: int) -> None:
    """Print how packed texts fill their blocks, and the first `shown` blocks with where each text begins."""
    import torch

    arguments, end = trainer.args, data.tokenizer.eos_token_id
    blocks, labels = (packed_blocks(trainer.train_dataset, end, column) for column in ("input_ids", "labels"))
    tokens, length = sum(len(text) for block in blocks for text in block), arguments.max_length
    split = int((numbers(data.encoded.encoded, "tokens") > length).sum())
    console.print(
        f"packed ({arguments.packing_strategy}): {tokens:,} tokens in {len(blocks):,} blocks of {length}, "
        f"{tokens / len(blocks) / length:.1%} filled, {sum(map(len, blocks)) / len(blocks):.1f} texts or parts a "
        f"block; {split:,} texts are longer than a block",
        highlight=False,
    )
    seen = "a token attends only to earlier tokens of its own text, or of its part of a text that was split"
    if arguments.packing_strategy == "wrapped":
        seen = "a token attends to all earlier tokens of its block, also to those of other texts"
    console.print(seen, highlight=False)
    for number, texts in enumerate(zip(blocks[:shown], labels, strict=False), start=1):
        console.rule(Text(f"block {number}"), align="left")
        for ids, of_ids in zip(*texts, strict=True):
            weight = split_labels(torch.tensor(of_ids[-1:]))[1].item()
            own = "" if weight == 1 else f" ×{weight:.4g}"
            size = Text(f"[{len(ids)} tokens{own}] ", style="dim")
            console.print(size + Text(_escaped(data.tokenizer.decode(ids)), style="green"))
    if shown:
        console.rule()
        console.print("every token is trained on; each line with a number in brackets begins a text or a part of one")


def packed_blocks(dataset: Any, end: int, column: str = "input_ids") -> list[list[list[int]]]:
    """The texts, or parts of texts, in each block of a training set that TRL has packed, as token ids or labels.

    TRL's `wrapped` strategy records no boundaries; then a part ends at an end token, whose id is `end`.
    """
    blocks = list(dataset["input_ids"])
    if "seq_lengths" in dataset.column_names:
        bounds = [list(itertools.accumulate(lengths, initial=0)) for lengths in dataset["seq_lengths"]]
    else:
        ends = ([index + 1 for index, token in enumerate(ids) if token == end] for ids in blocks)
        bounds = [sorted({0, *own, len(ids)}) for own, ids in zip(ends, blocks, strict=True)]
    cut = zip(dataset[column], bounds, strict=True)
    return [[values[begin:end] for begin, end in itertools.pairwise(own)] for values, own in cut]


def one_step(trainer: Any, tokens_name: str) -> Step:
    """One forward and backward pass over the first batch."""
    import torch

    batch = next(iter(trainer.get_train_dataloader()))
    trainer.model.train()
    with trainer.compute_loss_context_manager():
        loss = trainer.compute_loss(trainer.model, trainer._prepare_inputs(batch))
    loss.backward()
    trainer.check_finite()
    squares = [p.grad.float().square().sum() for p in trainer.model.parameters() if p.grad is not None]
    norm = float(torch.stack(squares).sum().sqrt()) if squares else 0.0
    if not torch.isfinite(loss) or norm == 0:
        raise InputError(f"the first step has loss {loss.item()} and gradient norm {norm}; check model, data and dtype")
    tokens = int((batch["labels"][:, 1:] != -100).sum())
    return Step(trainer.args.objective, loss.item(), tokens, tokens_name, norm)
