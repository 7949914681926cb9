"""Training one system of an experiment: rows and mask in, a safetensors adapter with a model card out."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import shutil
from pathlib import Path
from typing import Any

from instruct.data.cards import load_dataset_card
from instruct.data.rows import RowSet, load_rows
from instruct.data.tokens import EncodedRows, encode_rows
from instruct.errors import InputError, one_line
from instruct.models import resolve_model
from instruct.runs import RunDirectory, sha256_of, write_atomically
from instruct.training.model_card import model_card
from instruct.training.options import SystemOptions, TrainingOptions
from instruct.training.processes import from_main, save_whole

# SFTConfig's default is 1024; Stanford Alpaca's recipe, and the paper's, is 512.
DEFAULT_MAX_LENGTH = 512


def load_tokenizer(config: TrainingOptions) -> Any:
    """The base model's tokenizer.

    Raises:
        InputError: it cannot be loaded, or has no end token to train on.
    """
    from transformers import AutoTokenizer

    name = resolve_model(config.model.name)
    try:
        tokenizer = AutoTokenizer.from_pretrained(
            name, revision=config.model.revision, trust_remote_code=config.model.trust_remote_code
        )
    except (OSError, ValueError) as error:
        raise unreachable_model(config.model.name, error) from None
    if tokenizer.eos_token_id is None:
        raise InputError(
            f"model {config.model.name}: its tokenizer has no end token, so a model could not learn to stop; "
            "set eos_token in its tokenizer_config.json"
        )
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def unreachable_model(name: str, error: Exception) -> InputError:
    """One line on why a model could not be loaded, with what to do."""
    text = str(error)
    if "gated" in text.lower() or "401" in text or "403" in text:
        return InputError(
            f"model {name}: access is restricted; accept its licence on its hub page and run `hf auth login`, "
            "or take an ungated model (--model.name Qwen/Qwen2.5-7B)"
        )
    return InputError(
        f"model {name}: could not be loaded ({one_line(text.splitlines()[0] if text else type(error).__name__, 160)}); "
        "check the name, the network and HF_TOKEN, or give a local folder"
    )


def training_rows(config: TrainingOptions) -> tuple[RowSet, str]:
    """The experiment's rows in TRL's prompt-completion form, and the template they were rendered with."""
    if config.data.card is None and not config.data.files:
        raise InputError("data: neither a card nor files; give data.card (see `instruct list data`) or --data.files")
    card = load_dataset_card(config.data.card) if config.data.card else None
    template = config.data.template or (card.template if card else "chat")
    return load_rows(card, files=config.data.files, template=template, limit=config.data.limit), template


def encoded_rows(config: TrainingOptions, tokenizer: Any, rows: RowSet) -> EncodedRows:
    """The rows as token ids with labels.

    Raises:
        InputError: no row has a response token left: there is nothing to train on.
    """
    max_length = config.train.get("max_length", DEFAULT_MAX_LENGTH)
    encoded = encode_rows(tokenizer, rows, max_length)
    if not encoded.counts["kept"] and not encoded.counts["truncated"]:
        raise InputError(
            f"data: no row has a response token within max_length {max_length}; raise train.max_length or mend the data"
        )
    return encoded


def trainer_arguments(config: TrainingOptions, system: SystemOptions, output: Path) -> Any:
    """EMOConfig for one system: the experiment's `train` section over this package's defaults.

    Raises:
        InputError: EMOConfig refuses a value.
    """
    import torch

    from instruct.training.emo_config import EMOConfig

    gpu = torch.cuda.is_available()
    arguments: dict[str, Any] = {
        "max_length": DEFAULT_MAX_LENGTH,
        "bf16": config.model.dtype == "bfloat16",
        "use_cpu": not gpu,
        # Recomputing activations trades time for GPU memory; on a CPU there is memory enough and no time.
        "gradient_checkpointing": gpu,
        "learning_rate": 2e-4 if config.lora else 2e-5,
        "lr_scheduler_type": "cosine",
        "warmup_steps": 0.03,
        "logging_steps": 10,
        "save_strategy": "steps",
        "save_steps": 100,
        "save_total_limit": 1,
        "report_to": "tensorboard",
        "disable_tqdm": False,
        **config.train,
    }
    if arguments.get("fp16"):
        arguments["bf16"] = False
    try:
        return EMOConfig(
            output_dir=str(output),
            **system.emo_config(),
            model_init_kwargs=model_arguments(config),
            **arguments,
        )
    except (TypeError, ValueError) as error:
        raise InputError(f"train: {one_line(error)}") from None


def model_arguments(config: TrainingOptions) -> dict[str, Any]:
    """What from_pretrained gets."""
    arguments: dict[str, Any] = {
        "dtype": config.model.dtype,
        "trust_remote_code": config.model.trust_remote_code,
        "use_safetensors": True,  # a pickle can run code
    }
    if config.model.revision:
        arguments["revision"] = config.model.revision
    if config.model.attn_implementation:
        arguments["attn_implementation"] = config.model.attn_implementation
    return arguments


def make_trainer(config: TrainingOptions, arguments: Any, tokenizer: Any, rows: EncodedRows) -> Any:
    """An EMOTrainer over encoded rows. Checkpoints and TensorBoard files go to the arguments' `output_dir`."""
    import torch

    from instruct.training.emo_trainer import EMOTrainer

    quantization = None
    if config.model.quantization == "4bit":
        if not torch.cuda.is_available():
            raise InputError("model.quantization: 4bit needs a GPU (bitsandbytes); remove it to train on this machine")
        from transformers import BitsAndBytesConfig

        quantization = BitsAndBytesConfig(
            load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.bfloat16
        )
    peft_config = None
    if config.lora:
        from peft import LoraConfig

        peft_config = LoraConfig(
            r=config.lora.r,
            lora_alpha=config.lora.alpha,
            lora_dropout=config.lora.dropout,
            target_modules=config.lora.target_modules,
            use_dora=config.lora.use_dora,
            task_type="CAUSAL_LM",
        )
    os.environ.setdefault("TENSORBOARD_LOGGING_DIR", str(Path(arguments.output_dir) / "tensorboard"))
    try:
        return EMOTrainer(
            resolve_model(config.model.name),
            arguments,
            train_dataset=rows.dataset(),
            processing_class=tokenizer,
            peft_config=peft_config,
            quantization_config=quantization,
        )
    except OSError as error:
        raise unreachable_model(config.model.name, error) from None
    except ValueError as error:  # what EMOTrainer, TRL and PEFT refuse
        raise InputError(f"train: {one_line(error)}") from error


def train_system(config: TrainingOptions, name: str, run: RunDirectory) -> dict[str, Any]:
    """Train the system `name` of an experiment into `run`, or find it trained.

    A killed training goes on at its last complete checkpoint: the rows, their order, the optimizer and the random
    states are those of an undisturbed run. It begins anew if the rows' file or the number of processes has changed
    meanwhile. Where several processes train, each has to call it, and the main one alone writes.

    Returns:
        The step's results: row counts, final losses, the adapter's hash; none of them on another than the main process.
    """
    from accelerate import PartialState

    system = config.systems[name]
    final = run.adapters / name
    tokenizer = load_tokenizer(config)
    rows, template = training_rows(config)
    inputs = {
        "model": config.model.model_dump(mode="json"),
        "data": rows.sha256,
        "template": template,
        "system": system.model_dump(mode="json"),
        "train": config.train,
        "lora": config.lora.model_dump(mode="json") if config.lora else None,
    }
    step = f"train/{name}"
    work = run.folder / "checkpoints" / name
    # Making them joins the other processes, where `accelerate launch` has started several.
    arguments = trainer_arguments(config, system, work)
    processes = PartialState()
    main = processes.is_main_process

    def progress() -> tuple[bool, str | None]:
        if run.is_done(step, inputs) and final.is_dir():
            return True, None
        begun = run.manifest()["steps"].get(step)
        if begun and begun["inputs"] != inputs:
            shutil.rmtree(work, ignore_errors=True)  # the checkpoints of a training from other rows
        return False, last_complete_checkpoint(work, processes.num_processes)

    done, checkpoint = from_main(progress)
    if done:
        return dict(run.manifest()["steps"][step]["results"])
    nothing: dict[str, Any] = {}
    recorded = run.step(step, inputs) if main else contextlib.nullcontext(nothing)
    with recorded as results:
        encoded = encoded_rows(config, tokenizer, rows)
        os.environ["TENSORBOARD_LOGGING_DIR"] = str(run.folder / "tensorboard" / name)
        trainer = make_trainer(config, arguments, tokenizer, encoded)
        try:
            trainer.train(resume_from_checkpoint=checkpoint)
        finally:
            close_progress_bar(trainer)
        making = final.with_name(f".{name}.making")
        if main:
            shutil.rmtree(making, ignore_errors=True)
        save_whole(trainer, making)
        if main:
            write_atomically(making / "README.md", model_card(config, name, encoded.counts))
            write_atomically(making / "training_log.json", json.dumps(trainer.state.log_history, indent=1) + "\n")
            (making / "training_args.bin").unlink(missing_ok=True)  # a pickle: nobody should have to load one
            shutil.rmtree(final, ignore_errors=True)
            os.replace(making, final)
            history = [entry for entry in trainer.state.log_history if "loss" in entry]
            results |= {
                "rows": {**rows.counts, **encoded.counts},
                "steps": trainer.state.global_step,
                "processes": processes.num_processes,
                "first": history[0] if history else None,
                "last": history[-1] if history else None,
                "sha256": {path.name: sha256_of(path) for path in sorted(final.glob("*.safetensors"))},
            }
        del trainer
        free_memory()
    if main:
        shutil.rmtree(work, ignore_errors=True)
    processes.wait_for_everyone()
    return results


def close_progress_bar(trainer: Any) -> None:
    """End the bar's line where an error leaves it open, so that the error has its own."""
    for callback in trainer.callback_handler.callbacks:
        if getattr(callback, "training_bar", None) is not None:
            callback.training_bar.close()


def last_complete_checkpoint(folder: Path, processes: int = 1) -> str | None:
    """The newest checkpoint that so many processes wrote to its end; others, and those cut off by a kill, are removed.

    With another number of processes a step takes other rows, and a sharded checkpoint cannot be read at all.
    """
    checkpoints = sorted(folder.glob("checkpoint-*"), key=lambda path: int(path.name.rsplit("-", 1)[1]), reverse=True)
    for checkpoint in checkpoints:
        try:
            json.loads((checkpoint / "trainer_state.json").read_text())  # the Trainer writes it last
            if (len(list(checkpoint.glob("rng_state_*.pth"))) or 1) == processes:  # one process: rng_state.pth
                return str(checkpoint)
        except (OSError, ValueError):
            pass
        shutil.rmtree(checkpoint, ignore_errors=True)
    return None


def free_memory() -> None:
    """Give back what a finished training held, before vLLM asks for it."""
    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
