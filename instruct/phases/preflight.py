"""What an experiment needs and will cost, checked and printed before anything is written."""

from __future__ import annotations

import contextlib
import itertools
import shutil
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from instruct.base.errors import InputError, Problems, counted
from instruct.base.machine import check_gpu_is_usable
from instruct.base.models import compute_dtype
from instruct.base.output import say
from instruct.config import ExperimentConfig, packaged_configs
from instruct.data.arrow import numbers
from instruct.data.evaluation import EvalSet, answers_of, load_answers
from instruct.data.mixture import part_line
from instruct.data.options import data_label
from instruct.data.prefixes import PrefixSet
from instruct.data.sources import RawRow
from instruct.data.stream import SAMPLE
from instruct.engines.memory import GIB, available_gib
from instruct.generation.answers import evaluation_set
from instruct.generation.batches import local_kind
from instruct.generation.continuations import config_prefixes, lengths, prefixes_text
from instruct.judging.asking import Judge
from instruct.judging.presentations import Answers, joined
from instruct.phases.remedies import judge_flags
from instruct.phases.steps import refusals
from instruct.phases.upload import check_write_access, configured_repositories
from instruct.run.directory import RunDirectory
from instruct.training.estimate import (
    Sharding,
    disk_gib,
    memory_gib,
    model_network,
    shape_of,
    sharding_of,
    time_words,
    training_minutes,
)
from instruct.training.rows import TrainingRows, check_sources, evaluated, load_training_rows
from instruct.training.train import first_trained, plan_network, trainer_arguments


def check_experiment(
    config: ExperimentConfig, folder: Path, phases: Collection[str], redo: Collection[str] = ()
) -> tuple[TrainingRows | None, list[Judge]]:
    """Check everything that the phases need before any of them begins, and print the plan.

    Args:
        folder: the run's.
        phases: those that will run, of instruct.phases.PHASES.
        redo: finished steps that may be made again.

    Returns:
        The training rows, if a system is to be trained, and the config's judges.

    Raises:
        InputErrors: everything that is wrong, each on a line; nothing has been written.
    """
    problems = Problems()
    problems.found += refusals(RunDirectory(folder), config, redo)
    evaluation, data = Evaluation(None, None, []), None
    with problems.collected():
        evaluation = check_evaluation(config, folder, phases)
    if "train" in phases and config.trained:
        with problems.collected():
            data = check_training(config, folder, answers="answer" in phases)
    problems.refuse()
    if {"answer", "judge"} & {*phases}:
        print_evaluation(config, evaluation)
    return data, evaluation.judges


def check_training(config: ExperimentConfig, folder: Path, answers: bool = False) -> TrainingRows:
    """Check access, data, memory and disk, and print what will be trained and for how long.

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
    from instruct.training.trained import report_trained  # imports PEFT

    first = first_trained(config)
    check_gpu(config)
    network, data = _model_and_rows(config, folder)
    shape = shape_of(network, config.model.name)
    planned, left_out = plan_network(config, network)
    if answers:
        _check_served(config, planned)
    arguments = trainer_arguments(config, first, folder / "checkpoints", data.rows.plain_text)
    check_trackers(arguments.report_to)
    repositories = configured_repositories(config)
    if repositories:
        check_write_access(repositories.values())

    sharding = sharding_of(arguments)
    needed = sum(memory_gib(config, shape, arguments, sharding).values())
    available = available_gib()
    disk = disk_gib(config, shape)
    existing = next(parent for parent in folder.absolute().parents if parent.is_dir())
    free = shutil.disk_usage(existing).free / GIB
    # After `accelerate launch` has trained on several GPUs, a single process answers and judges.
    if not all(any((folder / "adapters" / name).glob("*.safetensors")) for name in config.trained):
        check_memory(config, needed, available, sharding)
        if disk > free:
            raise InputError(
                f"{folder}: the run needs about {disk:.1f} GiB of disk and {free:.1f} GiB are free; free some"
            )

    lengths = numbers(data.encoded.trainable, "tokens").tolist()
    blocks = -(-sum(lengths) // arguments.max_length) if arguments.packing and arguments.max_length else 0
    evaluated_on = numbers(data.eval_encoded.trainable, "tokens").tolist() if data.eval_encoded else []
    rows = [arguments.max_length] * blocks or lengths
    minutes = training_minutes(rows, shape, arguments, config.lora is not None, evaluated_on)
    say(f"run       {folder}")
    say(f"disk      about {disk:.1f} GiB of {free:.0f} GiB free")
    size = f"{shape.parameters / 1e6:,.0f} M parameters"
    say(f"model     {config.model.name}: {size}, {_adapter(config)}, {compute_dtype(config.model)}")
    form = f"{sum(lengths):,} tokens of text" if data.rows.plain_text else f"template {data.template}"
    if blocks:
        form += f", packed ({arguments.packing_strategy}) into about {blocks:,} blocks of {arguments.max_length}"
    report_trained(planned, left_out)
    _print_rows(config, data, form, arguments)
    if repositories:
        say(f"upload    {', '.join(repositories.values())}, after training and again with the report")
    trained = ", ".join(config.trained)
    say(f"train     {trained}: estimated {time_words(minutes / 60)} each, {needed:.1f} of {available:.1f} GiB memory")
    return data


def _print_rows(config: ExperimentConfig, data: TrainingRows, form: str, arguments: Any) -> None:
    """Print what will be trained on; `form`: how it is written."""
    streamed = f"streamed, of the first {SAMPLE:,} rows " if data.stream else ""
    counts = ", ".join(f"{n:,} {name.replace('_', ' ')}" for name, n in data.encoded.counts.items() if n)
    say(f"data      {data_label(config.data.model_dump())}: {streamed}{counts}; {form}")
    for part in data.rows.parts:
        say(f"  {part['data']}: {part_line(part)}")
    if data.eval_encoded:
        say(f"evaluate  {evaluated(data)}; {_steps(arguments)}")
    for note in data.notes:
        say(f"note      {note}")


def check_gpu(config: ExperimentConfig) -> None:
    """Refuse a config that needs a GPU on a machine without one, and the CPU of a machine whose GPU cannot be used."""
    import torch

    if not config.train.get("use_cpu"):
        check_gpu_is_usable()
    if config.needs_gpu and not torch.cuda.is_available():
        # A recipe's name goes on with a corpus or a model: continual_llama-7b.
        names = [name.removesuffix("_smollm2") for name in packaged_configs() if name.endswith("_smollm2")]
        small = sorted((f"{name}_smollm2" for name in names if f"{config.name}_".startswith(f"{name}_")), key=len)
        instead = f"`instruct run {small[-1]}` is this experiment" if small else "`instruct run demo` is"
        raise InputError(
            f"config {config.name}: needs a GPU and this machine has none; {instead} for a CPU, and "
            "`--needs_gpu false` tries it on the CPU anyway"
        )


def check_memory(config: ExperimentConfig, needed: float, available: float, sharding: Sharding) -> None:
    """Refuse a training that needs more memory than a process has.

    Raises:
        InputError: it does; the message names what would need less.
    """
    if needed <= available:
        return
    remedies = ["lower train.per_device_train_batch_size or train.max_length", "use lora or model.quantization 4bit"]
    if not config.lora:
        if not sharding.weights:
            launch = "accelerate launch --config_file recipes/configs/accelerate/fsdp2.yaml"
            remedies.insert(0, f"spread it over several GPUs ({launch}, see docs/distributed.md)")
        elif sharding.processes > 1:
            remedies.insert(0, "use more GPUs (--num_processes)")
        remedies.insert(1, "set train.optim adamw_torch_8bit and train.optim_args bf16_stochastic_round=True")
    on_gpus = f" on each of {sharding.processes} GPUs" if sharding.processes > 1 else ""
    raise InputError(
        f"config {config.name}: training needs about {needed:.0f} GiB of memory{on_gpus} and {available:.0f} GiB are "
        f"free; {', or '.join(remedies)}"
    )


def _model_and_rows(config: ExperimentConfig, folder: Path) -> tuple[Any, TrainingRows]:
    """The model without weights and the training rows; what is wrong with either is reported at once."""
    problems = Problems()
    with problems.collected():
        network = model_network(config)
        shape_of(network, config.model.name)
    if problems.found:
        with problems.collected():
            check_sources(config.data)
        problems.refuse()
    return network, load_training_rows(config, folder)


@dataclass(frozen=True)
class Evaluation:
    """What will be answered and continued, and who judges.

    `prompts` and `prefixes` are None if there are none, or they are not needed yet and cannot be read.
    """

    prompts: EvalSet | None
    prefixes: PrefixSet | None
    judges: list[Judge]


def check_evaluation(config: ExperimentConfig, folder: Path, phases: Collection[str]) -> Evaluation:
    """Check prompts, comparisons and judges before anything is trained; `folder`: the run's.

    Args:
        phases: those that will run. What only later calls need must be valid, but need not be available yet: the
            model of a judge, or an evaluation set on the Hub.

    Raises:
        InputErrors: everything that is wrong, each on a line.
    """
    problems = Problems()
    answers, now = config.answers, bool({"answer", "judge"} & {*phases})
    if now:
        with problems.collected():
            _check_engine(config)
    prompts: EvalSet | None = None
    prefixes: PrefixSet | None = None
    if answers and (now or "train" in phases):
        with problems.collected() if now or answers.files else contextlib.suppress(InputError):
            prompts = evaluation_set(answers)
    if config.continuations and {"answer", "train"} & {*phases}:
        needed = "answer" in phases or config.continuations.files
        with problems.collected() if needed else contextlib.suppress(InputError):
            prefixes = config_prefixes(config.model, config.continuations)
            lengths(prefixes, config.continuations)
    if "evaluate" in phases and config.cluster and config.evaluation and config.evaluation.tasks:
        with problems.collected():
            raise InputError("cluster: tasks are asked on this machine alone; leave cluster out, or evaluation.tasks")
    judges = []
    for number, options in enumerate(config.judges):
        with problems.collected(), judge_flags(config, number):
            judges.append(Judge(options, where=config.cluster))
            if now:
                judges[-1].settle_dtype(RunDirectory(folder))
                judges[-1].check()
                if options.budget_usd is None and judges[-1].costs_money:
                    raise InputError(
                        f"judge {judges[-1].card.name}: costs money; set --budget-usd DOLLARS, a limit for the whole "
                        "run"
                    )
    judged = itertools.chain.from_iterable(options.comparisons or config.compared for options in config.judges)
    for pair in dict.fromkeys([*config.comparisons, *judged]):
        with problems.collected():
            _check_comparison(pair, prompts if "answer" in phases else None, folder)
    problems.refuse()
    return Evaluation(prompts, prefixes, judges)


def _check_engine(config: ExperimentConfig) -> None:
    for section, asked in (("answers", config.answers), ("continuations", config.continuations)):
        if asked is None:
            continue
        engine = asked.generation.engine
        if config.lora and config.lora.use_dora and engine != "transformers":
            raise InputError(
                f"config {config.name}: vLLM does not support DoRA adapters; set {section}.generation.engine to "
                "transformers"
            )
        if config.model.quantization and engine == "vllm":
            raise InputError(
                f"config {config.name}: vLLM cannot load a {config.model.quantization} model; set "
                f"{section}.generation.engine to transformers or auto"
            )


def _check_served(config: ExperimentConfig, planned: Any) -> None:
    """Refuse an adapter that the engine which is to answer does not serve, by the network that training will make."""
    if not getattr(getattr(planned, "active_peft_config", None), "target_parameters", None):
        return
    for section, asked in (("answers", config.answers), ("continuations", config.continuations)):
        if asked and not asked.generation.base_url and local_kind(config.model, asked.generation) == "vllm":
            raise InputError(
                f"config {config.name}: vLLM does not serve adapters of experts' parameters (PEFT's target_parameters) "
                f"beside a model; set {section}.generation.engine to transformers, or train alone, merge, and let the "
                "merged model answer"
            )


def _check_comparison(pair: tuple[str, str], prompts: EvalSet | None, folder: Path) -> None:
    """Refuse a file that does not answer the prompts, and `baseline` for prompts without answers of their own."""
    shown = " against ".join(pair)
    files = [name for name in pair if name.endswith(".json")]
    for name in files:
        rows = load_answers(name)
        if prompts and len(files) == 1:
            asked = [row for prompt in prompts.prompts for row in prompt.answered([""] * (1 + len(prompt.later)), "")]
            raw = [RawRow(prompts.name, number, row) for number, row in enumerate(asked, start=1)]
            joined(Answers(name, rows), Answers(f"of {prompts.name}", answers_of(raw, "")))
    kept = (folder / "outputs" / "baseline.json").is_file()
    if "baseline" in pair and prompts and prompts.baseline is None and not kept:
        raise InputError(
            f"comparisons: {shown}: {prompts.name} has no answers of its own; give its rows an output, or compare with "
            "a system or a file of answers"
        )


def print_evaluation(config: ExperimentConfig, evaluation: Evaluation) -> None:
    """Print what will be answered, continued and judged."""
    if evaluation.prompts and config.answers:
        limit = config.answers.generation.max_new_tokens
        count = counted(len(evaluation.prompts.prompts), "prompt")
        say(f"answer    {evaluation.prompts.name}: {count}, at most {counted(limit, 'token')} each")
    if evaluation.prefixes and config.continuations:
        say(f"continue  {prefixes_text(evaluation.prefixes, config.continuations)}")
    for judge in evaluation.judges:
        card, options = judge.card, judge.options
        orders = "both orders" if (options.orders or card.order_policy) == "both" else "one order"
        shown = "each answer alone" if card.rates_alone else orders
        comparisons = counted(len(options.comparisons or config.compared), "comparison")
        samples = f", {options.samples} samples" if options.samples > 1 else ""
        say(f"judge     {card.name} ({card.model}), {shown}{samples}, {comparisons}")
    if not evaluation.judges and config.answers:
        say("judge     none: add one under judges, or run `instruct judge --judge NAME` afterwards")


def _steps(arguments: Any) -> str:
    """How often a training evaluates, and what becomes of the best evaluation."""
    every = f"every {arguments.eval_steps:g} steps" if arguments.eval_strategy == "steps" else "after every epoch"
    if not arguments.load_best_model_at_end:
        return every
    return f"{every}; the checkpoint with the best {arguments.metric_for_best_model} is kept"


def _adapter(config: ExperimentConfig) -> str:
    if not config.lora:
        return "full fine-tuning"
    kind = "QLoRA" if config.model.quantization else "DoRA" if config.lora.use_dora else "LoRA"
    return f"{kind} rank {config.lora.r}"
