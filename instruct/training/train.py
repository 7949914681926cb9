"""Training one system of an experiment: encoded rows in, a safetensors adapter with a model card out."""

from __future__ import annotations

import contextlib
import functools
import json
import math
import os
import shutil
from pathlib import Path
from typing import Any

from instruct.base.errors import InputError, one_line, refused_by_library
from instruct.base.files import changed_file, replace_folder, sha256_of, write_atomically
from instruct.base.models import ModelOptions, compute_dtype, model_path
from instruct.base.networks import new_network
from instruct.engines.memory import free_memory, peak_gib, restart_peak
from instruct.run.directory import RunDirectory
from instruct.training.estimate import uses_fsdp
from instruct.training.model_card import hyperparameters, model_card, name_base_model
from instruct.training.objective_names import is_own
from instruct.training.options import LoraOptions, SystemOptions, TrainingOptions
from instruct.training.precision import round_saved_weights, weights_dtype
from instruct.training.processes import from_main, save_whole
from instruct.training.rows import DEFAULT_MAX_LENGTH, PACKING, TrainingRows, unreachable_model

LOG = "training_log.json"


def train_options(
    train: dict[str, Any], model: ModelOptions, adapted: bool, evaluates: bool, plain_text: bool = False
) -> dict[str, Any]:
    """The experiment's `train` section over this package's defaults, which pack `plain_text`.

    Args:
        adapted: whether an adapter trains, or the whole model.
        evaluates: whether there are rows to evaluate on.

    Raises:
        InputError: float16 without a GPU; evaluations and checkpoints at different steps, so that the best evaluation
            might have no checkpoint.
    """
    import torch

    gpu = torch.cuda.is_available()
    dtype = compute_dtype(model)
    if dtype == "float16" and not gpu and not train.get("bf16"):
        raise InputError("model.dtype: float16 trains with loss scaling, which needs a GPU; leave it out")
    evaluation = {}
    if evaluates:  # the checkpoint of the best evaluation is kept and becomes the result
        strategy, steps = train.get("eval_strategy", "steps"), train.get("eval_steps", train.get("save_steps", 100))
        if strategy == "no":
            raise InputError("train.eval_strategy: is no, but the config has evaluation data; remove one of them")
        best = train.get("load_best_model_at_end", True)
        if best and strategy == "steps" and train.get("save_steps", steps) != steps:
            raise InputError(
                f"train.save_steps: is {train['save_steps']} and train.eval_steps {steps}; make them equal, so that "
                "the best evaluation has a checkpoint, or set train.load_best_model_at_end to false"
            )
        evaluation = {
            "eval_strategy": strategy,
            "eval_steps": steps,
            "save_strategy": strategy if best else "steps",
            "save_steps": steps,
            "load_best_model_at_end": best,
            "per_device_eval_batch_size": train.get("per_device_train_batch_size", 8),
        }
    return {
        "max_length": DEFAULT_MAX_LENGTH,
        "bf16": dtype == "bfloat16" and not train.get("fp16"),
        "fp16": dtype == "float16" and not train.get("bf16"),
        "use_cpu": not gpu,
        # Recomputing activations trades time for GPU memory; a CPU has memory to spare and no time.
        "gradient_checkpointing": gpu,
        "learning_rate": 2e-4 if adapted else 2e-5,
        "lr_scheduler_type": "cosine",
        "warmup_steps": 0.03,
        "logging_steps": 10,
        "save_strategy": "steps",
        "save_steps": 100,
        "save_total_limit": 1,
        "report_to": "tensorboard",
        "disable_tqdm": False,
        # Otherwise FSDP2 keeps whole gradients on every GPU until the last micro-batch.
        **({"accelerator_config": {"gradient_accumulation_kwargs": {"sync_each_batch": True}}} if uses_fsdp() else {}),
        **(PACKING if plain_text else {}),
        **evaluation,
        **train,
    }


def trainer_arguments(config: TrainingOptions, system: SystemOptions, output: Path, plain_text: bool = False) -> Any:
    """EMOConfig for one system.

    Raises:
        InputError: EMOConfig refuses a value.
    """
    from instruct.training.emo_config import EMOConfig

    adapted, evaluates = config.lora is not None, config.data.evaluates
    if not evaluates:
        for key in ("patience", "eval_strategy", "eval_on_start", "load_best_model_at_end"):
            if config.train.get(key) not in (None, False, "no"):
                raise InputError(f"train.{key}: needs evaluation data; set data.eval_files or data.eval_fraction")
    own = system.model_dump(include={"seed", "learning_rate"}, exclude_none=True)
    _check_numbers({**config.train, **own})
    options = train_options(config.train, config.model, adapted, evaluates, plain_text) | own
    options["run_name"] = f"{options.get('run_name') or config.name}-{output.name}"  # a tracker's run per system
    try:
        arguments = EMOConfig(
            output_dir=str(output),
            **system.emo_config(),
            model_init_kwargs={
                **model_arguments(config.model),
                "dtype": weights_dtype(config.model, adapted),
            },
            **options,
        )
    except (TypeError, ValueError, ArithmeticError, OSError, ImportError) as error:  # ImportError: deepspeed is missing
        raise InputError(f"train: {one_line(error)}") from None
    arguments.prompt_loss_weight = 0.0  # the labels have the weights
    return arguments


# Arguments of EMOConfig that are more than 0, which it does not check.
_POSITIVE = ("per_device_train_batch_size", "per_device_eval_batch_size", "gradient_accumulation_steps", "max_length")


def _check_numbers(options: dict[str, Any]) -> None:
    """Refuse numbers with which no training is defined."""
    for key, value in options.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise InputError(f"train.{key}: is {value}; give a finite number")
        if key in _POSITIVE and isinstance(value, int | float) and value < 1:
            raise InputError(f"train.{key}: is {value}; give 1 or more")


def model_arguments(model: ModelOptions) -> dict[str, Any]:
    """The arguments of from_pretrained."""
    passed = {"dtype", "trust_remote_code", "revision", "attn_implementation"}
    # A pickle can run code.
    return {**model.model_dump(include=passed, exclude_none=True), "use_safetensors": True}


def quantization_arguments(model: ModelOptions) -> dict[str, Any]:
    """The arguments of BitsAndBytesConfig. FSDP and ZeRO-3 shard 4-bit weights only if they are stored as floats."""
    import torch

    dtype = getattr(torch, compute_dtype(model))
    return {
        "load_in_4bit": True,
        "bnb_4bit_quant_type": "nf4",
        "bnb_4bit_compute_dtype": dtype,
        "bnb_4bit_quant_storage": dtype,
    }


def make_trainer(
    model: ModelOptions, lora: LoraOptions | None, arguments: Any, data: TrainingRows, from_scratch: bool = False
) -> Any:
    """An EMOTrainer over encoded rows, whose checkpoints go to the arguments' `output_dir`."""
    import torch
    from safetensors import SafetensorError

    from instruct.training.emo_trainer import EMOTrainer

    quantization = None
    if model.quantization == "4bit":
        if not torch.cuda.is_available():
            raise InputError("model.quantization: 4bit needs a GPU (bitsandbytes); remove it to train on a CPU")
        from transformers import BitsAndBytesConfig

        quantization = BitsAndBytesConfig(**quantization_arguments(model))
    os.environ.setdefault("TENSORBOARD_LOGGING_DIR", str(Path(arguments.output_dir) / "tensorboard"))
    named = f"model.name: {model.name}"
    with refused_by_library(f"{named}: transformers, TRL or PEFT does not take it", "use another model"):
        try:
            return EMOTrainer(
                random_model(model.name, arguments) if from_scratch else model_path(model.name),
                arguments,
                train_dataset=data.encoded.dataset(),
                eval_dataset=data.eval_encoded.dataset() if data.eval_encoded else None,
                processing_class=data.tokenizer,
                peft_config=_peft_config(lora),
                quantization_config=quantization,
            )
        except OSError as error:
            raise unreachable_model(model.name, error) from None
        except SafetensorError as error:
            raise InputError(
                f"{named}: its weights are damaged ({one_line(error, 200)}); copy the model again"
            ) from error
        except ValueError as error:  # refused by EMOTrainer, TRL or PEFT
            raise InputError(f"train: {one_line(error)}") from error


def _peft_config(lora: LoraOptions | None) -> Any:
    from peft import LoraConfig

    return LoraConfig(**lora.lora_config()) if lora else None


def plan_network(lora: LoraOptions | None, network: Any) -> tuple[Any, list[str]]:
    """What training would make of a network without weights, which is changed; and what stays frozen, and why.

    Raises:
        InputError: PEFT refuses the adapter for this model.
    """
    from instruct.training.checks import leave_layers_out
    from instruct.training.trained import planned_network

    peft_config = _peft_config(lora)
    left_out = leave_layers_out(peft_config, network)
    return planned_network(network, peft_config), left_out


def random_model(name: str, arguments: Any) -> Any:
    """A model of the same architecture with random weights, drawn with the arguments' seed."""
    import torch
    from transformers import AutoConfig, set_seed

    chosen = arguments.model_init_kwargs
    arguments.model_init_kwargs = None  # of a model that the trainer would load
    loaded = AutoConfig.from_pretrained(
        model_path(name), **{key: chosen[key] for key in ("revision", "trust_remote_code") if key in chosen}
    )
    set_seed(arguments.seed)
    return new_network(
        loaded,
        dtype=getattr(torch, chosen["dtype"]),
        attn_implementation=chosen.get("attn_implementation"),
        trust_remote_code=chosen["trust_remote_code"],
    )


def train_system(config: TrainingOptions, name: str, run: RunDirectory, data: TrainingRows) -> dict[str, Any]:
    """Train the system `name` of an experiment into `run`, unless that is done.

    An interrupted training resumes at its last complete checkpoint, with the rows, order, optimizer and random states
    of an uninterrupted one. It starts again if its rows or the number of processes have changed. If several processes
    train, each has to call this function; the main one writes.

    Returns:
        The step's results: row counts, final losses, the adapter's hash; empty on all but the main process.
    """
    from accelerate import PartialState

    from instruct.objectives.make import source_of
    from instruct.training.callbacks import KeepCanary, WriteSamples, run_of_its_own, samples_of, steps_shown
    from instruct.training.checkpoints import RecordHashes

    system, step = config.systems[name], f"train/{name}"
    final, work = run.adapters / name, run.folder / "checkpoints" / name
    # Creating them joins the other processes, if `accelerate launch` has started several.
    arguments = trainer_arguments(config, system, work, data.rows.plain_text)
    adapted, evaluates = config.lora is not None, data.eval_encoded is not None
    train = train_options(config.train, config.model, adapted, evaluates, data.rows.plain_text)
    train |= hyperparameters(arguments)
    kept, arguments.save_total_limit = arguments.save_total_limit, None  # RecordHashes removes them
    processes = PartialState()
    main = processes.is_main_process

    code = source_of(system.objective) if is_own(system.objective) else None
    optional = {
        "chat": config.data.rendering().identity(),
        "objective": sha256_of(code) if code else None,
        "evaluation": data.eval_encoded.rows.sha256 if data.eval_encoded else None,
    }
    inputs = {
        "options": config.trained_with(name),
        "data": data.rows.sha256,
        "template": data.template,
        **{key: value for key, value in optional.items() if value},
    }
    done, checkpoint = from_main(functools.partial(_progress, name, run, inputs))
    if done:
        return dict(run.manifest()["steps"][step]["results"])
    ran_with = config.model_dump(mode="json", include={"model", "data", "lora"})
    ran_with |= {"template": data.template, "system": system.model_dump(mode="json"), "train": train}
    recorded: Any = run.step(step, inputs, config=ran_with) if main else contextlib.nullcontext({})
    restart_peak()
    with recorded as results:
        os.environ["TENSORBOARD_LOGGING_DIR"] = str(run.folder / "tensorboard" / name)
        arguments.eval_on_start = arguments.eval_on_start and checkpoint is None
        trainer = make_trainer(config.model, config.lora, arguments, data, config.from_scratch)
        if data.eval_encoded:
            samples = samples_of(data.eval_encoded, config.data.eval_samples)
            trainer.add_callback(WriteSamples(trainer, samples, run.folder / "samples" / f"{name}.jsonl"))
        trainer.add_callback(RecordHashes(kept))
        keeper = KeepCanary(trainer, data.encoded, None if config.lora else compute_dtype(config.model))
        trainer.add_callback(keeper)
        with run_of_its_own(trainer), steps_shown(trainer, name):
            trainer.train(resume_from_checkpoint=checkpoint)
        making = final.with_name(f".{name}.making")
        if main:
            shutil.rmtree(making, ignore_errors=True)
        save_whole(trainer, making)
        if main:
            if not config.lora:
                round_saved_weights(making, compute_dtype(config.model))
            if keeper.made:
                keeper.made.save(making)
            if code:
                shutil.copyfile(code, making / "objective.py")
            name_base_model(config.model.name, making)
            results |= _results(trainer, data, making)
            write_atomically(making / "README.md", model_card(config, name, results, train))
            replace_folder(final, making)
        del trainer, keeper
        free_memory()
    if main:
        shutil.rmtree(work, ignore_errors=True)
    processes.wait_for_everyone()
    return results


def _progress(name: str, run: RunDirectory, inputs: dict[str, Any]) -> tuple[bool, str | None]:
    """Whether a system is trained; otherwise, the last complete checkpoint of its training on the same inputs.

    Raises:
        InputError: the weights have changed since they were trained, or the objective's code since training began.
    """
    from accelerate import PartialState

    from instruct.training.checkpoints import find_best_checkpoint, last_complete_checkpoint

    step, work = f"train/{name}", run.folder / "checkpoints" / name
    if run.is_done(step, inputs) and (run.adapters / name).is_dir():
        check_weights(run, name)
        return True, None
    begun = run.manifest()["steps"].get(step)
    code = inputs.get("objective")
    if begun and begun["inputs"].get("objective", code) != code:
        objective = inputs["options"]["systems"][name]["objective"]
        raise InputError(
            f"system {name}: the code of {objective} has changed since {run.folder} began to train with it; restore "
            "it, or start a run with another `name`"
        )
    if begun and begun["inputs"] != inputs:
        shutil.rmtree(work, ignore_errors=True)  # of a training on different rows, or one to make again
    checkpoint = last_complete_checkpoint(work, PartialState().num_processes)
    if checkpoint:
        find_best_checkpoint(Path(checkpoint))
    return False, checkpoint


def _results(trainer: Any, data: TrainingRows, folder: Path) -> dict[str, Any]:
    """What a training's step has for results, with the hashes of the files in `folder`; puts the log there."""
    from instruct.training.callbacks import evaluation_summary

    write_atomically(folder / LOG, json.dumps(trainer.state.log_history, indent=1) + "\n")
    (folder / "training_args.bin").unlink(missing_ok=True)  # a pickle, which can run code when loaded
    history = [entry for entry in trainer.state.log_history if "loss" in entry]
    return {
        **data.made_of(),
        "steps": trainer.state.global_step,
        "epochs": round(trainer.state.epoch or 0.0, 4),
        "processes": trainer.args.world_size,
        "peak_gib": peak_gib(),
        "first": history[0] if history else None,
        "last": history[-1] if history else None,
        **({"evaluation": evaluation_summary(trainer.state, data)} if data.eval_encoded else {}),
        # The card is for people, who may change it.
        "sha256": {
            path.name: sha256_of(path)
            for path in sorted(folder.iterdir())
            if path.is_file() and path.name != "README.md"
        },
    }


def check_weights(run: RunDirectory, name: str) -> None:
    """Refuse weights that are not those that the run recorded when they were trained.

    Raises:
        InputError: a file is missing or has changed.
    """
    folder, record = run.adapters / name, run.manifest()["steps"].get(f"train/{name}", {})
    hashes = record.get("results", {}).get("sha256", {})
    if changed := changed_file(folder, {file: digest for file, digest in hashes.items() if file != LOG}):
        raise InputError(
            f"{folder / changed}: was modified after training (its hash differs from manifest.json's); restore it, or "
            f"delete {folder} to train again"
        )
