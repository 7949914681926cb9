"""Estimate memory, time and cost of each phase on another machine, with its formula.

Everything is arithmetic: a phase takes the longer of its operations at the machine's peak rate and its bytes at the
peak bandwidth, times what is usually reached of them. Nothing is asked of the hub, and no GPU is needed.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from instruct.base.cards import nearest, packaged_folder, read_yaml, validated
from instruct.base.errors import InputError, counted
from instruct.config import ExperimentConfig
from instruct.data.cards import load_dataset_card
from instruct.data.evaluation import named_sets
from instruct.data.rows import RowReader
from instruct.engines.memory import GIB, available_gib
from instruct.training.estimate import (
    STEP_EFFICIENCY,
    ModelShape,
    copy_speed,
    empty_network,
    matrix_flops,
    model_shape,
    pass_seconds,
    shape_of,
)

FOLDER = "data/plans"
# The fraction of the bandwidth with which weights are read while a text is written. On a CPU it is that of a copy: a
# step of vLLM with 24 texts of SmolLM2-135M took 0.14 s on two cores of an AMD EPYC, in float32.
READ_EFFICIENCY = {"cpu": 0.2, "cuda": 0.6}


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
        return f"{gpus} {self.memory_gib:.3g} GiB, {self.tflops:.4g} TFLOP/s, {self.bandwidth:,.0f} GB/s"


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


def start_hours(on: Machine, *gigabytes: float) -> float:
    """What imports, the engine's own start, and gigabytes read from or written to the disk take."""
    speeds = sizes()["speeds"]
    return (speeds["start_s"][on.kind] + sum(gigabytes) / speeds["disk_gb_per_s"]) / 3600


def machines() -> dict[str, Machine]:
    """The machines that can be planned for, by name."""
    place = f"{FOLDER}/machines.yaml"
    return {
        name: validated(Machine, content, f"{place}: {name}")
        for name, content in _table("machines.yaml", Path.cwd()).items()
    }


def full_name(name: str) -> str:
    """The name of a machine, of which a beginning or a part that no other has is enough: `4090`, `a100`.

    Raises:
        InputError: no such machine, or several.
    """
    known = machines()
    part = re.sub(r"[^a-z0-9]", "", name.lower())
    plain = {full: re.sub(r"[^a-z0-9]", "", full) for full in known}
    same = [full for full in known if full == name]
    begun = [full for full in known if part and plain[full].startswith(part)]
    within = [full for full in known if part and part in plain[full]]
    if alike := next((names for names in (same, begun, within) if len(names) == 1), None):
        return alike[0]
    if name not in known:
        raise InputError(f"`on` {name}: unknown machine{nearest(name, known)}; add it to ./{FOLDER}/machines.yaml")
    return name


def machine(name: str) -> Machine:
    """A machine by its name; raises as `full_name`."""
    return machines()[full_name(name)]


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


def base_shape(config: ExperimentConfig) -> ModelShape:
    """The sizes of a config's base model.

    Raises:
        InputError: they are known neither here nor to data/plans/sizes.yaml.
    """
    return known_shape(config.model.name) or model_shape(config)


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
class Cost:
    """What a phase takes.

    Attributes:
        what: will be done.
        gib: of memory on one GPU, or None if that is another machine's.
        hours: None if they cannot be estimated.
        formula: how the hours follow, with what is assumed.
        provider_usd: what is paid beside the machine, to a provider.
        weights: gigabytes of the models that it loads, by name.
    """

    name: str
    what: str
    gib: float | None
    hours: float | None
    formula: str
    provider_usd: float = 0.0
    weights: Mapping[str, float] = dataclasses.field(default_factory=dict)

    def fits(self, on: Machine) -> bool:
        """Whether a GPU, or the machine without one, has the memory."""
        return self.gib is None or self.gib <= on.memory_gib

    def dollars(self, on: Machine) -> float:
        """What the machine and the provider cost; every GPU of a machine is paid for, also where one works."""
        return (self.hours or 0) * on.usd_per_hour + self.provider_usd


def millions(shape: ModelShape) -> str:
    return f"{shape.parameters / 1e6:,.0f} M parameters"


@dataclasses.dataclass(frozen=True)
class Texts:
    """Texts to be written: their number, the tokens of a prompt and of a text, and how many are written together."""

    number: int
    prompt: int
    new: int
    batch: int = MOST_SEQUENCES

    def phase(self, name: str, what: str, model: str, shape: ModelShape, on: Machine, width: float = 2) -> Cost:
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
            takes = f"2 FLOP × {millions(shape)} a text at {STEP_EFFICIENCY[on.kind]:.0%} of {on.tflops:g} TFLOP/s"
        formula = f"{steps:,} steps of {counted(together, 'text')}, each {takes}"
        hours = start_hours(on, weights / 1e9) + steps * max(read, computed) / 3600 + prefill
        memory = (weights + together * state) / GIB
        return Cost(name, what, memory, hours, formula, weights={model: weights / 1e9})


def prompts_of(config: ExperimentConfig) -> int:
    """The number of prompts to answer."""
    answers = config.answers
    assert answers is not None
    if answers.files:
        from instruct.generation.answers import evaluation_set

        return answers.samples * len(evaluation_set(answers).prompts)
    sets = [(load_dataset_card(name), limit) for name, limit in named_sets(answers.eval_set, answers.limit)]
    rows = [(card.rows or sum(1 for _ in RowReader(card).raw_rows()), limit) for card, limit in sets]
    return answers.samples * sum(min(number, limit or number) for number, limit in rows)


def length_tokens(length: str | None) -> int:
    """The tokens of a length such as `20 words`."""
    number, _, unit = (length or "100 tokens").partition(" ")
    return math.ceil(int(number) * (WORDS if unit.startswith("word") else 1))
