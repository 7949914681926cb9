"""EMOTrainer: TRL's SFTTrainer with the objective computed on response tokens, from hidden states."""

from __future__ import annotations

import functools
import math
from collections import defaultdict
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import torch
from torch.distributed.fsdp import MixedPrecisionPolicy
from torch.utils.data import DataLoader
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_callback import TrainerState
from transformers.trainer_utils import EvalLoopOutput
from trl import SFTConfig, SFTTrainer

from instruct.base.errors import InputError, InstructError
from instruct.base.networks import check_whole, record_class
from instruct.data.arrow import RowFolder
from instruct.objectives import Energy, LogitLoss, Objective, ObjectiveStatistics
from instruct.objectives.objective import made_up_tokens
from instruct.training.batches import (
    HostLabelsCollator,
    SeededByEpoch,
    WeightsCollator,
    set_epoch,
    sum_of_weights,
)
from instruct.training.callbacks import StopWithoutImprovement
from instruct.training.chat_labels import check_weighed, is_read_here, label_rows, mask_pictures, warn_of_rows
from instruct.training.checkpoints import missing_state
from instruct.training.checks import check_datasets, check_model, leave_layers_out
from instruct.training.emo_config import EMOConfig
from instruct.training.frozen import TableRecord, make_cost, reference_of
from instruct.training.generation_config import settle_generation_config
from instruct.training.head import attach_objective, output_head
from instruct.training.precision import keep_adapters_in_float32
from instruct.training.processes import use_one_device
from instruct.training.trained import ALL_LINEAR, check_adapter, report_trained, warn_of_end_tokens

# Summed over micro-batches and ranks: the objective's statistics; the auxiliary loss of a mixture of experts and its
# number of micro-batches; the tokens seen, including masked ones.
SUMS = (*(field.name for field in fields(ObjectiveStatistics)), "aux_loss", "batches", "seen")


class NonFiniteLossError(InstructError, FloatingPointError):
    """The loss or the gradient is NaN or infinite, and another step would ruin the weights. Exit code 1."""


def _with_objective(args: SFTConfig | None) -> EMOConfig:
    """The arguments as an EMOConfig; those of an SFTConfig get EMO's defaults."""
    if args is None or isinstance(args, EMOConfig):
        return args or EMOConfig()
    # Not to_dict(): it hides every value whose key ends in "_token".
    values = {field.name: getattr(args, field.name) for field in fields(args) if field.init}
    values["assistant_only_loss"] = values["assistant_only_loss"] or None  # False is SFTConfig's default
    if args.metric_for_best_model == "loss":  # SFTConfig's default
        values |= {"metric_for_best_model": None, "greater_is_better": None}
    return EMOConfig(**values)


def _logged_weights(objective: Objective) -> dict[str, str]:
    """What an objective's weighting has for the log, by the names there."""
    if isinstance(objective, LogitLoss):
        return {}
    weighting, parts = objective.weigh(made_up_tokens(objective)), {"ratio": "ratio", "clamped_fraction": "clamped"}
    return {name: part for name, part in parts.items() if getattr(weighting, part) is not None}


class EMOTrainer(SFTTrainer):
    """
    A drop-in replacement for [`~trl.SFTTrainer`]: same arguments, same data sets, another objective.

    ```python
    from instruct import EMOConfig, EMOTrainer

    trainer = EMOTrainer(model="meta-llama/Llama-2-7b-hf", args=EMOConfig("out"), train_dataset=dataset)
    trainer.train()
    ```

    An `SFTConfig` works too and trains with EMO's defaults. Unlike `SFTTrainer`, it masks chats (`messages`): the loss
    covers every assistant turn with its end token and nothing else, see `train_on` in [`EMOConfig`]. In addition to
    `loss`, it logs `ce`, `cost`, `ratio`, `energy`, `clamped_fraction` (those that the objective has) and
    `mean_token_accuracy`, each a token-weighted mean over all ranks since the last log. Losses of different
    objectives are not comparable; `ce` is.

    A column `weight` of the rows, or a key `weight` of an assistant turn, multiplies the loss of its tokens; what is
    minimized and logged is the mean weighted with it, over the whole batch of an optimizer step. Evaluation counts each
    token of an answer once.
    `eval_loss` and the other evaluation values are token-weighted means over the whole evaluation set;
    `eval_perplexity` is the exponential of `eval_ce`.

    Raises:
        ValueError: label smoothing, a `compute_loss_func`, another `loss_type`, Liger's fused loss, context, sequence
            or tensor parallelism, activation offloading without a GPU, Apple's GPU, weights that train in float16, or
            a PEFT adapter on the head, with all of which the objective would be ignored or wrong.
        InputError: the model has no head to compute the objective from, or the transport cost's table does not fit.
        NonFiniteLossError: the loss or the gradient became NaN or infinite during training or evaluation.
    """

    def __init__(
        self,
        model: Any,
        args: SFTConfig | None = None,
        data_collator: Any = None,
        train_dataset: Any = None,
        eval_dataset: Any = None,
        *positional: Any,
        peft_config: Any = None,
        **named: Any,
    ) -> None:
        args = _with_objective(args)
        check_datasets(train_dataset, eval_dataset, args)
        first: dict[str, Any] = next(iter(train_dataset or ()), {})  # one look: a stream is opened for each
        mask_pictures(args, first)
        use_one_device(args, loads_model=isinstance(model, str))
        network = model
        if isinstance(model, str):
            loading = args.model_init_kwargs or {}
            trusted = loading.get("trust_remote_code", False)
            network = check_whole(model, loading.get("revision"), trusted, wanted=peft_config is not None)
        all_linear = getattr(peft_config, "target_modules", None) == ALL_LINEAR  # PEFT puts names in its place
        left_out = leave_layers_out(peft_config, network, first)

        self._first = train_dataset, first
        self._folder: RowFolder | None = None  # of the rows that are read here
        self._name = args.objective.rpartition(":")[2]  # in TRL's model card
        self._tag_names = ["trl", "sft", self._name]
        super().__init__(
            model, args, data_collator, train_dataset, eval_dataset, *positional, peft_config=peft_config, **named
        )
        # Whatever the model's own forward accepts, this one divides by the tokens of all micro-batches. Otherwise the
        # Trainer counts none and averages the micro-batches' means.
        self.model_accepts_loss_kwargs = True
        self._exchange_float32()
        if args.patience is not None:
            self.add_callback(StopWithoutImprovement(args.patience))

        base = self.model
        if peft_config is not None:
            check_adapter(base)
        if hasattr(base, "get_base_model"):
            record_class(base)
            base = base.get_base_model()
        if getattr(base, "is_quantized", False):
            keep_adapters_in_float32(self.model)
        settle_generation_config(base, self._tokenizer)
        head = output_head(base)
        narrow = torch.bfloat16 if args.bf16 else torch.float16 if args.fp16 else None
        inside = check_model(self, head, narrow)
        if self.accelerator.is_main_process:
            report_trained(self.model, all_linear, left_out)
            warn_of_end_tokens(base, head, self._tokenizer)

        self._objective = objective = args.make_objective()
        cost = None
        if "cost" in objective.needs:
            sharded_on = self.accelerator.device if self.is_fsdp_enabled or self.is_deepspeed_enabled else None
            cost = make_cost(args.transport_cost, head, sharded_on, narrow, objective)
        reference_for = functools.partial(reference_of, self.model) if getattr(objective, "reference", None) else None
        attach_objective(base, objective, cost, args.chunk_rows, reference_for, inside)
        self._logged_weights = _logged_weights(objective)
        self._table = TableRecord(cost)
        self._sums: dict[str, torch.Tensor | None] = {"train": None, "eval": None}
        self._unchecked: tuple[torch.Tensor, str] | None = None  # the last loss, and where it was computed

    def _exchange_float32(self) -> None:
        """Have FSDP2 sum gradients over ranks in float32, as DDP does, and return the model's outputs as they are.

        Accelerate would do both in bfloat16; the outputs are a loss and sums over tokens here.
        """
        plugin: Any = getattr(self.accelerator.state, "fsdp_plugin", None)
        policy: Any = getattr(plugin, "mixed_precision_policy", None)
        if isinstance(policy, MixedPrecisionPolicy):
            plugin.mixed_precision_policy = replace(policy, output_dtype=None, reduce_dtype=torch.float32)

    def _prepare_dataset(
        self, dataset: Any, processing_class: Any, args: Any, packing: bool, formatting_func: Any, dataset_name: str
    ) -> Any:
        trains = dataset is self._first[0]
        first = self._first[1] if trains else next(iter(dataset))
        is_here = formatting_func is None and is_read_here(dataset, first, args, dataset_name)
        if trains:
            check_weighed(first, args, is_here)
        if formatting_func is None and not (is_here and hasattr(dataset, "__len__")):
            warn_of_rows(dataset, first, self._tokenizer, args, dataset_name)
        if is_here:
            self._folder = self._folder or RowFolder(Path(args.output_dir))
            dataset = label_rows(dataset, processing_class, args, dataset_name, self._folder, evaluates=not trains)
        prepared = super()._prepare_dataset(dataset, processing_class, args, packing, formatting_func, dataset_name)
        if hasattr(prepared, "__len__") and not len(prepared):
            raise InputError(
                f"{dataset_name} dataset: no row has a token to train on within max_length {args.max_length}; raise "
                "max_length or fix the data"
            )
        return prepared

    def get_train_dataloader(self) -> DataLoader:
        collator: Any = self.data_collator  # type: ignore[has-type]
        # Batches that the main process reads for all can only have tensors, each of them the same ones.
        dispatched = isinstance(self.train_dataset, torch.utils.data.IterableDataset)
        dispatched = dispatched or bool(self.accelerator.dataloader_config.dispatch_batches)
        wrapped: Any = collator if self._is_vision_dataset else WeightsCollator(collator, always=dispatched)
        if not dispatched:
            wrapped = HostLabelsCollator(wrapped)
        self.data_collator = wrapped
        try:
            return super().get_train_dataloader()
        finally:
            self.data_collator = collator

    def _get_train_sampler(self, *arguments: Any) -> Any:
        sampler = super()._get_train_sampler(*arguments)
        if not hasattr(sampler, "generator"):
            return sampler
        return SeededByEpoch(sampler, self.args.seed if self.args.data_seed is None else self.args.data_seed)

    def _init_training_state(
        self, max_steps: int, steps_per_epoch: int, epochs: int, checkpoint: str | None, trial: Any
    ) -> tuple[int, int]:
        begun = super()._init_training_state(max_steps, steps_per_epoch, epochs, checkpoint, trial)
        if checkpoint is None or hasattr(self.train_dataset, "__len__"):
            return begun
        # The Trainer takes all steps for those of a first pass, whose batches it then skips. The checkpoint's epoch
        # counts the passes, and as a fraction the batches of the last one.
        saved = TrainerState.load_from_json(str(Path(checkpoint) / TRAINER_STATE_NAME))
        fraction, passes = math.modf(saved.epoch or 0.0)
        return int(passes), round(fraction * saved.max_steps * self.args.gradient_accumulation_steps)

    def _run_epoch(self, *arguments: Any, epoch: int, train_dataloader: Any, **named: Any) -> None:
        if self.control.should_training_stop or self.state.global_step >= self.state.max_steps:
            self.control.should_training_stop = True  # resumed after the last step; the Trainer would take another
            return
        set_epoch(train_dataloader, epoch)
        super()._run_epoch(*arguments, epoch=epoch, train_dataloader=train_dataloader, **named)

    def _get_num_items_in_batch(self, batch_samples: list[Any], device: torch.device) -> torch.Tensor | None:
        """What the summed loss is divided by: the tokens' weights, over all micro-batches and processes."""
        if not batch_samples:
            return None
        total = torch.stack([sum_of_weights(batch) for batch in batch_samples]).sum().to(device)
        if self.accelerator.num_processes > 1:
            total = self.accelerator.gather(total).sum()
        return total

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        mode = "train" if self.model.training else "eval"
        inputs = {**inputs, "use_cache": False}
        if self.aux_loss_enabled:
            inputs["output_router_logits"] = True
        host_labels = inputs.pop("host_labels", None)
        if mode == "eval":
            labels = self._without_repeated_rows(inputs["labels"])
            host_labels = host_labels if labels is inputs["labels"] else None
            inputs["labels"] = labels
        outputs = model(**inputs, objective_loss=True, num_items=num_items_in_batch, host_labels=host_labels)
        if mode == "train" and not outputs.loss.requires_grad:
            raise InputError(
                f"{self.model.config.model_type}: its loss depends on no weight that is trained; train more, or use "
                "another model"
            )
        total = outputs.statistics.value
        if outputs.aux_loss is not None:
            total = total + outputs.aux_loss.detach()
        self._unchecked = total, mode
        # DeepSpeed and LOMO update the weights during backward. The others are checked after it, see `training_step`.
        if mode == "eval" or self.is_deepspeed_enabled or "lomo" in self.args.optim:
            self.check_finite()
        # A model that a device_map splits returns them on its last device.
        device = self.args.device
        loss = outputs.loss.to(device)
        if self.args.average_tokens_across_devices and num_items_in_batch is not None:
            # The items were counted over all ranks, and DDP averages the ranks' gradients.
            loss = loss * self.accelerator.num_processes
        aux_loss = seen = torch.zeros((), dtype=torch.float64, device=device)
        if outputs.aux_loss is not None:
            steps = self.current_gradient_accumulation_steps if num_items_in_batch is not None else 1
            loss = loss + self.router_aux_loss_coef * outputs.aux_loss.to(device) / steps
            aux_loss = outputs.aux_loss.detach().to(aux_loss)
        if mode == "train":
            # Not torch.tensor: the host would wait for its copy to the GPU.
            mask = inputs.get("attention_mask")
            seen = torch.full_like(seen, inputs["input_ids"].numel()) if mask is None else mask.sum().to(seen)
        statistics = [value.to(device) for value in vars(outputs.statistics).values()]
        sums = torch.stack([*statistics, aux_loss, torch.ones_like(aux_loss), seen])  # by SUMS
        earlier = self._sums[mode]
        self._sums[mode] = sums if earlier is None else earlier + sums
        if return_outputs:
            with torch.no_grad():
                of_loss = ("labels", "token_weights")
                return loss, model(**{key: value for key, value in inputs.items() if key not in of_loss})
        return loss

    def training_step(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        loss = super().training_step(*args, **kwargs)
        # Before the optimizer's step. Before backward, the host would have to wait for the forward.
        self.check_finite()
        return loss

    def check_finite(self) -> None:
        """Raises:
        NonFiniteLossError: the loss that `compute_loss` computed last is NaN or infinite.
        """
        if self._unchecked is None:
            return
        (total, mode), self._unchecked = self._unchecked, None
        if torch.isfinite(total):
            return
        step = self.state.global_step
        when = f"training step {step + 1}" if mode == "train" else f"evaluation after step {step}"
        raise NonFiniteLossError(
            f"{when}: the loss is {total.item()}; lower learning_rate, check the rows, or train in bfloat16 or float32"
        )

    def evaluation_loop(
        self,
        dataloader: DataLoader,
        description: str,
        prediction_loss_only: bool | None = None,
        ignore_keys: list[str] | None = None,
        metric_key_prefix: str = "eval",
    ) -> EvalLoopOutput:
        self._sums["eval"] = None
        output = super().evaluation_loop(dataloader, description, prediction_loss_only, ignore_keys, metric_key_prefix)
        sums = self._take_sums("eval")
        if sums["tokens"]:
            means = self._means(sums)
            # The Trainer's own loss is a mean over batches.
            means["loss"] = sums["value"] / sums["tokens"] + self.router_aux_loss_coef * means.get("aux_loss", 0.0)
            # Beyond float64's range it is infinite.
            means["perplexity"] = math.exp(means["ce"]) if means["ce"] < 709 else math.inf
            output.metrics.update({f"{metric_key_prefix}_{name}": value for name, value in means.items()})
        return output

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        if self.model.training:
            sums = self._take_sums("train")
            if sums["tokens"]:
                # A single value each, so that SFTTrainer's averaging over micro-batches does not change them.
                self._metrics["train"] = {name: [value] for name, value in self._means(sums).items()}
            if sums["seen"]:
                self._total_train_tokens += int(sums["seen"])
                self._metrics["train"]["num_tokens"] = [self._total_train_tokens]
        super().log(logs, start_time)
        self._metrics["train"] = defaultdict(list)

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        super()._save_optimizer_and_scheduler(output_dir)
        if self.args.should_save:
            self._table.save(output_dir)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        if checkpoint is not None:
            if lacks := missing_state(Path(checkpoint)):
                raise ValueError(
                    f"{checkpoint}: has no state of the {lacks} (save_only_model), so that a resumed training "
                    "would differ from one that was not stopped; train from the start, or from a checkpoint that has it"
                )
            self._table.check(checkpoint)
            counted = [entry["num_tokens"] for entry in self.state.log_history if "num_tokens" in entry]
            self._total_train_tokens = counted[-1] if counted else 0  # SFTTrainer would count from 0 again
        super()._load_optimizer_and_scheduler(checkpoint)

    def _get_grad_norm(self, model: Any, grad_norm: Any = None) -> Any:
        grad_norm = super()._get_grad_norm(model, grad_norm)
        # Under fp16 the scaler handles an overflow itself, by skipping the step.
        if self.accelerator.scaler is None and not torch.isfinite(torch.as_tensor(grad_norm)):
            raise NonFiniteLossError(
                f"training step {self.state.global_step + 1}: the loss is finite and its gradient is not; "
                "lower learning_rate, or train in float32 to find the layer"
            )
        return grad_norm

    def _take_sums(self, mode: str) -> dict[str, float]:
        """The sums of this mode over all ranks, in one exchange; they restart at 0."""
        zeros = torch.zeros(len(SUMS), dtype=torch.float64, device=self.accelerator.device)
        own, self._sums[mode] = self._sums[mode], None
        whole = self.accelerator.reduce(zeros if own is None else own.to(zeros))
        return dict(zip(SUMS, whole.tolist(), strict=True))

    def _means(self, sums: dict[str, float]) -> dict[str, float]:
        def mean(name: str) -> float:
            return sums[name] / sums["tokens"]

        means = {"ce": mean("ce"), "mean_token_accuracy": mean("correct")}
        if isinstance(self._objective, Energy):
            means["energy"] = mean("cost")
        else:
            means |= {name: mean(name) for name in ("cost", "error_norm", "entropy") if name in self._objective.needs}
        means |= {name: mean(part) for name, part in self._logged_weights.items()}
        if self.aux_loss_enabled:
            means["aux_loss"] = sums["aux_loss"] / sums["batches"]
        return means

    def _without_repeated_rows(self, labels: torch.Tensor) -> torch.Tensor:
        """The labels, with those rows masked that accelerate repeated to fill the last batch of all ranks.

        As in gather_for_metrics, the first `remainder` of the ranks' concatenated rows are real.
        """
        state = self.accelerator.gradient_state
        if self.accelerator.num_processes == 1 or not state.end_of_dataloader or state.remainder <= 0:
            return labels
        row = self.accelerator.process_index * len(labels) + torch.arange(len(labels), device=labels.device)
        return labels.masked_fill((row >= state.remainder)[:, None], -100)
