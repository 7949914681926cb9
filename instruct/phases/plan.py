"""Estimate what experiments take on this machine or on another: each phase, its sum, and where it fits."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from instruct.base.errors import InputError
from instruct.base.models import EMBEDDED_MODEL, compute_dtype
from instruct.base.output import say
from instruct.config import ExperimentConfig, load_config, named_configs
from instruct.judging.work import JudgingMode
from instruct.phases.answer import Answering
from instruct.phases.costs import (
    FOLDER,
    Cost,
    Machine,
    base_shape,
    full_name,
    known_shape,
    machines,
    sizes,
    this_machine,
)
from instruct.phases.evaluate import Evaluating
from instruct.phases.judge import Judging
from instruct.phases.steps import Step
from instruct.phases.train import Training
from instruct.training.estimate import disk_gib, money_words, time_words


def steps_of(config: ExperimentConfig, mode: JudgingMode | None = None) -> list[Step]:
    """The steps of an experiment, in order."""
    return [kind(config, mode or JudgingMode()) for kind in (Training, Answering, Evaluating, Judging)]


def plan(config: ExperimentConfig, on: Machine) -> list[Cost]:
    """What each phase takes on a machine, in their order, with the models on its disk.

    Raises:
        InputError: the sizes of the base model or the rows are known neither here nor to data/plans/sizes.yaml.
    """
    return [cost for step in steps_of(config) for cost in step.cost(on)]


def download(phases: Iterable[Cost]) -> Cost:
    """What the models of these phases take to be downloaded, each once, to a machine that has none of them."""
    weights = {name: size for phase in phases for name, size in phase.weights.items()}
    missing = {name: size for name, size in weights.items() if name != EMBEDDED_MODEL and not Path(name).exists()}
    speed = sizes()["speeds"]["download_gb_per_s"]
    gigabytes = sum(missing.values())
    what = ", ".join(missing) or "nothing"
    return Cost("download", what, None, gigabytes / speed / 3600, f"{gigabytes:.1f} GB at {speed:g} GB/s (assumed)")


@dataclasses.dataclass(frozen=True)
class Plan:
    """What one config or several take on a machine: the download, if the machine is another one, and the phases.

    `disk_gib`: of checkpoints and adapters; 0 if nothing is trained.
    """

    on: Machine
    phases: list[Cost]
    disk_gib: float = 0.0

    @property
    def too_large(self) -> list[Cost]:
        """The phases that do not fit the machine."""
        return [phase for phase in self.phases if not phase.fits(self.on)]

    @property
    def hours(self) -> float:
        return sum(phase.hours or 0 for phase in self.phases)

    @property
    def dollars(self) -> float:
        return sum(phase.dollars(self.on) for phase in self.phases)

    def total(self) -> str:
        """Hours and dollars of a config that fits, without what cannot be estimated; else what does not fit."""
        if large := self.too_large:
            most = max(large, key=lambda phase: phase.gib or 0)
            return f"does not fit: {most.name} needs {math.ceil(most.gib or 0)} GiB"
        left_out = dict.fromkeys(phase.what.partition(",")[0] for phase in self.phases if phase.hours is None)
        without = f"; without {', '.join(left_out)}" if left_out else ""
        price = f", {money_words(self.dollars)}" if self.dollars else ""
        return f"{time_words(self.hours)}{price}{without}"

    def summary(self) -> dict[str, Any]:
        """For programs."""
        phases = [
            dataclasses.asdict(phase) | {"usd": phase.dollars(self.on), "fits": phase.fits(self.on)}
            for phase in self.phases
        ]
        return {"fits": not self.too_large, "hours": self.hours, "usd": self.dollars, "phases": phases}


def make_plan(config: ExperimentConfig, on: Machine, here: bool = False) -> Plan:
    """The plan of a config on this machine (`here`), or on one of data/plans/machines.yaml without any model yet."""
    if config.model.dtype == "auto" and not here:
        config = config.computing_in("bfloat16")  # which the table's machines multiply fast
    phases = plan(config, on)
    disk = disk_gib(config, base_shape(config)) if config.trained else 0.0
    return Plan(on, phases if here else [download(phases), *phases], disk)


def print_plans(configs: Mapping[str, ExperimentConfig], name: str | None = None) -> dict[str, Any]:
    """Print what each phase of a config takes on the machine of this name (None: this one), or what several configs do.

    Args:
        configs: by the names that their lines begin with.

    Returns:
        The same for programs: the machine, the plans with all phases, hours and dollars of the configs that fit.

    Raises:
        InputError: no such machine, or sizes that are not known.
    """
    if name is None:
        on = this_machine(compute_dtype(next(iter(configs.values())).model))
        say(f"machine   this one: {on.words()}")
        say("estimate  arithmetic from its measured speed; nothing was run")
    else:
        on = machines()[name := full_name(name)]
        speeds = sizes()["speeds"]
        start, disk = speeds["start_s"][on.kind], speeds["disk_gb_per_s"]
        say(f"machine   {name}: {on.words()}; ${on.usd_per_hour:.2f} an hour, by {FOLDER}/machines.yaml")
        say("estimate  every figure is arithmetic from data sheets, and none was measured")
        say(f"assumed   a phase computes after {start} s; weights are read and checkpoints written at {disk:g} GB/s")
    plans = {title: make_plan(config, on, here=name is None) for title, config in configs.items()}
    for title, each in plans.items():
        if len(plans) == 1:
            _print_phases(each, configs[title].model.name)
        say(f"{'total' if len(plans) == 1 else title:9} {each.total()}")
        if each.too_large and name:
            say(f"            {_where_it_fits(configs[title], on)}")
    fitting = [each for each in plans.values() if not each.too_large]
    shared = [phase for each in fitting for phase in each.phases if phase.name != "download"]
    whole = Plan(on, ([download(shared)] if name else []) + shared)
    if len(plans) > 1 and fitting:
        counting = "" if len(fitting) == len(plans) else f"; {len(fitting)} of {len(plans)} configs, which fit"
        say(f"total     {whole.total()}{counting}")
        say("            models that several use are downloaded once; give one config to see its phases")
    return {
        "machine": name,
        "plans": {title: each.summary() for title, each in plans.items()},
        "hours": whole.hours if fitting else None,
        "usd": whole.dollars if fitting else None,
    }


def _print_phases(planned: Plan, model: str) -> None:
    """A line and its formula for each phase of a config."""
    on = planned.on
    if known_shape(model):
        say(f"model     {model}: its sizes are those of {FOLDER}/sizes.yaml; the model was not looked up")
    for phase in planned.phases:
        memory = "" if phase.gib is None else f"{phase.gib:.1f} of {on.memory_gib:.3g} GiB, "
        price = f", {money_words(dollars)}" if (dollars := phase.dollars(on)) else ""
        too_much = "" if phase.fits(on) else "; DOES NOT FIT"
        say(f"{phase.name:9} {phase.what}: {memory}{time_words(phase.hours)}{price}{too_much}")
        say(f"            {phase.formula}")
    if planned.disk_gib:
        say(f"disk      about {planned.disk_gib:.1f} GiB for checkpoints and adapters")


def _where_it_fits(config: ExperimentConfig, on: Machine) -> str:
    """The machines that a config fits, and the packaged configs on the same data that fit a machine."""
    elsewhere = [name for name, other in machines().items() if other.gpus and not make_plan(config, other).too_large]
    here = []
    for name in named_configs("*"):
        other = load_config(name)
        if not other.needs_gpu or other.data.card != config.data.card:
            continue
        with contextlib.suppress(InputError):  # its sizes are not known
            if not make_plan(other, on).too_large:
                here.append((other.model.name != config.model.name, name))
    named = ", ".join(name for _, name in sorted(here)) or "none"
    return f"fits {', '.join(elsewhere) or 'no machine of the table'}; this machine fits, on the same data: {named}"


def print_later_phases(config: ExperimentConfig) -> None:
    """Print how long the phases after training take on this machine, as far as that can be estimated."""
    on = this_machine(compute_dtype(config.model))
    try:
        phases = [phase for phase in plan(config, on) if phase.name != "train" and phase.hours is not None]
    except InputError:  # the checks have said what is missing
        return
    if phases:
        estimates = ", ".join(f"{phase.name} {time_words(phase.hours)}" for phase in phases)
        say(f"estimate  {estimates}; arithmetic from this machine's speed, not measured")
