"""Several GPUs and a single process; a model that is spread over several devices."""

from __future__ import annotations

import torch
from accelerate import PartialState
from tiny import CONFIGS, make_trainer, quiet_config, tiny_model
from transformers import AutoModelForCausalLM, LlamaForCausalLM, TrainingArguments

from instruct.training.processes import use_one_device


def test_a_model_named_by_path_is_loaded_onto_one_device(tmp_path, monkeypatch):
    """TRL asks transformers to spread it over all devices ("auto") when it sees a GPU."""
    asked = []
    load = LlamaForCausalLM.from_pretrained

    def recording_load(*args, **kwargs):
        if kwargs["device_map"] != "meta":  # its keys are checked without weights
            asked.append(kwargs["device_map"])
        return load(*args, **{**kwargs, "device_map": None})

    monkeypatch.setattr(LlamaForCausalLM, "from_pretrained", recording_load)
    AutoModelForCausalLM.from_config(CONFIGS["llama"](True)).save_pretrained(tmp_path / "model")
    with_gpu = type("WithGpu", (PartialState,), {"device": property(lambda self: torch.device("cuda"))})
    monkeypatch.setattr("trl.trainer.utils.PartialState", with_gpu)
    trainer = make_trainer(tmp_path, str(tmp_path / "model"))
    assert asked == [None]  # the Trainer moves it to its device, here the CPU
    monkeypatch.setattr(TrainingArguments, "device", property(lambda self: torch.device("cuda:0")))
    use_one_device(trainer.args, loads_model=False)
    assert trainer.args.model_init_kwargs == {"device_map": None}
    trainer.args.model_init_kwargs = None
    use_one_device(trainer.args, loads_model=True)
    assert trainer.args.model_init_kwargs == {"device_map": "cuda:0"}


def test_a_given_device_map_is_kept(tmp_path):
    args = quiet_config(tmp_path, model_init_kwargs={"device_map": "auto", "dtype": "auto"})
    use_one_device(args, loads_model=True)
    assert args.model_init_kwargs == {"device_map": "auto", "dtype": "auto"}


def test_gpus_that_one_process_does_not_use_are_left_alone(tmp_path, monkeypatch):
    """The Trainer would copy the model to all of them (torch.nn.DataParallel), which TRL refuses."""
    config = quiet_config(tmp_path, per_device_train_batch_size=8)
    config._n_gpu = 2
    use_one_device(config, loads_model=False)
    assert config.n_gpu == 1
    assert config.train_batch_size == 8


def test_the_loss_is_on_the_devices_of_the_arguments(tmp_path, monkeypatch):
    """A model that a device_map splits returns it on its last device; here that is the CPU, and the first is `meta`."""
    trainer = make_trainer(tmp_path, tiny_model())
    batch = trainer._prepare_inputs(next(iter(trainer.get_train_dataloader())))
    monkeypatch.setattr(TrainingArguments, "device", property(lambda self: torch.device("meta")))
    loss = trainer.compute_loss(trainer.model, batch, num_items_in_batch=torch.tensor(10))
    assert loss.device.type == "meta"
    assert trainer._sums["train"].device.type == "meta"
