"""EMOTrainer: TRL's SFTTrainer with the objective computed on response tokens, from hidden states."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import fields
from typing import Any

import torch
from trl import SFTConfig, SFTTrainer

from instruct.objectives import CosineCost
from instruct.training.emo_config import EMOConfig
from instruct.training.head import attach_objective, output_head


class EMOTrainer(SFTTrainer):
    """
    A drop-in for [`~trl.SFTTrainer`]: same arguments, same data sets, another objective.

    ```python
    from instruct import EMOConfig, EMOTrainer

    trainer = EMOTrainer(model="meta-llama/Llama-2-7b-hf", args=EMOConfig("out"), train_dataset=dataset)
    trainer.train()
    ```

    An `SFTConfig` is taken too: it trains with EMO's defaults. Logged beside `loss`, each a token-weighted mean since
    the last log: `ce`, `cost`, `ratio`, `clamped_fraction` (of those that the objective has) and
    `mean_token_accuracy`. Values of different objectives are not comparable; `ce` is.

    Raises:
        ValueError: label smoothing, a `compute_loss_func`, another `loss_type`, or a PEFT adapter on the head: the
            objective would be ignored or wrong.
        InputError: the model has no language-model head.
    """

    _tag_names = ["trl", "sft", "emo"]  # noqa: RUF012
    _name = "EMO"

    def __init__(self, model: Any, args: SFTConfig | None = None, **kwargs: Any) -> None:
        if args is None:
            args = EMOConfig()
        elif not isinstance(args, EMOConfig):
            # Not to_dict(): it hides every value whose key ends in "_token".
            args = EMOConfig(**{field.name: getattr(args, field.name) for field in fields(args) if field.init})
        if args.label_smoothing_factor > 0:
            raise ValueError("label_smoothing_factor has no place in a token-level objective; set it to 0")
        if args.loss_type != "nll":
            raise ValueError(f"loss_type={args.loss_type!r} names another loss; choose the objective by `objective`")
        if kwargs.get("compute_loss_func") is not None:
            raise ValueError("compute_loss_func would replace the objective; use SFTTrainer for it")
        super().__init__(model, args, **kwargs)

        base = self.model.get_base_model() if hasattr(self.model, "get_base_model") else self.model
        head = output_head(base)
        objective = args.make_objective()
        cost = None
        if objective.needs_cost and (args.transport_cost == "fixed" or not head.weight.requires_grad):
            trains = head.weight.requires_grad
            cost = CosineCost(head.weight.detach().clone() if trains else head.weight)
        attach_objective(base, objective, cost)
        self._objective = objective
        self._sums: dict[str, dict[str, torch.Tensor]] = {"train": {}, "eval": {}}

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        mode = "train" if self.model.training else "eval"
        inputs = {**inputs, "use_cache": False}
        if self.aux_loss_enabled:
            inputs["output_router_logits"] = True
        outputs = model(**inputs, objective_loss=True, num_items=num_items_in_batch)
        loss = outputs.loss
        if self.args.average_tokens_across_devices and num_items_in_batch is not None:
            # The items were counted over all ranks, and DDP averages the ranks' gradients.
            loss = loss * self.accelerator.num_processes
        if outputs.aux_loss is not None:
            steps = self.current_gradient_accumulation_steps if num_items_in_batch is not None else 1
            loss = loss + self.router_aux_loss_coef * outputs.aux_loss / steps
        sums = self._sums[mode]
        for name, value in vars(outputs.statistics).items():
            sums[name] = sums[name] + value if name in sums else value
        if mode == "train":
            seen = inputs["attention_mask"].sum() if "attention_mask" in inputs else inputs["input_ids"].numel()
            sums["seen"] = sums.get("seen", 0) + torch.as_tensor(seen, device=loss.device, dtype=torch.float64)
        if return_outputs:
            with torch.no_grad():
                return loss, model(**{key: value for key, value in inputs.items() if key != "labels"})
        return loss

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        mode = "train" if self.model.training else "eval"
        sums = {name: self.accelerator.reduce(value).item() for name, value in self._sums[mode].items()}
        self._sums[mode].clear()
        if sums.get("tokens"):
            # A single value each, so that SFTTrainer's own averaging over micro-batches leaves them as they are.
            self._metrics[mode] = {name: [value] for name, value in self._means(sums).items()}
        if "seen" in sums:
            self._total_train_tokens += int(sums["seen"])
            self._metrics[mode]["num_tokens"] = [self._total_train_tokens]
        super().log(logs, start_time)
        self._metrics[mode] = defaultdict(list)

    def _means(self, sums: dict[str, float]) -> dict[str, float]:
        means = {"ce": sums["ce"] / sums["tokens"], "mean_token_accuracy": sums["correct"] / sums["tokens"]}
        if self._objective.needs_cost:
            means["cost"] = sums["cost"] / sums["tokens"]
            means["ratio"] = sums["ratio"] / sums["tokens"]
            if getattr(self._objective, "variant", None) == "pypi":
                means["clamped_fraction"] = sums["clamped"] / sums["tokens"]
        return means
