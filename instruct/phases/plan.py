"""Estimate memory, time and cost of each phase on another machine, with its formula.

Everything is arithmetic: a phase takes the longer of its operations at the machine's peak rate and its bytes at the
peak bandwidth, times what is usually reached of them. Nothing is asked of the hub, and no GPU is needed.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from instruct.base.cards import nearest, packaged_folder, read_yaml, validated
from instruct.base.errors import InputError, counted
from instruct.base.models import compute_dtype
from instruct.base.output import say
from instruct.config import ExperimentConfig
from instruct.data.cards import DatasetCard, load_dataset_card
from instruct.data.evaluation import named_sets
from instruct.data.rows import RowReader
from instruct.engines.base import likely_tokens
from instruct.engines.memory import GIB, available_gib
from instruct.judging.annotators import SHUT_DOWN
from instruct.judging.asking import Judge
from instruct.judging.money import SECONDS_PER_REQUEST
from instruct.training.estimate import (
    QUANTIZED_BYTES,
    STEP_EFFICIENCY,
    ModelShape,
    Sharding,
    copy_speed,
    disk_gib,
    empty_network,
    matrix_flops,
    memory_gib,
    model_shape,
    pass_seconds,
    passes_of,
    shape_of,
    time_words,
    trained_tokens,
)
from instruct.training.options import TrainingOptions
from instruct.training.train import DEFAULT_MAX_LENGTH, train_options

FOLDER = "data/plans"
# The fraction of the bandwidth with which weights are read while a text is written. On a CPU it is that of a copy: a
# step of vLLM with 24 texts of SmolLM2-135M took 0.14 s on two cores of an AMD EPYC, in float32.
READ_EFFICIENCY = {"cpu": 0.2, "cuda": 0.6}
# Until a model computes: imports, weights, vLLM's own start. Only on a CPU is a phase so short that it matters.
START_S = {"cpu": 20, "cuda": 0}


class Machine(BaseModel):
    """A machine, its speed and its price; an entry of data/plans/machines.yaml."""

    model_config = ConfigDict(extra="forbid")

    gpus: int = Field(ge=0)
    memory_gib: float = Field(gt=0)
    tflops: float = Field(gt=0)
    bandwidth: float = Field(gt=0)
    usd_per_hour: float = Field(ge=0)
    source: str = ""

    @property
    def kind(self) -> Literal["cpu", "cuda"]:
        return "cuda" if self.gpus else "cpu"

    @property
    def reads(self) -> float:
        """Bytes per second of one GPU's memory that are reached."""
        return self.bandwidth * 1e9 * READ_EFFICIENCY[self.kind]

    def pass_hours(self, shape: ModelShape, tokens: float) -> float:
        """What a forward pass over tokens takes on one GPU."""
        return pass_seconds(shape, tokens, self.kind, self.tflops * 1e12, self.bandwidth * 1e9) / 3600

    def words(self) -> str:
        """Its hardware for people."""
        gpus = f"{counted(self.gpus, 'GPU')} of" if self.gpus else "no GPU,"
        return f"{gpus} {self.memory_gib:g} GiB, {self.tflops:g} TFLOP/s, {self.bandwidth:,.0f} GB/s"


@functools.cache
def _table(name: str, folder: Path) -> dict[str, Any]:
    """A file of data/plans, with that of the working directory over it."""
    table = read_yaml(packaged_folder("data") / "plans" / name)
    own = folder / FOLDER / name
    if own.is_file() and own.resolve() != (packaged_folder("data") / "plans" / name).resolve():
        for key, value in read_yaml(own).items():
            table[key] = {**table.get(key, {}), **value} if isinstance(value, dict) else value
    return table


def sizes() -> dict[str, Any]:
    """What is assumed of models, rows and answers that are not here."""
    return _table("sizes.yaml", Path.cwd())


def machines() -> dict[str, Machine]:
    """The machines that can be planned for, by name."""
    place = f"{FOLDER}/machines.yaml"
    return {
        name: validated(Machine, content, f"{place}: {name}")
        for name, content in _table("machines.yaml", Path.cwd()).items()
    }


def machine(name: str) -> Machine:
    """A machine by its name.

    Raises:
        InputError: no such machine.
    """
    known = machines()
    if name not in known:
        raise InputError(f"--on {name}: unknown machine{nearest(name, known)}; add it to ./{FOLDER}/machines.yaml")
    return known[name]


def known_config(name: str) -> Any:
    """The transformers config of a model that data/plans/sizes.yaml has; None: it has none."""
    from transformers import AutoConfig

    models = sizes()["models"]
    content = models.get(name)
    while content and "like" in content:
        content = models[content["like"]]
    return AutoConfig.for_model(**content) if content else None


@functools.cache
def known_shape(name: str) -> ModelShape | None:
    """The sizes of a model that data/plans/sizes.yaml has; None: it has none."""
    config = known_config(name)
    return None if config is None else shape_of(empty_network(config, name), name)


def this_machine(dtype: str) -> Machine:
    """This machine, by its measured speed in a dtype."""
    import torch

    gpu = torch.cuda.is_available()
    return Machine(
        gpus=int(gpu),
        memory_gib=available_gib(),
        tflops=matrix_flops(dtype) / 1e12,
        bandwidth=copy_speed() / 1e9,
        usd_per_hour=0,
        source="measured",
    )


MOST_SEQUENCES = 256  # that vLLM writes at a time
WORDS = 1.3  # tokens of an English word


@dataclasses.dataclass(frozen=True)
class PhasePlan:
    """What a phase takes.

    Attributes:
        what: will be done.
        gib: of memory on one GPU, or None if that is another machine's.
        hours: None if they cannot be estimated.
        provider_usd: what is paid beside the machine, to a provider.
        formula: how the hours follow, with what is assumed.
    """

    name: str
    what: str
    gib: float | None
    hours: float | None
    formula: str
    provider_usd: float = 0.0

    def fits(self, on: Machine) -> bool:
        """Whether a GPU, or the machine without one, has the memory."""
        return self.gib is None or self.gib <= on.memory_gib

    def dollars(self, on: Machine) -> float:
        """What the machine and the provider cost; every GPU of a machine is paid for, also where one works."""
        return (self.hours or 0) * on.usd_per_hour + self.provider_usd


def plan(config: ExperimentConfig, on: Machine) -> list[PhasePlan]:
    """What each phase takes on a machine, in their order.

    Raises:
        InputError: the sizes of the base model or the rows are known neither here nor to data/plans/sizes.yaml.
    """
    shape = known_shape(config.model.name) or model_shape(config)
    phases = [_training(config, shape, on)] if config.trained else []
    phases += _answering(config, shape, on)
    phases += _evaluating(config, shape, on)
    return phases + [_judging(config, number, on) for number in range(len(config.judges))]


def print_plan(config: ExperimentConfig, name: str) -> list[dict[str, Any]]:
    """Print what each phase takes on the machine of this name, and the sum; the phases for programs."""
    on = machine(name)
    if config.model.dtype == "auto":
        config = config.computing_in("bfloat16")  # which the table's machines multiply fast
    phases = plan(config, on)
    say(f"machine   {name}: {on.words()}; ${on.usd_per_hour:.2f} an hour, by {FOLDER}/machines.yaml")
    say("estimate  every figure is arithmetic from data sheets, and none was measured")
    if known_shape(config.model.name):
        say(f"model     {config.model.name}: its sizes are those of {FOLDER}/sizes.yaml; the model was not looked up")
    for phase in phases:
        memory = "" if phase.gib is None else f"{phase.gib:.1f} of {on.memory_gib:g} GiB, "
        too_much = "" if phase.fits(on) else "; DOES NOT FIT"
        say(f"{phase.name:9} {phase.what}: {memory}{time_words(phase.hours)}, ${phase.dollars(on):,.2f}{too_much}")
        say(f"            {phase.formula}")
    hours = [phase.hours for phase in phases if phase.hours is not None]
    left_out = "" if len(hours) == len(phases) else "; without the phases that are not estimated"
    if large := list(dict.fromkeys(phase.name for phase in phases if not phase.fits(on))):
        left_out += f"; {' and '.join(large)} {'does' if len(large) == 1 else 'do'} not fit this machine"
    dollars = sum(phase.dollars(on) for phase in phases)
    say(f"total     {time_words(sum(hours))}, ${dollars:,.2f}{left_out}")
    if config.trained:
        shape = known_shape(config.model.name) or model_shape(config)
        say(f"disk      about {disk_gib(config, shape):.1f} GiB for checkpoints and adapters")
    return [dataclasses.asdict(phase) | {"usd": phase.dollars(on), "fits": phase.fits(on)} for phase in phases]


def print_later_phases(config: ExperimentConfig) -> None:
    """Print how long the phases after training take on this machine, as far as that can be estimated."""
    on = this_machine(compute_dtype(config.model))
    try:
        phases = [phase for phase in plan(config, on) if phase.name != "train" and phase.hours is not None]
    except InputError:  # preflight has said what is missing
        return
    if phases:
        shown = ", ".join(f"{phase.name} {time_words(phase.hours)}" for phase in phases)
        say(f"estimate  {shown}; arithmetic from this machine's speed, not measured")


def _millions(shape: ModelShape) -> str:
    return f"{shape.parameters / 1e6:,.0f} M parameters"


def _training(config: ExperimentConfig, shape: ModelShape, on: Machine) -> PhasePlan:
    number, tokens, basis, plain_text = _rows(config)
    arguments = _arguments(config, on, plain_text)
    if arguments.packing and arguments.max_length:
        number, tokens = -(-number * tokens // arguments.max_length), arguments.max_length
    computed = trained_tokens([tokens] * number, arguments)
    sharding = Sharding(on.gpus, True, True, True) if on.gpus > 1 else Sharding()
    seen = f"{arguments.num_train_epochs:g} epochs of {number:,} rows"
    if arguments.max_steps > 0:
        batch = arguments.per_device_train_batch_size * arguments.gradient_accumulation_steps * arguments.world_size
        seen = f"{arguments.max_steps:,} steps of {counted(batch, 'row')}"
    speed = f"{STEP_EFFICIENCY[on.kind]:.0%} of {on.tflops:.4g} TFLOP/s{' each' if on.gpus > 1 else ''}"
    return PhasePlan(
        "train",
        ", ".join(config.trained) + (f" on {on.gpus} GPUs (FSDP2)" if on.gpus > 1 else ""),
        sum(memory_gib(config, shape, arguments, sharding).values()),
        passes_of(config.lora is not None) * on.pass_hours(shape, computed) * len(config.trained),
        f"{4 if config.lora else 6} FLOP × {_millions(shape)} × {seen} of {tokens:,} tokens × "
        f"{counted(len(config.trained), 'system')} at {speed}; {basis}",
    )


def _rows(config: ExperimentConfig) -> tuple[int, int, str, bool]:
    """The number of training rows, the mean tokens of one, what they rest on, and whether all are plain text."""
    limit = int(config.train.get("max_length", DEFAULT_MAX_LENGTH))
    number, tokens, words, plain = 0, 0.0, [], True
    for source in config.data.parts:
        reading = source.reading()
        card = reading["card"]
        if card is None and not source.files:
            raise InputError("data: no card and no files; set data.card (see `instruct list data`) or --data.files")
        own = bool(card and card.format == "text")
        rows, mean, basis = _rows_of(card, reading, limit)
        rows = min(rows, source.limit or rows)
        number, tokens, plain = number + rows, tokens + rows * (mean if own else min(mean, limit)), plain and own
        words.append(basis)
    return number, max(1, round(tokens / max(1, number))), ", ".join(dict.fromkeys(words)), plain


def _rows_of(card: DatasetCard | None, reading: dict[str, Any], limit: int) -> tuple[int, int, str]:
    """The number of a source's rows and their tokens: counted if it is here, else as data/plans/sizes.yaml says."""
    if card is None or reading["files"] or card.source.files is not None:
        texts = [str([*raw.fields.values()]) for raw in RowReader(**reading).raw_rows()]
        return len(texts), sum(map(likely_tokens, texts)) // max(1, len(texts)), "rows counted, at 4 bytes a token"
    known = sizes()["data"].get(card.name, {})
    number = known.get("rows") or card.rows
    if not known or number is None:
        raise InputError(
            f"data {card.name}: its rows are not here, and their length is unknown; add it to "
            f"./{FOLDER}/sizes.yaml, or give --data.files"
        )
    tokens = known["cut"] if limit <= 512 and "cut" in known else known["tokens"]
    return number, tokens, f"length of {card.name}'s rows measured {known['measured']}"


def _arguments(config: TrainingOptions, on: Machine, plain_text: bool) -> SimpleNamespace:
    """The trainer's arguments as they would be on that machine; EMOConfig itself looks at this one."""
    from instruct.training.emo_config import EMOConfig

    defaults = {field.name: field.default for field in dataclasses.fields(EMOConfig)}
    options = train_options(config, plain_text, gpu=bool(on.gpus))
    return SimpleNamespace(**(defaults | options | {"use_cpu": not on.gpus, "world_size": max(1, on.gpus)}))


@dataclasses.dataclass(frozen=True)
class Texts:
    """Texts to be written: their number, the tokens of a prompt and of a text, and how many are written together."""

    number: int
    prompt: int
    new: int
    batch: int = MOST_SEQUENCES

    def phase(self, name: str, what: str, shape: ModelShape, on: Machine, width: float = 2) -> PhasePlan:
        """What writing them takes, by a model whose weights have `width` bytes each."""
        weights = shape.parameters * width
        state = 2 * shape.layers * shape.state * (self.prompt + self.new)  # bytes of keys and values of a whole text
        room = 0.9 * on.memory_gib * GIB - weights
        together = max(1, min(self.batch, MOST_SEQUENCES, self.number, int(room / state)))
        gigabytes = (weights + together * state * (self.prompt + self.new / 2) / (self.prompt + self.new)) / 1e9
        read = gigabytes * 1e9 / on.reads
        computed = on.pass_hours(shape, together) * 3600
        steps = math.ceil(self.number / together) * self.new
        prefill = on.pass_hours(shape, self.number * self.prompt)
        if read >= computed:
            speed = f"{READ_EFFICIENCY[on.kind]:.0%} of {on.bandwidth:,.0f} GB/s"
            takes = f"reads {gigabytes:.1f} GB (weights, keys, values) at {speed}"
        else:
            takes = f"2 FLOP × {_millions(shape)} a text at {STEP_EFFICIENCY[on.kind]:.0%} of {on.tflops:g} TFLOP/s"
        formula = f"{steps:,} steps of {counted(together, 'text')}, each {takes}"
        hours = (START_S[on.kind] + steps * max(read, computed)) / 3600 + prefill
        return PhasePlan(name, what, (weights + together * state) / GIB, hours, formula)


def _answering(config: ExperimentConfig, shape: ModelShape, on: Machine) -> Iterator[PhasePlan]:
    assumed = sizes()["assumed"]
    systems = counted(len(config.systems), "system")
    if config.answers:
        options = config.answers.generation
        prompts = _prompts(config)
        new = min(options.max_new_tokens, assumed["answer_tokens"])
        texts = Texts(prompts * len(config.systems), assumed["prompt_tokens"], new, options.batch_size)
        what = f"{counted(prompts, 'prompt')}, {systems}, {new} tokens each (assumed; limit {options.max_new_tokens:,})"
        yield texts.phase("answer", what, shape, on)
    if config.continuations:
        continued = config.continuations
        card = load_dataset_card(continued.card) if continued.card else None
        cuts = [continued.cut, *([card.cut] if card and card.cut else [])]
        prefix, most = (
            _tokens(next((value for cut in cuts if (value := getattr(cut, name))), None))
            for name in ("prefix", "continuation")
        )
        new = continued.generation.max_new_tokens or most
        number = (continued.limit or assumed["prefixes"]) * continued.samples * len(continued.seeds)
        texts = Texts(number * len(config.systems), prefix, new, continued.generation.batch_size)
        what = f"{texts.number:,} texts of {new} tokens ({systems}{'' if continued.limit else ', prefixes assumed'})"
        yield texts.phase("continue", what, shape, on)


def _tokens(length: str | None) -> int:
    """The tokens of a length such as `20 words`."""
    number, _, unit = (length or "100 tokens").partition(" ")
    return math.ceil(int(number) * (WORDS if unit.startswith("word") else 1))


def _prompts(config: ExperimentConfig) -> int:
    """The number of prompts to answer."""
    answers = config.answers
    assert answers is not None
    if answers.files:
        from instruct.generation.answers import evaluation_set

        return len(evaluation_set(answers).prompts)
    sets = [(load_dataset_card(name), limit) for name, limit in named_sets(answers.eval_set, answers.limit)]
    rows = [(card.rows or sum(1 for _ in RowReader(card).raw_rows()), limit) for card, limit in sets]
    return sum(min(number, limit or number) for number, limit in rows)


def _evaluating(config: ExperimentConfig, shape: ModelShape, on: Machine) -> Iterator[PhasePlan]:
    """Texts and tasks are read by models: 2 FLOP a parameter and token."""
    if config.evaluation and config.evaluation.texts:
        yield _reading_texts(config, shape, on)
    if config.evaluation and (tasks := config.evaluation.tasks):
        names = [*tasks.cards, *tasks.lm_eval, *tasks.forgetting]
        known = {name: size for name, size in sizes()["tasks"].items() if name in names}
        requests = {name: min(size["rows"], tasks.limit or math.inf) * size["labels"] for name, size in known.items()}
        tokens = len(config.systems) * sum(number * known[name]["tokens"] for name, number in requests.items())
        unknown = [name for name in names if name not in known]
        without = f"; without {', '.join(unknown)}, whose sizes are unknown" if unknown else ""
        asked = f"{int(sum(requests.values())):,} requests"
        yield PhasePlan(
            "evaluate",
            f"{counted(len(names), 'task')}, {counted(len(config.systems), 'system')}, {asked} each",
            shape.parameters * 2 / GIB,
            START_S[on.kind] / 3600 + on.pass_hours(shape, tokens),
            f"2 FLOP × {_millions(shape)} × {tokens / 1e6:,.0f} M tokens of prompts (assumed){without}",
        )


def _reading_texts(config: ExperimentConfig, shape: ModelShape, on: Machine) -> PhasePlan:
    options, assumed = config.text_metrics, sizes()["assumed"]
    held_out = sizes()["data"].get(options.held_out.card) if options.held_out and options.held_out.card else None
    continued = (config.continuations and config.continuations.limit) or assumed["prefixes"]
    tokens = held_out["tokens"] * held_out.get("rows", 1) if held_out else 200 * continued
    named = [options.reference_model.name] if options.reference_model else []
    if config.continuations:
        default = "openai-community/gpt2-large" if on.gpus else "smollm2-135m-instruct"
        named.append(options.mauve_model.name if options.mauve_model else default)
    readers = {config.model.name: shape, **{name: known_shape(name) or shape for name in named}}
    parameters = sum(reader.parameters for reader in readers.values())
    hours = START_S[on.kind] / 3600
    hours += sum(on.pass_hours(reader, tokens * len(config.systems)) for reader in readers.values())
    return PhasePlan(
        "evaluate",
        f"{tokens:,} tokens of text (assumed), {counted(len(config.systems), 'system')}, read by {', '.join(readers)}",
        max(reader.parameters for reader in readers.values()) * 2 / GIB,
        hours,
        f"2 FLOP × {parameters / 1e6:,.0f} M parameters of all readers × the tokens of every system",
    )


def _judging(config: ExperimentConfig, number: int, on: Machine) -> PhasePlan:
    judge = Judge(config.judges[number])
    options, card, assumed = judge.options, judge.card, sizes()["assumed"]
    prompts = _prompts(config)
    compared = options.comparisons or config.compared
    orders = 2 if (options.orders or card.order_policy) == "both" else 1
    answer = assumed["answer_tokens"]
    if config.answers:
        answer = min(answer, config.answers.generation.max_new_tokens)
    asked = assumed["judge_prompt_tokens"] + (1 if card.rates_alone else 2) * answer + assumed["prompt_tokens"]
    texts = len({name for pair in compared for name in pair}) if card.rates_alone else len(compared) * orders
    requests = prompts * texts * options.samples
    what = f"{card.name}, {requests:,} requests"
    new = min(card.decoding.max_tokens, assumed["verdict_tokens"])
    if judge.engine == "server":
        price = judge.price
        usd = price.usd(requests * asked, requests * new) if price else 0.0
        hours = math.ceil(requests / options.concurrency) * SECONDS_PER_REQUEST / 3600
        paid = f"${price.input:g} and ${price.output:g} a million tokens" if price else "its price is unknown"
        formula = (
            f"{asked:,} tokens of prompt and {new} of reply (assumed), {paid}; {options.concurrency} at a time, "
            f"{SECONDS_PER_REQUEST:g} s each"
        )
        if card.model in SHUT_DOWN:
            formula += f"; {card.model} is reported to have been shut down ({SHUT_DOWN[card.model]})"
        return PhasePlan("judge", what, None, hours, formula, usd)
    shape = known_shape(card.model)
    if shape is None:
        text = f"the sizes of {card.model} are unknown; add them to ./{FOLDER}/sizes.yaml"
        return PhasePlan("judge", what, None, None, text)
    width = QUANTIZED_BYTES if sizes()["models"].get(card.model, {}).get("bits") == 4 or options.quantization else 2
    if card.protocol == "reward":
        hours = START_S[on.kind] / 3600 + on.pass_hours(shape, requests * (asked - assumed["judge_prompt_tokens"]))
        formula = f"2 FLOP × {_millions(shape)} × {requests:,} answers of {answer} tokens (assumed)"
        return PhasePlan("judge", what, shape.parameters * width / GIB, hours, formula)
    phase = Texts(requests, asked, new).phase("judge", what, shape, on, width)
    formula = f"{phase.formula}; {asked} tokens of prompt and {new} of reply (assumed)"
    return dataclasses.replace(phase, formula=formula)
