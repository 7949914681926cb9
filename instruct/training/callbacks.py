"""What accompanies a training: early stopping, samples at each evaluation, the canary, trackers."""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback

from instruct.base.errors import InputError, one_line, refused_by_library
from instruct.base.files import write_atomically
from instruct.base.output import progress_bar, say
from instruct.base.run_log import are_aside
from instruct.data.rows import SPLIT_SEED
from instruct.data.tokens import EncodedRows
from instruct.engines.canary import FILE, Canary
from instruct.training.head import evaluating
from instruct.training.rows import TrainingRows

# Tokens of a plain text that its continuation starts from, and of an answer or continuation.
PREFIX, ANSWER = 32, 64
SAMPLES = 2
_MEASURED = ("step", "eval_loss", "eval_ce", "eval_perplexity", "eval_mean_token_accuracy")


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
                    text = ""
                    for name in ("prompt", "answer", "reference"):  # Markdown shows an indented line as it is
                        text += f"{name}:\n\n" + "".join(f"    {line}\n" for line in record[name].split("\n")) + "\n"
                    writer.add_text(f"samples/{number}", text.removesuffix("\n"), state.global_step)

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


LEAST, MOST = 16, 64  # trained tokens that are scored
_ROWS = 100  # that one is chosen from


@contextlib.contextmanager
def in_float32(model: Any, saved: str | None) -> Iterator[None]:
    """Meanwhile a model computes in float32. A module's weights are widened only while it computes.

    Args:
        saved: the dtype that all weights are rounded to when they are saved; None: they are not rounded.
    """
    kept: dict[Any, list[tuple[torch.Tensor, torch.Tensor]]] = {}

    def widen(module: Any, *_: Any) -> None:
        tensors = [*module.parameters(recurse=False), *module.buffers(recurse=False)]
        kept[module] = [(tensor, tensor.data) for tensor in tensors if tensor.is_floating_point()]
        for tensor, data in kept[module]:
            rounded = data.to(getattr(torch, saved)) if saved and isinstance(tensor, torch.nn.Parameter) else data
            tensor.data = rounded.float()
            torch.set_autocast_enabled(data.device.type, False)  # which Accelerate has put around the model's forward

    def restore(module: Any, *_: Any) -> None:
        for tensor, data in kept.pop(module, ()):
            tensor.data = data

    with contextlib.ExitStack() as stack:
        for module in model.modules():
            stack.callback(restore, module)
            stack.callback(module.register_forward_pre_hook(widen, prepend=True).remove)
            stack.callback(module.register_forward_hook(restore, always_call=True).remove)
        yield


class KeepCanary(TrainerCallback):
    """Scores one of the first rows when training begins and ends, on every process, because weights may be sharded.

    What was scored at the beginning is kept with the checkpoints, for a training that is resumed. `made` is the canary
    once training has ended; None if the beginning's scores are not known. All systems that train on the same rows
    score the same text.

    Args:
        rows: that are trained on.
        saved: see `in_float32`.
    """

    def __init__(self, trainer: Any, rows: EncodedRows, saved: str | None) -> None:
        self.made: Canary | None = None
        self._trainer, self._saved = trainer, saved
        # A text and the places of its trained tokens: the most, then the shortest; repeated if all rows have too few.
        texts: list[tuple[list[int], list[int]]] = []
        for row in itertools.islice(rows.dataset(), _ROWS):
            places = [place for place, label in enumerate(row["labels"]) if place and label != -100][:MOST]
            if len(places) >= LEAST:
                texts.append((row["input_ids"][: places[-1] + 1], places))
        if texts:
            self._ids, self._places = min(texts, key=lambda text: (-len(text[1]), len(text[0]), *text[0]))
        else:
            ids = max(itertools.islice(rows.dataset()["input_ids"], _ROWS), key=len)
            self._ids = (ids * -(-(MOST + 1) // len(ids)))[: MOST + 1]
            self._places = list(range(1, len(self._ids)))
        self._path = Path(trainer.args.output_dir) / FILE

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == 0:
            kind = self._trainer.model.config.model_type
            # The first forward, and some need more than tokens.
            with refused_by_library(f"{kind}: transformers cannot compute it from text alone", "use another model"):
                scores = self._scores() or self._scores(exact=False)
            if args.should_save:
                write_atomically(self._path, json.dumps(scores) + "\n")
        elif self._path.is_file():
            scores = json.loads(self._path.read_text(encoding="utf-8"))
        else:
            return
        self.made = Canary(self._ids, self._places, scores, scores)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        exact, computed = self._scores(), self._scores(exact=False)
        if self.made is not None:
            self.made = replace(self.made, trained=exact or computed, computed=computed if exact else None)

    @torch.no_grad()
    def _scores(self, exact: bool = True) -> list[float]:
        """Of each place, the log-probability of its token, in float32 or as training computes; none if it cannot be."""
        trainer = self._trainer
        model = trainer.model
        if exact and (trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled or getattr(model, "is_quantized", False)):
            return []  # its weights are not there to be widened
        ids = torch.tensor([self._ids], device=trainer.args.device)
        with evaluating(model), in_float32(model, self._saved) if exact else trainer.compute_loss_context_manager():
            try:
                logits = model(input_ids=ids, use_cache=False).logits[0, -len(self._ids) :]
            except Exception:  # a module computes with another's weights, or a kernel takes no float32
                if not exact:
                    raise
                return []
        before = logits[torch.tensor(self._places, device=logits.device) - 1].float().log_softmax(-1)
        return [round(float(row[ids[0, place]]), 6) for row, place in zip(before, self._places, strict=True)]


def check_trackers(names: list[str]) -> None:
    """Refuse a tracker that cannot be used.

    Raises:
        InputError: transformers has no tracker of this name, or its package is not installed.
    """
    from transformers.integrations import get_reporting_integration_callbacks

    try:
        for make in get_reporting_integration_callbacks(names):
            make()  # as the Trainer will; only the callback knows which package it needs
    except (ValueError, RuntimeError, ImportError) as error:
        raise InputError(f"train.report_to: {one_line(error)}; use tensorboard, wandb, trackio or none") from None


# What a line of a logged step shows, by the Trainer's names; the run's log and the trackers have all of it.
_LOGGED = {
    "loss": ("loss", ".4g"),
    "ce": ("ce", ".4g"),
    "learning_rate": ("rate", ".2g"),
    "grad_norm": ("norm", ".3g"),
    "eval_loss": ("loss", ".4g"),
    "eval_ce": ("ce", ".4g"),
    "eval_perplexity": ("perplexity", ".4g"),
}
_LINE = 80  # columns


class _ShowSteps(TrainerCallback):
    """A line for each logged step and evaluation, and how many steps are done."""

    def __init__(self, name: str, update: Callable[..., None] | None) -> None:
        self.name, self.update = name, update

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self.update:
            self.update(completed=state.global_step, total=state.max_steps)

    on_train_begin = on_step_end

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        figures = [f"{word} {logs[key]:{form}}" for key, (word, form) in _LOGGED.items() if logs and key in logs]
        if figures and state.is_world_process_zero:
            evaluated = ["evaluated"] if logs and "eval_loss" in logs else []
            line = "  ".join(["", f"step {state.global_step}/{state.max_steps}", *evaluated, *figures])
            say(one_line(self.name, max(8, _LINE - len(line))) + line)


@contextlib.contextmanager
def steps_shown(trainer: Any, name: str) -> Iterator[None]:
    """Print the logged steps of a training meanwhile; with a bar, if that of the Trainer is kept off the terminal."""
    with progress_bar() if are_aside() else contextlib.nullcontext() as bar:
        update = functools.partial(bar.update, bar.add_task(f"training {name}", total=None)) if bar else None
        trainer.add_callback(_ShowSteps(name, update))
        yield


@contextlib.contextmanager
def run_of_its_own(trainer: Any) -> Iterator[None]:
    """Ends the run of Weights & Biases that a training began; the next system's values would go on in it.

    It also ends the line of a progress bar that an error left open, so that the error gets its own line.
    """
    try:
        yield
    finally:
        for callback in trainer.callback_handler.callbacks:
            if getattr(callback, "training_bar", None) is not None:
                callback.training_bar.close()
        wandb = sys.modules.get("wandb")
        if getattr(wandb, "run", None) is not None:
            wandb.finish()  # type: ignore[union-attr]
