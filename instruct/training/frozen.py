"""Frozen parts beside the model that trains: the table of a transport cost, and an objective's reference model."""

from __future__ import annotations

import contextlib
import copy
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import broadcast
from peft.utils.other import AuxiliaryTrainingWrapper
from safetensors import SafetensorError
from safetensors.torch import load_file, save, save_file
from torch import Tensor, nn
from torch.nn.functional import pad
from transformers import TrainerCallback

from instruct.base.errors import InputError, one_line
from instruct.base.files import write_atomically
from instruct.base.models import model_path
from instruct.base.networks import INITS_OF_BASE, backbone_of, load_network
from instruct.objectives import CosineCost, Energy, EnergyTable, Objective, TransportCost
from instruct.objectives.objective import BASE, SNAPSHOT
from instruct.objectives.torch_kernels import Reference, TopReference
from instruct.objectives.transport import NumericCost, load_cost_table, number_values
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
    training begins with, so that a resumed training has to be constructed with the same model. `snapshot`: a Snapshot.

    Args:
        model: that trains, maybe a PeftModel.
        sharded: by FSDP or DeepSpeed.

    Raises:
        ValueError: a sharded model; an adapter without which the model is not the base; another model that cannot be
            loaded, has another tokenizer or fewer logits.
    """
    from transformers import AutoTokenizer

    if sharded:
        raise ValueError(
            "the objective needs a reference model, which FSDP and DeepSpeed would shard with the one that trains; "
            "train in one process or with DDP"
        )
    if name == SNAPSHOT:
        return Snapshot(model)
    if name != BASE or not hasattr(model, "disable_adapter"):
        if name == BASE:
            other = copy.deepcopy(model)
        else:
            try:
                words = AutoTokenizer.from_pretrained(model_path(name), trust_remote_code=False)
                other = load_network(model_path(name), dtype=model.dtype).to(device)
            except (InputError, OSError, ValueError, KeyError) as error:
                reason = one_line(error, 200)
                raise ValueError(f"reference model {name}: cannot be loaded ({reason}); check the name") from None
            if words.get_vocab() != tokenizer.get_vocab():
                raise ValueError(f"reference model {name}: has another tokenizer; use a model that shares it")
            width, wanted = len(other.get_output_embeddings().weight), len(model.get_output_embeddings().weight)
            if width < wanted:
                raise ValueError(f"reference model {name}: has {width} logits, fewer than {wanted}; use another model")
        other.eval().requires_grad_(False)
        return lambda _: contextlib.nullcontext(other)
    if kept := _trained_without_adapter(model):
        raise ValueError(f"the objective needs the base as its reference; {kept}, or fine-tune the whole model")

    @contextlib.contextmanager
    def without_adapter(base: Any) -> Iterator[Any]:
        with model.disable_adapter():
            yield base

    return without_adapter


def _trained_without_adapter(model: Any) -> str | None:
    """What to change in an adapter, without which the model is not the base; None: nothing."""
    if any(weight.requires_grad for weight in model.get_output_embeddings().parameters()):
        return "its lm_head must be frozen: remove it from modules_to_save"
    for config in model.peft_config.values():
        if config.is_prompt_learning:
            return f"{config.peft_type.value} has no adapter to switch off: train one of LoRA"
        if (bias := getattr(config, "bias", "none")) != "none":
            return f"bias {bias} stays when the adapter is switched off: set it to none"
        if (init := getattr(config, "init_lora_weights", True)) not in INITS_OF_BASE:
            return f"init_lora_weights {init} may change the base's weights: set it to true"
    return None


class Snapshot:
    """Gives the model as it was when `take` was called last: a second copy of the weights that train."""

    FILE = "snapshot.safetensors"

    def __init__(self, model: nn.Module) -> None:
        self.trained = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
        self.taken = {name: weight.detach().clone() for name, weight in self.trained.items()}

    @torch.no_grad()
    def take(self) -> None:
        """Copy the weights as they are now, into the memory of the last copy."""
        for name, weight in self.trained.items():
            self.taken[name].copy_(weight)

    @contextlib.contextmanager
    def __call__(self, model: Any) -> Iterator[Any]:
        current = {name: weight.data for name, weight in self.trained.items()}
        try:
            self._put(self.taken)
            yield model
        finally:
            self._put(current)

    def _put(self, weights: Mapping[str, Tensor]) -> None:
        for name, weight in self.trained.items():
            weight.data = weights[name]
        torch.clear_autocast_cache()  # which holds copies of weights by their places, not by their content

    def save(self, checkpoint: str) -> None:
        """Keep the copy beside a checkpoint, whose step may be later."""
        Path(checkpoint).mkdir(parents=True, exist_ok=True)
        save_file({name: weight.contiguous() for name, weight in self.taken.items()}, Path(checkpoint) / self.FILE)

    def load(self, checkpoint: str) -> None:
        """Raises:
        InputError: the checkpoint has no copy, or that of another model.
        """
        file = Path(checkpoint) / self.FILE
        try:
            taken = load_file(file)
        except (OSError, SafetensorError):
            raise InputError(f"{file}: cannot be read; resume from another checkpoint, or train anew") from None
        found, needed = ({name: weight.shape for name, weight in each.items()} for each in (taken, self.trained))
        if found != needed:
            raise InputError(f"{file}: is of other weights than those that train; resume with the same config")
        self.taken = {name: weight.to(self.trained[name]) for name, weight in taken.items()}


class TakeSnapshots(TrainerCallback):
    """Has a snapshot taken after each optimizer step whose number is a multiple of `every`."""

    def __init__(self, snapshot: Snapshot, every: int) -> None:
        self.snapshot, self.every = snapshot, every

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step % self.every == 0:
            self.snapshot.take()


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
        input_ids, length = inputs["input_ids"].cpu(), targets.shape[1]
        live, width = None, len(model.get_output_embeddings().weight)
        size = min(self.top_k, width)
        ids = torch.zeros(targets.numel(), size, dtype=torch.int64)
        logs = torch.zeros(targets.numel(), size)
        for document in documents_of(inputs):
            span = slice(document.first, document.end)
            content = torch.stack([input_ids[document.row, span], targets[document.row, span]])
            # The places of its tokens with loss in the flattened batch.
            place = document.row * length + document.first + (content[1] != -100).nonzero()[:, 0]
            if not len(place):
                continue
            digest = blake2b(self._identity + content.numpy().tobytes(), digest_size=20).hexdigest()
            path = self.folder / f"{digest}.safetensors"
            try:
                top = load_file(path)
            except (OSError, SafetensorError):  # missing, or damaged
                if live is None:
                    live = reference_of(self.frozen, model, labels, **inputs)
                    live = live.on_device(live.states)
                reference = live.ordered(place.to(live.states.device))
                like = torch.empty(0, width, device=reference.states.device)
                blocks = []
                for start in range(0, len(reference.states), BLOCK):
                    block = reference.logits(slice(start, start + BLOCK), like)
                    blocks.append(block.log_softmax(dim=-1).topk(size, dim=-1))
                values, indices = (torch.cat(part).cpu() for part in zip(*blocks, strict=True))
                top = {"ids": indices.int(), "logs": values}
                write_atomically(path, save(top))
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


def original_table(
    head: nn.Module, sharded_on: torch.device | None = None, narrow: torch.dtype | None = None
) -> torch.Tensor:
    """The head's weight before training, (vocab, hidden), copied only if training would change it.

    PEFT keeps the original module next to the one that it trains, so that a resumed adapter uses the table of its base
    model, not its own.

    Args:
        sharded_on: this process's device if FSDP or DeepSpeed will shard the weights, which needs a whole copy.
        narrow: the dtype of a copy; None: the head's own.
    """
    weight = (head.original_module if isinstance(head, AuxiliaryTrainingWrapper) else head).weight
    if sharded_on is not None:
        # FSDP's cpu_ram_efficient_loading reads the weights on the main process alone.
        return broadcast(weight.detach().to(sharded_on, narrow, copy=True))
    return weight.detach().to(narrow or weight.dtype, copy=True) if weight.requires_grad else weight.detach()


def gathered(module: nn.Module) -> Any:
    """A context in which the weights are whole: DeepSpeed ZeRO-3 shards a model while loading it."""
    shards = [parameter for parameter in module.parameters() if hasattr(parameter, "ds_id")]
    if not shards:
        return contextlib.nullcontext()
    import deepspeed

    return deepspeed.zero.GatheredParameters(shards)


def make_cost(
    choice: str,
    head: nn.Module,
    tokenizer: Any,
    sharded_on: torch.device | None = None,
    narrow: torch.dtype | None = None,
    objective: Objective | None = None,
) -> TransportCost | EnergyTable | None:
    """The cost that `EMOConfig.transport_cost` selects; None: 1 - cosine of the current head's rows.

    For the objective Energy, a table in place of a cost; None: that of the current head's rows.

    Args:
        choice: fixed, adaptive, numeric, or a path: see EMOConfig.
        head: the model's head before training, on its device.
        tokenizer: tells which tokens are numbers.
        sharded_on: this process's device if FSDP or DeepSpeed will shard the head; None: it stays whole. A frozen head
            is gathered for each forward and then serves as the table.
        narrow: the dtype of autocast, if it is on: a copy of a trained head need not be wider, and a frozen head is
            cast for each forward and then serves as the table.
        objective: the one that the cost is for; None: EMO.

    Raises:
        InputError: the table cannot be read or has a different vocabulary, or no token is a number.
    """
    trains, is_energy = head.weight.requires_grad, isinstance(objective, Energy)
    if choice == "adaptive" and trains:
        return None
    of_head = choice in ("fixed", "adaptive")
    rebuilt_each_forward = sharded_on is not None or head.weight.dtype != (narrow or head.weight.dtype)
    if of_head and rebuilt_each_forward and not trains and not is_energy:
        return None
    device = head.weight.device if sharded_on is None else sharded_on
    try:
        with gathered(head):
            if of_head or choice == "numeric":
                # An energy's projected rows need no copy of the head.
                table = original_table(head, sharded_on, None if is_energy else narrow)
            else:
                table = load_cost_table(choice).to(device)
            vocabulary = head.weight.shape[0]
            if isinstance(objective, Energy):
                return EnergyTable(table, objective.dim, vocabulary)
            cost = CosineCost(table, vocabulary)
            return NumericCost(cost, number_values(tokenizer).to(device)) if choice == "numeric" else cost
    except ValueError as error:
        raise InputError(f"transport_cost {choice}: {error}") from None


class TableRecord:
    """The checksum of a transport cost's table, which a checkpoint stores instead of a copy.

    A fixed cost is created again when a trainer is constructed, so resuming is correct only if the trainer is
    constructed with the model that training began with. Constructed with a checkpoint of a trained head, it would
    silently use a different cost.
    """

    FILE = "transport_cost.json"

    def __init__(self, cost: TransportCost | EnergyTable | None) -> None:
        if isinstance(cost, NumericCost):
            cost = cost.base
        self.checksum = cost.checksum if isinstance(cost, CosineCost | EnergyTable) else None

    def save(self, checkpoint: str) -> None:
        Path(checkpoint).mkdir(parents=True, exist_ok=True)
        (Path(checkpoint) / self.FILE).write_text(json.dumps({"table_checksum": self.checksum}) + "\n")

    def check(self, checkpoint: str) -> None:
        """Raises:
        InputError: the checkpoint was trained with a different table.
        """
        file = Path(checkpoint) / self.FILE
        if file.is_file() and json.loads(file.read_text())["table_checksum"] != self.checksum:
            raise InputError(
                f"{checkpoint}: trained with a different transport cost; construct the trainer with the model that "
                "training began with (not with a checkpoint of it) and the same transport_cost"
            )
