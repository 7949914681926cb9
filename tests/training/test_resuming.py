"""A training that goes on from a checkpoint, in whichever epoch, ends with the weights of one that was not stopped."""

from __future__ import annotations

import shutil

import pytest
import torch
from datasets import Dataset, IterableDataset, interleave_datasets
from peft import LoraConfig
from tiny import make_trainer, tiny_model, tiny_rows


def rows() -> Dataset:
    return tiny_rows(8)


def stream() -> IterableDataset:
    return rows().to_iterable_dataset(num_shards=2)


def shuffled() -> IterableDataset:
    return stream().shuffle(seed=3, buffer_size=5)


def mixed() -> IterableDataset:
    return interleave_datasets([shuffled(), stream()], probabilities=[0.5, 0.5], seed=4)


def trained(folder, dataset, checkpoint=None, tied=True, **arguments) -> dict[str, torch.Tensor]:
    """The weights after three epochs of four steps; of a stream with fewer batches a pass, after more passes."""
    model = tiny_model(tied=tied)
    model.config.attention_dropout = 0.3  # draws random numbers
    defaults = {"num_train_epochs": 3, "max_steps": -1, "per_device_train_batch_size": 2, "learning_rate": 1e-2}
    defaults["lr_scheduler_type"] = "constant"  # a further step would show
    saving = {"save_strategy": "steps", "save_steps": 2, "save_total_limit": None}
    trainer = make_trainer(folder, model, rows=dataset(), **defaults | saving | arguments)
    trainer.train(resume_from_checkpoint=checkpoint)
    return trainer.model.state_dict()


STREAMED = {"max_steps": 12}
STOPPED = {"learning_rate": 1.0, "patience": 1, "eval_strategy": "steps", "eval_steps": 2, "eval_dataset": tiny_rows(3)}
# A head that trains beside an adapter, whose transport cost stays that of the original.
ADAPTER = {"r": 2, "target_modules": ["q_proj"], "task_type": "CAUSAL_LM"}
CASES = {
    "head": (rows, {"tied": False, "peft_config": LoraConfig(**ADAPTER, modules_to_save=["lm_head"])}),
    "part_of_an_epoch": (rows, {"max_steps": 10}),
    "batch_rebalance": (rows, {"train_sampling_strategy": "batch_rebalance"}),
    "packed": (rows, {"packing": True, "max_length": 16}),
    "early_stopped": (rows, STOPPED),
    "workers": (rows, {"dataloader_num_workers": 2}),
    "mixed_streams": (mixed, STREAMED),
    "accumulated_stream": (shuffled, {**STREAMED, "per_device_train_batch_size": 1, "gradient_accumulation_steps": 3}),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_it_does_wherever_it_stopped(tmp_path, case):
    """At the end of the first epoch, and in the second; where it stops early, at its last step."""
    dataset, arguments = CASES[case]
    expected = trained(tmp_path / "whole", dataset, **arguments)
    saved = {int(path.name.removeprefix("checkpoint-")) for path in (tmp_path / "whole").glob("checkpoint-*")}
    for step in {4, 6} & saved or {max(saved)}:
        checkpoint = tmp_path / f"from {step}" / f"checkpoint-{step}"
        shutil.copytree(tmp_path / "whole" / checkpoint.name, checkpoint)
        resumed = trained(checkpoint.parent, dataset, str(checkpoint), **arguments)
        assert [name for name in expected if not torch.equal(resumed[name], expected[name])] == [], f"from step {step}"
