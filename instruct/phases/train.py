"""The train phase: every system but the base becomes an adapter; one process at a time trains a system."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from instruct.base.errors import InputError, Problems, counted
from instruct.base.machine import check_gpu_is_usable
from instruct.base.models import ModelOptions, compute_dtype
from instruct.base.output import say
from instruct.config import ExperimentConfig, packaged_configs
from instruct.data.arrow import numbers
from instruct.data.options import data_label
from instruct.data.rows import RowSet
from instruct.engines.cluster import Where
from instruct.engines.memory import GIB, available_gib
from instruct.generation.options import AnswerOptions, EngineConfig
from instruct.generation.replies import local_kind
from instruct.phases.steps import Step
from instruct.run.directory import RunDirectory
from instruct.run.lock import adapter_of, only_process
from instruct.training.estimate import (
    Sharding,
    disk_gib,
    memory_gib,
    model_network,
    shape_of,
    sharding_of,
    steps_of_training,
)
from instruct.training.options import LoraOptions
from instruct.training.rows import TrainingRows, check_sources, evaluated, load_training_rows
from instruct.training.train import plan_network, trainer_arguments


class Training(Step):
    """Every system but the base becomes an adapter, or a whole model."""

    name = "train"

    def inputs(self, run: RunDirectory) -> Iterator[tuple[str, dict[str, Any]]]:
        for name in self.config.trained:
            yield f"train/{name}", {"options": self.config.trained_with(name)}

    def has_checkpoints(self, run: RunDirectory, name: str) -> bool:
        return any((run.folder / "checkpoints" / name.removeprefix("train/")).glob("checkpoint-*"))

    def check(self, run: RunDirectory, phases: Collection[str]) -> TrainingRows | None:
        if self.name not in phases or not self.config.trained:
            return None
        return check_training(self.config, run.folder, answers="answer" in phases)

    def make(self, run: RunDirectory, read: TrainingRows | None) -> None:
        """Train every system that is not trained yet, after counting the overlap with the evaluation prompts, and
        remove the rows' files.

        Of the processes of `accelerate launch`, the main one holds a system's lock for all.

        Raises:
            InputError: another process trains a system of this run.
        """
        if read is None:
            return
        from instruct.training.train import train_system

        if self.config.answers:
            record_overlap(self.config.answers, run, read.rows)
        for name in self.config.trained:
            with _only_launch(run, name):
                train_system(self.config, name, run, read)
        read.close()


@contextlib.contextmanager
def _only_launch(run: RunDirectory, system: str) -> Iterator[None]:
    """Hold the lock of a system's adapter for all processes of a launch; a refusal ends each of them."""
    from instruct.training.processes import from_main

    with contextlib.ExitStack() as held:
        from_main(lambda: held.enter_context(only_process(run, adapter_of(system))))
        yield


def record_overlap(answers: AnswerOptions, run: RunDirectory, rows: RowSet) -> None:
    """Record and print how many prompts of the evaluation set are in the training data, unless that is recorded."""
    from accelerate import PartialState

    from instruct.data.overlap import find_overlap, overlap_text
    from instruct.generation.answers import evaluation_set

    if not PartialState().is_main_process:
        return
    try:
        evaluation = evaluation_set(answers)
    except InputError as error:  # training does not need the prompts
        say(f"overlap   not counted: {error}")
        return
    inputs = {"data": rows.sha256, "prompts": evaluation.sha256}
    if not run.is_done("overlap", inputs):
        with run.step("overlap", inputs) as results:
            results |= find_overlap([prompt.instruction for prompt in evaluation.prompts], rows)
    say(f"overlap   {overlap_text(run.manifest()['steps']['overlap']['results'])}")


def check_training(config: ExperimentConfig, folder: Path, answers: bool = False) -> TrainingRows:
    """Check access, data, memory and disk, and print what will be trained.

    Args:
        folder: the run's.
        answers: whether the systems will answer, too.

    Returns:
        The rows that it read, for training.

    Raises:
        InputError: no GPU for a config that needs one, no access to the model, unreadable rows, too little memory or
            disk, nothing to train.
    """
    from instruct.training.callbacks import check_trackers  # imports transformers
    from instruct.training.frozen import FULL_TRAINING  # imports PEFT
    from instruct.training.trained import ALL_LINEAR, report_trained  # imports PEFT

    first = config.first_trained()
    check_gpu(config.name, config.needs_gpu, bool(config.train.get("use_cpu")))
    problems = Problems()  # of the model and of the rows: both are told
    with problems.collected():
        network = model_network(config.model)
        shape = shape_of(network, config.model.name)
    if problems.found:
        with problems.collected():
            check_sources(config.data)
        problems.refuse()
    data = load_training_rows(config.data, config.model, config.train, folder)
    planned, left_out = plan_network(config.lora, network)
    if answers and getattr(getattr(planned, "active_peft_config", None), "target_parameters", None):
        if config.answers:
            _check_served("answers", config.answers.generation, config.model, config.cluster)
        if config.continuations:
            _check_served("continuations", config.continuations.generation, config.model, config.cluster)
    arguments = trainer_arguments(config, first, folder / "checkpoints", data.rows.plain_text)
    for name, system in config.trained.items():  # before one of them trains
        objective = trainer_arguments(config, system, folder / "checkpoints", data.rows.plain_text).make_objective()
        if config.lora is None and getattr(objective, "reference", None):  # it reads the model under an adapter
            raise InputError(f"systems.{name}: {FULL_TRAINING}")
    check_trackers(arguments.report_to)

    sharding = sharding_of(arguments)
    needed = sum(memory_gib(config.model, config.lora, shape, arguments, sharding).values())
    available = available_gib()
    disk = disk_gib(config.model, config.lora, shape, len(config.trained))
    existing = next(parent for parent in folder.absolute().parents if parent.is_dir())
    free = shutil.disk_usage(existing).free / GIB
    # After `accelerate launch` has trained on several GPUs, a single process answers and judges.
    if not all(any((folder / "adapters" / name).glob("*.safetensors")) for name in config.trained):
        check_memory(needed, available, sharding, lora=config.lora is not None)
        if disk > free:
            raise InputError(
                f"{folder}: the run needs about {disk:.1f} GiB of disk and {free:.1f} GiB are free; free some"
            )

    lengths = numbers(data.encoded.trainable, "tokens").tolist()
    blocks = -(-sum(lengths) // arguments.max_length) if arguments.packing and arguments.max_length else 0
    say(f"run       {folder}")
    say(f"disk      about {disk:.1f} GiB of {free:.0f} GiB free")
    size = f"{shape.parameters / 1e6:,.0f} M parameters"
    kind = _adapter(config.lora, config.model.quantization)
    say(f"model     {config.model.name}: {size}, {kind}, {compute_dtype(config.model)}")
    form = f"{sum(lengths):,} tokens of text" if data.rows.plain_text else f"template {data.template}"
    if blocks:
        form += f", packed ({arguments.packing_strategy}) into about {blocks:,} blocks of {arguments.max_length}"
    report_trained(planned, bool(config.lora and config.lora.target_modules == ALL_LINEAR), left_out)
    counts = ", ".join(f"{n:,} {name.replace('_', ' ')}" for name, n in data.encoded.counts.items() if n)
    say(f"data      {data_label(config.data.model_dump())}: {counts}; {form}")
    if data.eval_encoded:
        say(f"evaluate  {evaluated(data)}; {_steps(arguments)}")
    for note in data.notes:
        say(f"note      {note}")
    steps = f"{'about ' if blocks else ''}{counted(steps_of_training(blocks or len(lengths), arguments), 'step')} each"
    say(f"train     {', '.join(config.trained)}: {steps}, {needed:.1f} of {available:.1f} GiB memory")
    return data


def check_gpu(config: str, needs_gpu: bool, use_cpu: bool) -> None:
    """Refuse a config that needs a GPU on a machine without one, and the CPU of a machine whose GPU cannot be used.

    Args:
        config: its name.
        use_cpu: whether it asks for the CPU.
    """
    import torch

    if not use_cpu:
        check_gpu_is_usable()
    if needs_gpu and not torch.cuda.is_available():
        # A recipe's name goes on with a corpus or a model: continual_llama-7b.
        names = [name.removesuffix("_smollm2") for name in packaged_configs() if name.endswith("_smollm2")]
        small = sorted((f"{name}_smollm2" for name in names if f"{config}_".startswith(f"{name}_")), key=len)
        instead = f"`instruct run {small[-1]}` is this experiment" if small else "`instruct run demo` is"
        raise InputError(
            f"config {config}: needs a GPU and this machine has none; {instead} for a CPU, and "
            "needs_gpu: false tries it on the CPU anyway"
        )


def check_memory(needed: float, available: float, sharding: Sharding, lora: bool) -> None:
    """Refuse a training that needs more memory than a process has, in GiB.

    Raises:
        InputError: it does; the message names what would need less.
    """
    if needed <= available:
        return
    remedies = ["lower train.per_device_train_batch_size or train.max_length", "use lora or model.quantization 4bit"]
    if not lora:
        if not sharding.weights:
            launch = "accelerate launch --config_file recipes/configs/accelerate/fsdp2.yaml"
            remedies.insert(0, f"spread it over several GPUs ({launch}, see docs/cluster.md)")
        elif sharding.processes > 1:
            remedies.insert(0, "use more GPUs (--num_processes)")
    on_gpus = f" on each of {sharding.processes} GPUs" if sharding.processes > 1 else ""
    raise InputError(
        f"training needs about {needed:.0f} GiB of memory{on_gpus} and {available:.0f} GiB are "
        f"free; {', or '.join(remedies)}"
    )


def _check_served(section: str, generation: EngineConfig, model: ModelOptions, where: Where) -> None:
    """Refuse an engine that does not serve adapters of experts' parameters; `section`: the config's that names it."""
    if not generation.base_url and local_kind(model, generation, where) == "vllm":
        raise InputError(
            f"{section}.generation.engine: vLLM does not serve adapters of experts' parameters (PEFT's "
            "target_parameters) beside a model; set it to transformers, or train alone, merge, and let the merged "
            "model answer"
        )


def _steps(arguments: Any) -> str:
    """How often a training evaluates, and what becomes of the best evaluation."""
    every = f"every {arguments.eval_steps:g} steps" if arguments.eval_strategy == "steps" else "after every epoch"
    if not arguments.load_best_model_at_end:
        return every
    return f"{every}; the checkpoint with the best {arguments.metric_for_best_model} is kept"


def _adapter(lora: LoraOptions | None, quantization: str | None) -> str:
    if not lora:
        return "full fine-tuning"
    kind = "QLoRA" if quantization else "DoRA" if lora.use_dora else "LoRA"
    return f"{kind} rank {lora.r}"
