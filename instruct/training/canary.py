"""Keeping a text's log-probabilities before and after training, see `instruct.engines.canary`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback

from instruct.base.errors import refused_by_library
from instruct.base.files import write_atomically
from instruct.data.tokens import EncodedRows
from instruct.engines.canary import FILE, Canary
from instruct.training.head import evaluating

LEAST, MOST = 16, 32  # trained tokens that are scored
_ROWS = 100  # that the shortest is chosen from


def canary_text(rows: EncodedRows) -> tuple[list[int], list[int]]:
    """A short text and the places of its trained tokens, of the first rows; a repeated one if all have too few."""
    texts: list[tuple[list[int], list[int]]] = []
    for row in islice(rows.dataset(), _ROWS):
        places = [place for place, label in enumerate(row["labels"]) if place and label != -100][:MOST]
        if len(places) >= LEAST:
            texts.append((row["input_ids"][: places[-1] + 1], places))
    if texts:
        return min(texts, key=lambda text: (len(text[0]), *text[0]))
    ids = max(islice(rows.dataset()["input_ids"], _ROWS), key=len)
    ids = (ids * -(-(MOST + 1) // len(ids)))[: MOST + 1]
    return ids, list(range(1, len(ids)))


class KeepCanary(TrainerCallback):
    """Scores the text when training begins and ends, on every process, because weights may be sharded.

    What was scored at the beginning is kept with the checkpoints, for a training that is resumed. `made` is the canary
    once training has ended; None if the beginning's scores are not known.
    """

    def __init__(self, trainer: Any, text: tuple[list[int], list[int]], dtype: str) -> None:
        self.made: Canary | None = None
        self._trainer, self._dtype = trainer, dtype
        self._ids, self._places = text
        self._path = Path(trainer.args.output_dir) / FILE

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == 0:
            kind = self._trainer.model.config.model_type
            # The first forward, and some need more than tokens.
            with refused_by_library(f"{kind}: transformers cannot compute it from text alone", "use another model"):
                scores = self._scores()
            self.made = Canary(self._ids, self._places, scores, scores, self._dtype)
            if args.should_save:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                write_atomically(self._path, json.dumps(scores) + "\n")
        elif self._path.is_file():
            scores = json.loads(self._path.read_text(encoding="utf-8"))
            self.made = Canary(self._ids, self._places, scores, scores, self._dtype)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        scores = self._scores()
        if self.made is not None:
            self.made = replace(self.made, trained=scores)

    @torch.no_grad()
    def _scores(self) -> list[float]:
        """Of each place, the log-probability of its token."""
        trainer = self._trainer
        model = trainer.model
        ids = torch.tensor([self._ids], device=trainer.args.device)
        with evaluating(model), trainer.compute_loss_context_manager():
            logits = model(input_ids=ids, use_cache=False).logits[0, -len(self._ids) :]
        return _scores_of(logits, self._ids, self._places)


def _scores_of(logits: torch.Tensor, ids: Sequence[int], places: Sequence[int]) -> list[float]:
    """Natural log-probabilities; `logits`: [tokens, vocabulary]."""
    before = logits[torch.tensor(places, device=logits.device) - 1].float().log_softmax(-1)
    return [round(float(row[ids[place]]), 6) for row, place in zip(before, places, strict=True)]
