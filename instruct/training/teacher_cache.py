"""A reference model's likeliest continuations of each token, kept for further epochs, seeds and resumed trainings."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor
from torch.nn.functional import pad

from instruct.base.files import write_atomically
from instruct.objectives.logit_losses import Reference, TopReference
from instruct.training.head import Frozen, reference_of
from instruct.training.nonfinite import documents_of

# Tokens whose logits are in memory at a time.
BLOCK = 256
# The tensors of a batch of texts, packed or not; images have more.
TEXT = {"input_ids", "attention_mask", "position_ids", "cu_seq_lens_q", "cu_seq_lens_k", "seq_idx"}


class TeacherCache:
    """Gives a batch's reference; the model that `frozen` gives is called if a text of the batch is new.

    A text is a file, named by the hash of its tokens, of those with loss, and of the reference model's weights.

    Args:
        folder: of the files, which may be deleted at any time.
        top_k: continuations of each token.
    """

    def __init__(self, frozen: Frozen, folder: Path, top_k: int) -> None:
        self.frozen, self.folder, self.top_k = frozen, folder, top_k
        self._identity: bytes | None = None

    @torch.no_grad()
    def __call__(self, model: Any, labels: Tensor, **inputs: Any) -> TopReference:
        """The continuations for tokens with loss; others have none.

        Raises:
            ValueError: the model is given more than text.
        """
        tensors = {name for name, value in inputs.items() if isinstance(value, Tensor)}
        if "input_ids" not in tensors or tensors - TEXT:
            raise ValueError("objective_args.top_k caches answers to plain token ids alone; set it to null")
        targets = pad(labels[:, 1:], (0, 1), value=-100).cpu()
        self._identity = self._identity or self._checksum(model)
        texts = list(_texts(self._identity, targets, inputs))
        kept = {name: _read(self.folder / name) for name, _ in texts}
        live, width = None, len(model.get_output_embeddings().weight)
        size = min(self.top_k, width)
        ids = torch.zeros(targets.numel(), size, dtype=torch.int64)
        logs = torch.zeros(targets.numel(), size)
        for name, place in texts:  # a batch may have a text twice
            found = kept[name]
            if found is None:
                if live is None:
                    live = reference_of(self.frozen, model, labels, **inputs)
                    live = live.on_device(live.states)
                found = kept[name] = _likeliest(live.ordered(place.to(live.states.device)), size, width)
                write_atomically(self.folder / name, save(found))
            ids[place], logs[place] = found["ids"].long(), found["logs"]
        return TopReference(ids, logs)

    def _checksum(self, model: Any) -> bytes:
        """Of `top_k` and the reference's weights, without an adapter that trains and is switched off."""
        trained = {id(weight) for weight in model.parameters() if weight.requires_grad}
        digest = blake2b(str(self.top_k).encode())
        with self.frozen(model) as other:
            for name, weight in other.named_parameters():
                if id(weight) not in trained:
                    digest.update(f"{name} {weight.dtype} {weight.double().abs().sum().item()}".encode())
        return digest.digest()


def _texts(identity: bytes, targets: Tensor, inputs: dict[str, Any]) -> Iterator[tuple[str, Tensor]]:
    """The file of each text that has loss, and the places of its tokens with loss in the flattened batch."""
    input_ids, length = inputs["input_ids"].cpu(), targets.shape[1]
    for document in documents_of(inputs):
        span = slice(document.first, document.end)
        content = torch.stack([input_ids[document.row, span], targets[document.row, span]])
        place = document.row * length + document.first + (content[1] != -100).nonzero()[:, 0]
        if len(place):
            digest = blake2b(identity + content.numpy().tobytes(), digest_size=20).hexdigest()
            yield f"{digest}.safetensors", place


def _read(path: Path) -> dict[str, Tensor] | None:
    """What a file has; None for one that is missing or damaged."""
    try:
        return load_file(path)
    except (OSError, SafetensorError):
        return None


def _likeliest(reference: Reference, size: int, width: int) -> dict[str, Tensor]:
    """The `size` likeliest tokens of each of the reference's, and their log-probabilities in float32."""
    like = torch.empty(0, width, device=reference.states.device)
    blocks = []
    for start in range(0, len(reference.states), BLOCK):
        logits = reference.logits(slice(start, start + BLOCK), like)
        blocks.append(logits.log_softmax(dim=-1).topk(size, dim=-1))
    values, indices = (torch.cat(part).cpu() for part in zip(*blocks, strict=True))
    return {"ids": indices.int(), "logs": values}
