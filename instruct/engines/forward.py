"""Teacher-forced passes of a causal model over given text: log-probabilities, distributions, hidden states."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from instruct.base.errors import InputError, counted
from instruct.base.files import write_atomically
from instruct.base.models import ModelOptions, model_path
from instruct.base.networks import backbone_of
from instruct.base.output import progress, progress_bar
from instruct.data.tokens import text_token_ids
from instruct.engines.base import Decoding, EngineOptions
from instruct.engines.local import load_tokenizer
from instruct.engines.network import BATCH_TOKENS, TextRow, batches, padded, shared_length
from instruct.engines.transformers import TransformersEngine
from instruct.engines.weights import adapter_identity, check_model, context_of, is_adapter, model_identity

if TYPE_CHECKING:
    import torch

# The logits of one pass, in numbers, and those that are in float32 at a time, which on a CPU fit its cache.
_LOGITS = {"cpu": 1 << 28, "cuda": 1 << 30}
_CHUNK = {"cpu": 1 << 19, "cuda": 1 << 27}


@dataclass(frozen=True)
class ForwardModel:
    """One system: a base model, alone or with a LoRA adapter, or a whole fine-tuned model.

    Rows are sorted by length and computed in batches of up to 4,096 tokens on a CPU, 16,384 on a GPU, fewer for a large
    vocabulary. Logits are in the model's dtype, as in training and generation; log-softmax is in float32. Rows must
    not be longer than `context`.
    """

    engine: TransformersEngine
    adapter: Path | None
    identity: str
    temperature: float = 1.0  # that probabilities are taken at: softmax(logits / temperature)

    @property
    def tokenizer(self) -> Any:
        return self.engine.tokenizer

    @property
    def context(self) -> int:
        """The longest row, in tokens."""
        return context_of(self.engine.config) or sys.maxsize

    @property
    def end(self) -> int:
        """The id of the token that ends a text.

        Raises:
            InputError: the tokenizer has none.
        """
        end = self.tokenizer.eos_token_id
        if end is None:
            raise InputError(f"{self.engine.options.subject}: its tokenizer has no end token; set its eos_token")
        return int(end)

    def close(self) -> None:
        """Release the model."""
        self.engine.close()

    # Tokens

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The tokens of texts, with those that the tokenizer puts before them and without an end token."""
        return text_token_ids(self.tokenizer, list(texts))

    def encode_after(self, prefixes: Sequence[str], continuations: Sequence[str]) -> list[TextRow]:
        """Prefixes and continuations tokenized as one text each; `start` is the first token that is not the prefix's.

        A token that spans the boundary counts to the continuation, and so does the first token of an empty prefix
        unless nothing is before it.
        """
        whole = self.encode([prefix + text for prefix, text in zip(prefixes, continuations, strict=True)])
        return [
            TextRow(ids, max(1, shared_length(before, ids)))
            for before, ids in zip(self.encode(prefixes), whole, strict=True)
        ]

    # Passes

    def log_probabilities(self, rows: Sequence[TextRow]) -> list[np.ndarray]:
        """Of each row: ln p(token | tokens before it) of its tokens from `start` on; float32, [len(ids) - start]."""
        import torch

        logs_of = [np.zeros(max(0, len(row.ids) - row.start), np.float32) for row in rows]
        done = [0] * len(rows)
        with progress(f"probabilities of {counted(len(rows), 'text')}", len(rows)) as advance:
            for place, logs in self.distributions(rows):
                begin, end = done[place], done[place] + len(logs)
                first = rows[place].start
                targets = torch.tensor(rows[place].ids[first + begin : first + end], device=logs.device)
                logs_of[place][begin:end] = logs.gather(1, targets[:, None])[:, 0].cpu().numpy()
                done[place] = end
                if end == len(logs_of[place]):
                    advance(1)
        return logs_of

    def distributions(
        self, rows: Sequence[TextRow], vocabulary: int | None = None
    ) -> Iterator[tuple[int, torch.Tensor]]:
        """The next-token distributions at the tokens from `start` on, in portions of one row.

        Yields the row's place in `rows` and ln p, float32, of shape [positions, vocabulary], on the model's device:
        portions of a row follow each other, and rows come from the longest to the shortest. Models that are given the
        same rows, on one machine and with one vocabulary, yield the same portions.

        Args:
            vocabulary: keep the first ids only (and let them sum to 1), for embeddings that are padded differently.
        """
        for places, logits in self._passes(rows):
            for number, place in enumerate(places):
                row = rows[place]
                own = logits[number, row.start - 1 : len(row.ids) - 1, :vocabulary]
                size = max(1, _CHUNK[own.device.type] // own.shape[-1])
                for chunk in own.split(size) if len(own) else ():
                    scores = chunk.float()
                    yield place, (scores if self.temperature == 1 else scores / self.temperature).log_softmax(-1)

    def last_states(self, rows: Sequence[Sequence[int]], folder: Path | None = None) -> np.ndarray:
        """The final hidden state (after the last norm) of each row's last token; float32, [rows, hidden].

        Args:
            folder: where the states of each batch are kept when they are computed; those that are there are read.
        """
        states_of: list[Any] = [None] * len(rows)
        with progress_bar() as progress:
            task = progress.add_task(f"states of {counted(len(rows), 'text')}", total=len(rows))
            for places, ids in self._batches([TextRow(row) for row in rows], vocabulary=1):
                ends = [len(rows[place]) - 1 for place in places]
                made_from = f"{self.identity} {self.engine.dtype} {ends}".encode() + ids.numpy().tobytes()
                kept = folder and folder / f"{hashlib.sha256(made_from).hexdigest()}.npy"
                if kept and kept.is_file():
                    states = np.load(kept, allow_pickle=False)
                else:
                    states = self._states(ids, ends)
                    if kept:
                        content = io.BytesIO()
                        np.save(content, states, allow_pickle=False)
                        write_atomically(kept, content.getvalue())
                for place, state in zip(places, states, strict=True):
                    states_of[place] = state
                progress.advance(task, len(places))
        return np.stack(states_of)

    def _states(self, ids: torch.Tensor, ends: Sequence[int]) -> np.ndarray:
        """The final hidden states at one place of each row."""
        import torch

        with self.engine.adapted(self.adapter) as network:
            states = backbone_of(network)(input_ids=ids.to(network.device), use_cache=False).last_hidden_state
            places = torch.arange(len(ends), device=states.device), torch.tensor(ends, device=states.device)
            values: np.ndarray = states[places].float().cpu().numpy()
        return values

    @property
    def vocabulary(self) -> int:
        """The width of the logits, which may exceed the tokenizer's vocabulary."""
        return int(self.engine.network.config.get_text_config().vocab_size)

    def _passes(self, rows: Sequence[TextRow]) -> Iterator[tuple[list[int], torch.Tensor]]:
        """The places of the rows of each batch, and their logits: [rows, longest, vocabulary]."""
        wanted = [place for place, row in enumerate(rows) if len(row.ids) > row.start]
        for batch, ids in self._batches([rows[place] for place in wanted], self.vocabulary):
            places = [wanted[place] for place in batch]
            with self.engine.adapted(self.adapter) as network:
                logits = network(input_ids=ids.to(network.device), use_cache=False).logits
            yield places, logits

    def _batches(self, rows: Sequence[TextRow], vocabulary: int) -> Iterator[tuple[list[int], torch.Tensor]]:
        """Places and padded ids. What follows a text cannot change it, so no mask is needed."""
        if not rows:
            return
        device = self.engine.network.device.type
        longest = max(rows, key=lambda row: len(row.ids))
        if len(longest.ids) > self.context:
            raise InputError(
                f"{self.engine.options.subject}: a text of {len(longest.ids)} tokens exceeds its context of "
                f"{self.context}; shorten the texts"
            )
        tokens = min(BATCH_TOKENS[device], _LOGITS[device] // vocabulary)
        for places in batches([len(row.ids) for row in rows], tokens):
            yield places, padded([rows[place].ids for place in places], self.tokenizer.pad_token_id or 0)[0]


def open_model(model: ModelOptions, source: Path | None = None, like: ForwardModel | None = None) -> ForwardModel:
    """A model for teacher-forced passes; it is loaded on first use.

    Args:
        model: the base, its dtype and quantization.
        source: None: the base itself; a LoRA adapter's folder, or that of a whole fine-tuned model.
        like: a system whose engine is used again if it has the same base; otherwise it is closed.

    Raises:
        InputError: no such model, adapter or weights; when it is loaded: too little memory, weights that do not fit.
    """
    name = model_path(model.name)
    adapter = source if source is not None and is_adapter(source) else None
    if source is not None and adapter is None:
        base, revision = str(source), check_model(str(source))
    else:
        base, revision = name, check_model(name, model.revision)
    identity = model_identity(base, revision)
    if adapter is not None:
        identity += f" with adapter {adapter_identity(adapter)}"
    tokenizer = None
    if base != name and not (Path(base) / "tokenizer_config.json").is_file():
        # A fine-tuned model may have been saved without the tokenizer; its base's is the same.
        tokenizer = load_tokenizer(f"model {model.name}", name, model.revision)
    options = EngineOptions(
        subject=f"model {model.name if base == name else base}",
        model=base,
        revision=revision,
        decoding=Decoding(),
        context_length=0,  # nothing is generated
        tokenizer=tokenizer,
        dtype=model.dtype,
        quantization=model.quantization,
        chat=True,  # a turn's end ends a reply, too
    )
    if like is not None:
        if dataclasses.replace(like.engine.options, tokenizer=tokenizer) == options:
            return ForwardModel(like.engine, adapter, identity)
        like.close()
    return ForwardModel(TransformersEngine(options), adapter, identity)
