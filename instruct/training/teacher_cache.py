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
        places = dict(self._texts(targets, inputs))
        kept = {name: _read(self.folder / name) for name in places}
        live, width = None, len(model.get_output_embeddings().weight)
        size = min(self.top_k, width)
        ids = torch.zeros(targets.numel(), size, dtype=torch.int64)
        logs = torch.zeros(targets.numel(), size)
        for name, found in kept.items():
            if found is None:
                if live is None:
                    live = reference_of(self.frozen, model, labels, **inputs)
                    live = live.on_device(live.states)
                found = _likeliest(live.ordered(places[name].to(live.states.device)), size, width)
                write_atomically(self.folder / name, save(found))
            ids[places[name]], logs[places[name]] = found["ids"].long(), found["logs"]
        return TopReference(ids, logs)

    def _texts(self, targets: Tensor, inputs: dict[str, Any]) -> Iterator[tuple[str, Tensor]]:
        """The file and the tokens with loss, as places in the batch, of each text; packed texts begin at position 0."""
        length = targets.shape[1]
        positions, mask = (
            None if inputs.get(name) is None else inputs[name].cpu() for name in ("position_ids", "attention_mask")
        )
        for row, tokens in enumerate(inputs["input_ids"].cpu()):
            begin = [0]
            if positions is not None:
                begin = sorted({0, *(positions[row] == 0).nonzero()[:, 0].tolist()})
            for start, end in zip(begin, [*begin[1:], length], strict=True):
                span = torch.arange(start, end)
                span = span if mask is None else span[mask[row, start:end].bool()]
                content = torch.stack([tokens[span], targets[row, span]]).numpy().tobytes()
                digest = blake2b((self._identity or b"") + content, digest_size=20).hexdigest()
                yield f"{digest}.safetensors", row * length + span[targets[row, span] != -100]

    def _checksum(self, model: Any) -> bytes:
        """Of `top_k` and the reference's weights, without an adapter that trains and is switched off."""
        trained = {id(weight) for weight in model.parameters() if weight.requires_grad}
        digest = blake2b(str(self.top_k).encode())
        with self.frozen(model) as other:
            for name, weight in other.named_parameters():
                if id(weight) not in trained:
                    digest.update(f"{name} {weight.dtype} {weight.double().abs().sum().item()}".encode())
        return digest.digest()


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
    if not blocks:
        return {"ids": torch.zeros(0, size, dtype=torch.int32), "logs": torch.zeros(0, size)}
    values, indices = (torch.cat(part).cpu() for part in zip(*blocks, strict=True))
    return {"ids": indices.int(), "logs": values}
