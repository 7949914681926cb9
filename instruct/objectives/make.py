"""The door to every objective: one of OBJECTIVES, or a user's own, by name or as it is; made, and checked.

A user's own is a function `(logits, labels) -> losses`, or a class or an object with `needs` and `weigh`: see
objective.py. A name of it is `my_loss.py:my_loss`, or `package.module:my_loss`.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from instruct.base.errors import InputError, one_line
from instruct.objectives.arguments import require
from instruct.objectives.built_in import OBJECTIVES
from instruct.objectives.objective import (
    BASE,
    OF_REFERENCE,
    OPTIONAL,
    PROBED,
    TERMS,
    LogitLoss,
    Objective,
    TokenStatistics,
    Weighting,
    made_up_tokens,
)

# Some of the tokens that an objective is checked with, in another order.
_APART = torch.arange(PROBED - 1, PROBED // 2, -1)
SHORTEST = (
    'write `def my_loss(logits, labels): return torch.nn.functional.cross_entropy(logits, labels, reduction="none")`'
)


def make_objective(given: Any, arguments: Mapping[str, Any] | None = None) -> Objective:
    """The objective that `given` is or names, made with `arguments`, checked. A name that has a colon runs that code.

    Raises:
        TypeError, ValueError: arguments that one of OBJECTIVES refuses.
        InputError: nothing of that name, no objective, arguments that it refuses, or one that cannot be trained with.
    """
    name, arguments = name_of(given), arguments or {}
    made = OBJECTIVES[name](**arguments) if name in OBJECTIVES else None
    if made is not None and not isinstance(made, LogitLoss):
        return made  # its class checks the arguments; a function does so when it is called
    with _stated(f"objective {name}: "):
        objective = made or _own(given, arguments)
        _check(objective)
    return objective


def name_of(given: Any) -> str:
    """Of an objective that is not given by its name: that of its function or class."""
    kind = given if hasattr(given, "__qualname__") else type(given)
    return given if isinstance(given, str) else f"{kind.__module__}:{kind.__qualname__}"


def source_of(name: str) -> Path:
    """The file that defines the objective `name`."""
    module = name.rpartition(":")[0]
    return Path(module) if module.endswith(".py") else Path(str(inspect.getsourcefile(_module(module))))


def _own(given: Any, arguments: Mapping[str, Any]) -> Objective:
    if isinstance(given, str):
        module, _, attribute = given.rpartition(":")
        given = getattr(_module(module), attribute, None)
        require(given is not None, f"{module} has no {attribute}; name what it defines")
    if isinstance(given, type):
        with _stated(remedy="; correct objective_args"):
            given, arguments = given(**arguments), {}
    if hasattr(given, "weigh"):
        require(not arguments, "is made already; remove objective_args")
        return given
    with _stated(remedy="; correct objective_args" if arguments else f"; {SHORTEST}"):
        return LogitLoss(given, **arguments)


def _module(module: str) -> ModuleType:
    is_file = module.endswith(".py")
    if is_file and not Path(module).is_file():
        raise InputError(f"{module}: no such file; give the path of a Python file")
    with _stated(remedy=f"; correct {module}"):
        if not is_file:
            return importlib.import_module(module)
        # Registered, so that its dataclasses and what torch.compile makes of it find their module.
        known_as = f"instruct_objective_{Path(module).stem}"
        spec = importlib.util.spec_from_file_location(known_as, module)
        assert spec is not None
        assert spec.loader is not None
        loaded = sys.modules[known_as] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(loaded)
        return loaded


@contextlib.contextmanager
def _stated(before: str = "", remedy: str = "") -> Iterator[None]:
    """Whatever is raised, also by a user's code, as one line between these."""
    try:
        yield
    except (Exception, SystemExit) as error:
        speaks = isinstance(error, ValueError | InputError)
        kind = "" if speaks else f"{type(error).__name__}: "
        raise InputError(f"{before}{kind}{one_line(error)}{remedy}") from error


def _check(objective: Any) -> None:
    """Call it with made-up tokens, and refuse what would end training or train something else in silence.

    Raises:
        ValueError: what an objective must have is missing; weights, losses or gradients that are not finite, or that
            change with the other tokens; statistics that are changed in place; the weight of a term that `needs` does
            not name; or a value that a statistic changes without changing a weight, by other than that statistic's
            weight. Statistics are detached, so that such a part of the value would never be trained.
    """
    require(hasattr(objective, "needs"), "has no needs; name the statistics that weigh reads: needs = ()")
    needs, reference = objective.needs, getattr(objective, "reference", None)
    require(not isinstance(needs, str), f'needs is a text; write needs = ("{one_line(needs, 40)}",)')
    require(reference in (None, BASE), f'reference is {one_line(reference, 40)}; the only one is "base"')
    unknown, known = {*needs} - {*OPTIONAL, *OF_REFERENCE}, ", ".join([*OPTIONAL, *OF_REFERENCE])
    require(not unknown, f"needs {', '.join(sorted(unknown))}; statistics are {known}")
    of_base = {*needs} & {*OF_REFERENCE}
    require(not of_base or reference == BASE, 'needs statistics of the model before training; set reference = "base"')

    given = _made_up(objective)
    parts = _called(objective, given)
    for part, values in parts.items():
        shape = tuple(values.shape) if isinstance(values, Tensor) else type(values).__name__
        require(shape == (PROBED,), f"{part} has the shape {shape}; return one number per token, without a mean")
        require(bool(values.isfinite().all()), f"{part} is not finite for some tokens")
    apart = _called(objective, {key: one[_APART] for key, one in given.items()})
    for part, values in parts.items():
        same = apart[part].shape == _APART.shape
        same = same and torch.allclose(values[_APART], apart[part], rtol=1e-3, atol=1e-5)
        require(same, f"a token's {part} changes with the other tokens; use its own row alone")
    if isinstance(objective, LogitLoss):
        losses = parts["loss"]
        require(losses.requires_grad, "the loss has no gradient to the logits; detach weights alone")
        (gradient,) = torch.autograd.grad(losses.sum(), given["logits"])
        require(bool(gradient.isfinite().all()), "the gradient of the loss is not finite for some logits")
        return
    weights = {term: parts[f"weight {part}"] for part, term in TERMS.items() if f"weight {part}" in parts}
    for term in weights:
        require(term not in OPTIONAL or term in needs, f"weigh returns the weight of {term}; add {term} to `needs`")
    for key, statistic in given.items():
        if key == "q_target":
            continue  # changes with ce
        changed = {key: statistic * 0.9} | ({"q_target": torch.exp(-0.9 * statistic)} if key == "ce" else {})
        other = _called(objective, {**given, **changed})
        change = other.pop("value") - parts["value"]
        same = all(torch.equal(weight, parts[part]) for part, weight in other.items())
        # A value may hold a term with a constant weight, and may leave it out.
        expected = -0.1 * statistic * weights.get(key, 0.0)
        how = "by more or less than its weight" if key in weights else "but no weight"
        require(
            not same or not change.any() or torch.allclose(change, expected, rtol=1e-2, atol=1e-5),
            f"{key} changes the value {how}; statistics are detached, so that this part would not be trained: put its "
            "derivative into a weight",
        )


def _made_up(objective: Objective) -> dict[str, Tensor]:
    """What an objective is called with: statistics, or logits with likely and unlikely labels."""
    if not isinstance(objective, LogitLoss):
        return {name: one for name, one in vars(made_up_tokens(objective)).items() if one is not None}
    generator = torch.Generator().manual_seed(0)
    logits = 4 * torch.randn(PROBED, 97, generator=generator, dtype=torch.float32, device="cpu")
    labels = torch.randint(0, 97, (PROBED,), generator=generator, device="cpu")
    labels[::8] = logits[::8].argmax(dim=-1)
    return {"logits": logits.requires_grad_(), "labels": labels}


def _called(objective: Objective, given: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What an objective makes of tokens, by the names of the parts."""
    before = {key: (one._version, one.detach().clone()) for key, one in given.items()}
    if isinstance(objective, LogitLoss):
        with _stated("fails on made-up logits: ", "" if objective.arguments else f"; {SHORTEST}"):
            parts = {"loss": objective.losses(**given)}
    else:
        with _stated("weigh fails on made-up tokens: "):
            weighting = objective.weigh(TokenStatistics(**given))
        require(isinstance(weighting, Weighting), f"weigh returns {type(weighting).__name__}; return a Weighting")
        parts = {"value": weighting.value, **{f"weight {part}": one for part, one in weighting.terms.items()}}
    for key, one in given.items():
        version, values = before[key]
        require(  # `.data` has no version
            one._version == version and torch.equal(one, values),
            f"{key} is changed in place, and with it what is logged; write to a new tensor, as clamp does and clamp_ "
            "does not",
        )
    return parts
