"""The reference model of an objective that takes one, and a cache of its likeliest continuations of each token."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor
from torch.nn.functional import pad

from instruct.base.errors import InputError, one_line
from instruct.base.files import write_atomically
from instruct.base.models import model_path
from instruct.base.networks import backbone_of, load_network
from instruct.objectives.objective import BASE
from instruct.objectives.torch_kernels import Reference, TopReference
from instruct.training.head import head_of
from instruct.training.nonfinite import documents_of

# What gives, of the model that trains, the frozen one, for a time.
Frozen = Callable[[Any], contextlib.AbstractContextManager[Any]]

# Tokens whose logits are in memory at a time.
BLOCK = 256
# The tensors of a batch of texts, packed or not; images have more.
TEXT = {"input_ids", "attention_mask", "position_ids", "cu_seq_lens_q", "cu_seq_lens_k", "seq_idx"}


def frozen_model(name: str, model: Any, tokenizer: Any, sharded: bool, device: Any) -> Frozen:
    """What gives the reference model that an objective names.

    `base` is the model under its adapter, switched off, without a second copy; in full fine-tuning it is a copy of what
    training begins with, so that a resumed training has to be constructed with the same model.

    Args:
        model: that trains, maybe a PeftModel.
        sharded: by FSDP or DeepSpeed.

    Raises:
        ValueError: a sharded model; an adapter beside a head that trains; another model that cannot be loaded, has
            another tokenizer or fewer logits.
    """
    if sharded:
        raise ValueError(
            "the objective needs a reference model, which FSDP and DeepSpeed would shard with the one that trains; "
            "train in one process or with DDP"
        )
    if name != BASE or not hasattr(model, "disable_adapter"):
        other = copy.deepcopy(model) if name == BASE else _loaded(name, model, tokenizer, device)
        other.eval().requires_grad_(False)
        return lambda _: contextlib.nullcontext(other)
    if any(weight.requires_grad for weight in model.get_output_embeddings().parameters()):
        raise ValueError(
            "the objective needs the base as its reference, whose lm_head must be frozen; remove it from "
            "modules_to_save, or fine-tune the whole model"
        )

    @contextlib.contextmanager
    def without_adapter(base: Any) -> Iterator[Any]:
        with model.disable_adapter():
            yield base

    return without_adapter


def _loaded(name: str, model: Any, tokenizer: Any, device: Any) -> Any:
    from transformers import AutoTokenizer

    try:
        words = AutoTokenizer.from_pretrained(model_path(name), trust_remote_code=False)
        other = load_network(model_path(name), dtype=model.dtype)
    except (InputError, OSError, ValueError, KeyError) as error:
        raise ValueError(f"reference model {name}: cannot be loaded ({one_line(error, 200)}); check the name") from None
    if words.get_vocab() != tokenizer.get_vocab():
        raise ValueError(f"reference model {name}: has another tokenizer; use a model that shares it")
    width, wanted = len(other.get_output_embeddings().weight), len(model.get_output_embeddings().weight)
    if width < wanted:
        raise ValueError(f"reference model {name}: has {width} logits, fewer than {wanted}; use another model")
    return other.to(device)


@torch.no_grad()
def reference_of(frozen: Frozen, model: Any, labels: Tensor, *args: Any, **kwargs: Any) -> Reference:
    """The states and the head of the frozen model for a batch; it has no dropout."""
    with frozen(model) as other:
        trains = other.training
        other.eval()
        states = backbone_of(other)(*args, **kwargs).last_hidden_state.flatten(0, 1)
        head = head_of(other)
        bias = None if head.bias is None else head.bias.detach()
        head = replace(head, weight=head.weight.detach(), bias=bias)
        other.train(trains)
    return Reference(states, head)


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
            top = kept[name]
            if top is None:
                if live is None:
                    live = reference_of(self.frozen, model, labels, **inputs)
                    live = live.on_device(live.states)
                top = kept[name] = _likeliest(live.ordered(place.to(live.states.device)), size, width)
                write_atomically(self.folder / name, save(top))
            ids[place], logs[place] = top["ids"].long(), top["logs"]
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
