"""Evaluation while training: when to stop, and what the model writes at each evaluation."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback

from instruct.base.files import write_atomically
from instruct.data.rows import SPLIT_SEED
from instruct.data.tokens import EncodedRows
from instruct.training.rows import TrainingRows

# Tokens of a plain text that its continuation starts from, and of an answer or continuation.
PREFIX, ANSWER = 32, 64
SAMPLES = 2
_MEASURED = ("step", "eval_loss", "eval_ce", "eval_perplexity", "eval_mean_token_accuracy")
_SHOWN = ("prompt", "answer", "reference")


class StopWithoutImprovement(TrainerCallback):
    """Ends a training when `patience` evaluations in a row have not improved on the best one.

    It counts in the log, which a checkpoint contains, so that a resumed training stops where it would have stopped.
    """

    def __init__(self, patience: int) -> None:
        self.patience = patience

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        name = f"eval_{args.metric_for_best_model.removeprefix('eval_')}"
        values = [entry[name] for entry in state.log_history if name in entry]
        if not values:  # another set's evaluation, or one with a prefix of its own
            return
        best = max(values) if args.greater_is_better else min(values)
        if len(values) - 1 - values.index(best) >= self.patience:
            control.should_training_stop = True

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step:  # resumed, perhaps after the last evaluation
            self.on_evaluate(args, state, control)


@dataclass(frozen=True)
class EvaluationSample:
    """An evaluation row to answer: the token ids of its prompt, and those of what it goes on with."""

    source: str
    prompt: list[int]
    reference: list[int]


def samples_of(encoded: EncodedRows, count: int | None = None) -> list[EvaluationSample]:
    """The first `count` rows to answer: a prompt up to its first answer; of plain texts, the beginning of long ones."""
    count = SAMPLES if count is None else count
    fits = (row for row in encoded.encoded if row["status"] == "kept")
    if encoded.rows.plain_text:
        fits = (row for row in encoded.encoded if row["tokens"] >= 2 * PREFIX)
    samples = []
    for row in itertools.islice(fits, count):
        ids, start, end = row["input_ids"], PREFIX, PREFIX + ANSWER
        if not encoded.rows.plain_text:
            trained = [label != -100 for label in row["labels"]]
            start = trained.index(True)
            end = trained.index(False, start) if False in trained[start:] else len(trained)
        samples.append(EvaluationSample(row["place"], ids[:start], ids[start:end]))
    return samples


class WriteSamples(TrainerCallback):
    """Answers `samples` at each evaluation, greedily, into a JSON lines file and into TensorBoard.

    A sharded model answers nothing. The file holds one record per evaluation and sample: `step`, `source`, `prompt`,
    `answer`, `reference`.

    Args:
        trainer: whose model answers.
        file: the file; records of the current step and later ones, from before an interruption, are replaced.
    """

    def __init__(self, trainer: Any, samples: Sequence[EvaluationSample], file: Path) -> None:
        self.trainer, self.samples, self.file = trainer, samples, file

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        trainer = self.trainer
        if not state.is_world_process_zero or trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled:
            return
        records = [{"step": state.global_step, **self._record(sample)} for sample in self.samples]
        earlier = [record for record in read_samples(self.file) if record["step"] < state.global_step]
        lines = (json.dumps(record, ensure_ascii=False) + "\n" for record in [*earlier, *records])
        write_atomically(self.file, "".join(lines))
        for callback in trainer.callback_handler.callbacks:
            writer = getattr(callback, "tb_writer", None)
            if writer is not None:
                for number, record in enumerate(records, start=1):
                    writer.add_text(f"samples/{number}", _markdown(record), state.global_step)

    def _record(self, sample: EvaluationSample) -> dict[str, str]:
        trainer = self.trainer
        tokenizer, model = trainer.processing_class, trainer.model
        ids = torch.tensor([sample.prompt], device=trainer.args.device)
        trains = model.training
        model.eval()
        with torch.no_grad(), trainer.compute_loss_context_manager():
            generated = model.generate(
                input_ids=ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=ANSWER,
                do_sample=False,
                pad_token_id=tokenizer.pad_token_id,
            )
        model.train(trains)
        answer = generated[0, len(sample.prompt) :].tolist()
        texts = {"prompt": sample.prompt, "answer": answer, "reference": sample.reference}
        return {"source": sample.source, **{name: tokenizer.decode(ids) for name, ids in texts.items()}}


def evaluation_summary(state: Any, data: TrainingRows) -> dict[str, Any]:
    """What a finished training measured, for the manifest and the model card.

    Args:
        state: the Trainer's.
        data: the rows; with rows to evaluate on.

    Returns:
        The rows and their hash; `first` and `kept`, the evaluations at the first step and at that of the weights that
        were kept, with `step`, `ce`, `perplexity` and so on; and the number of `evaluations`.
    """
    assert data.eval_encoded
    rows = data.eval_encoded.rows
    log = [entry for entry in state.log_history if "eval_ce" in entry]
    kept = next((entry for entry in log if entry["step"] == state.best_global_step), log[-1] if log else None)
    summary: dict[str, Any] = {"rows": rows.counts, "sha256": rows.sha256, "evaluations": len(log)}
    if "held_out" in data.rows.counts:
        summary["seed"] = SPLIT_SEED
    for name, entry in (("first", log[0] if log else None), ("kept", kept)):
        summary[name] = entry and {key.removeprefix("eval_"): entry[key] for key in entry if key in _MEASURED}
    return summary


def read_samples(file: Path) -> list[dict[str, Any]]:
    """The records of a file of samples; none if there is no file."""
    if not file.is_file():
        return []
    return [json.loads(line) for line in file.read_text(encoding="utf-8").split("\n") if line]


def _markdown(record: Mapping[str, Any]) -> str:
    """The record for TensorBoard, which renders Markdown: an indented line is shown as it is."""
    parts = (f"{name}:\n\n" + "".join(f"    {line}\n" for line in record[name].split("\n")) for name in _SHOWN)
    return "\n".join(parts)
