"""Machines to plan for, and the sizes of models and rows that are not here: the tables in data/plans."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from instruct.base.cards import nearest, packaged_folder, read_yaml, validated
from instruct.base.errors import InputError, counted
from instruct.engines.memory import available_gib
from instruct.training.estimate import STEP_EFFICIENCY, ModelShape, copy_speed, matrix_flops, shape_of

FOLDER = "data/plans"
# The fraction of the peak bandwidth with which weights are read while a text is written.
READ_EFFICIENCY = {"cpu": 0.4, "cuda": 0.6}


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
    def operations(self) -> float:
        """FLOP per second of one GPU that are reached."""
        return self.tflops * 1e12 * STEP_EFFICIENCY[self.kind]

    @property
    def reads(self) -> float:
        """Bytes per second of one GPU's memory that are reached."""
        return self.bandwidth * 1e9 * READ_EFFICIENCY[self.kind]

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
    return None if config is None else shape_of(config, name)


def this_machine() -> Machine:
    """This machine, by its measured speed."""
    import torch

    gpu = torch.cuda.is_available()
    return Machine(
        gpus=int(gpu),
        memory_gib=available_gib(),
        tflops=matrix_flops() / 1e12,
        bandwidth=copy_speed() / 1e9,
        usd_per_hour=0,
        source="measured",
    )
