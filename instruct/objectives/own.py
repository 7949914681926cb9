"""An objective that a user wrote: `my_loss.py:MyLoss`, or `package.module:MyLoss`, found, made and checked."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from instruct.base.errors import InputError, one_line
from instruct.objectives.objective import (
    BASE,
    OF_REFERENCE,
    OPTIONAL,
    TERMS,
    LogitLoss,
    Objective,
    TokenStatistics,
    Weighting,
)
from instruct.objectives.torch_kernels import losses_of

_PROBED = 64  # tokens
# Some of them, in another order.
_APART = torch.arange(_PROBED - 1, _PROBED // 2, -1)


def make_own_objective(name: str, arguments: Mapping[str, Any] | None = None) -> Objective:
    """The objective that `FILE.py:NAME` or `MODULE:NAME` names, called with `arguments`, checked. Runs that code.

    Raises:
        InputError: nothing of that name, arguments that it refuses, or a `weigh` that cannot be trained with.
    """
    module, _, attribute = name.rpartition(":")
    made = getattr(_module(name, module), attribute, None)
    if not callable(made):
        raise InputError(f"objective {name}: {module} has no class {attribute}; name one that it defines")
    try:
        objective = made(**(arguments or {}))
    except (TypeError, ValueError) as error:
        raise InputError(f"objective {name}: {one_line(error)}; correct objective_args") from None
    except (Exception, SystemExit) as error:
        raise InputError(f"objective {name}: cannot be made ({type(error).__name__}: {one_line(error)})") from error
    check_objective(objective, name)
    return objective


def source_of(name: str) -> Path:
    """The file that defines the objective `name`."""
    module = name.rpartition(":")[0]
    return Path(module) if module.endswith(".py") else Path(str(inspect.getsourcefile(_module(name, module))))


def _module(name: str, module: str) -> ModuleType:
    with _own_code(f"objective {name}: ", f"; correct {module}"):
        if not module.endswith(".py"):
            return importlib.import_module(module)
        if not Path(module).is_file():
            raise InputError(f"objective {name}: {module}: no such file; give the path of a Python file")
        # Registered, so that its dataclasses and what torch.compile makes of it find their module.
        known_as = f"instruct_objective_{Path(module).stem}"
        spec = importlib.util.spec_from_file_location(known_as, module)
        assert spec is not None
        assert spec.loader is not None
        loaded = sys.modules[known_as] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(loaded)
        return loaded


def check_objective(objective: Any, name: str) -> None:
    """Call it with made-up tokens, and refuse what would end training or train something else in silence.

    Raises:
        InputError: attributes or results that an objective must have are missing, weights or gradients that are not
            finite, a token whose loss or weight changes with the other tokens, unknown `needs`, the weight of a term
            that they do not name, or a value that a statistic changes without changing a weight, by other than that
            statistic's weight. Statistics are detached, so that such a part of the value would never be trained.
    """
    if not isinstance(objective, LogitLoss):
        missing = [part for part in ("needs", "weigh") if not hasattr(objective, part)]
        if missing:
            raise InputError(f"objective {name}: has no {missing[0]}; see docs/objectives.md, Write your own")
    if isinstance(objective.needs, str):
        raise InputError(f'objective {name}: needs is a text; write needs = ("{one_line(objective.needs, 40)}",)')
    reference = getattr(objective, "reference", None)
    if reference not in (None, BASE):
        raise InputError(f'objective {name}: reference is {one_line(reference, 40)}; the only one is "base"')
    if isinstance(objective, LogitLoss):
        _check_losses(objective, name)
        return
    if unknown := set(objective.needs) - {*OPTIONAL, *OF_REFERENCE}:
        statistics = ", ".join([*OPTIONAL, *OF_REFERENCE])
        raise InputError(f"objective {name}: needs {', '.join(sorted(unknown))}; statistics are {statistics}")
    if set(objective.needs) & {*OF_REFERENCE} and reference is None:
        raise InputError(f'objective {name}: needs statistics of the model before training; set reference = "base"')
    token = made_up_tokens(objective)
    weighting = _weighed(objective, name, token)
    for part, values in ({"a": weighting.a, "value": weighting.value} | weighting.terms).items():
        _check_values(values, f"objective {name}: weigh returns {part}", " of shape", " that is")
    for part, term in TERMS.items():
        if part in weighting.terms and term in OPTIONAL and term not in objective.needs:
            raise InputError(f"objective {name}: weigh returns {part}, the weight of {term}; add {term} to `needs`")
    by_name = {field.name: one for field in fields(token) if (one := getattr(token, field.name)) is not None}
    apart = _weighed(objective, name, replace(token, **{key: one[_APART] for key, one in by_name.items()}))
    _check_alone(weighting.value, apart.value, name, "loss")
    for part, weight in weighting.terms.items():
        _check_alone(weight, apart.terms[part], name, f"weight {part}")
    weights = {TERMS[part]: weight for part, weight in weighting.terms.items()}
    for key, statistic in by_name.items():
        if key == "q_target":
            continue  # changes with ce
        changed = {key: statistic * 0.9} | ({"q_target": torch.exp(-0.9 * statistic)} if key == "ce" else {})
        other = _weighed(objective, name, replace(token, **changed))
        same = other.terms.keys() == weighting.terms.keys()
        same = same and all(torch.equal(weight, other.terms[part]) for part, weight in weighting.terms.items())
        change = other.value - weighting.value
        # A value may hold a term with a constant weight, and may leave it out.
        expected = -0.1 * statistic * weights.get(key, torch.zeros(()))
        if same and change.any() and not torch.allclose(change, expected, rtol=1e-2, atol=1e-5):
            how = "by more or less than its weight" if key in weights else "but no weight"
            raise InputError(
                f"objective {name}: {key} changes the value {how}; statistics are detached, so that this part would "
                "not be trained: put its derivative into a weight"
            )


def _check_losses(objective: LogitLoss, name: str) -> None:
    """Made-up logits: one finite number per token, with a finite gradient, of the token's row alone."""
    if objective.needs:
        raise InputError(f"objective {name}: a LogitLoss has logits, and no statistics; remove `needs`")
    generator = torch.Generator().manual_seed(0)
    logits = (4 * torch.randn(_PROBED, 97, generator=generator)).requires_grad_()
    labels = torch.randint(0, 97, (_PROBED,), generator=generator)
    labels = torch.where(torch.arange(_PROBED) % 8 == 0, logits.argmax(dim=-1), labels)
    with _own_code(f"objective {name}: losses fails on made-up logits: "):
        losses, apart = losses_of(objective, logits, labels), losses_of(objective, logits[_APART], labels[_APART])
    _check_values(losses, f"objective {name}: losses returns", " shape", " numbers that are")
    if not losses.requires_grad:
        raise InputError(f"objective {name}: losses has no gradient to the logits; detach weights alone")
    _check_alone(losses, apart, name, "loss")
    (gradient,) = torch.autograd.grad(losses.sum(), logits)
    if not gradient.isfinite().all():
        raise InputError(f"objective {name}: the gradient of losses is not finite for some logits")


def _check_alone(together: torch.Tensor, apart: torch.Tensor, name: str, what: str) -> None:
    if apart.shape != together[_APART].shape or not torch.allclose(together[_APART], apart, rtol=1e-3, atol=1e-5):
        raise InputError(f"objective {name}: a token's {what} changes with the other tokens; use its own row alone")


def _check_values(values: Any, returns: str, shaped: str, that_are: str) -> None:
    """Refuse what is not one finite number per token."""
    if not isinstance(values, torch.Tensor) or values.shape != (_PROBED,):
        shape = tuple(values.shape) if isinstance(values, torch.Tensor) else type(values).__name__
        raise InputError(f"{returns}{shaped} {shape}; return one number per token")
    if not values.isfinite().all():
        raise InputError(f"{returns}{that_are} not finite for some tokens")


@contextlib.contextmanager
def _own_code(failing: str, remedy: str = "") -> Iterator[None]:
    """Whatever the user's code raises, as an error that begins with `failing`."""
    try:
        yield
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        raise InputError(f"{failing}{type(error).__name__}: {one_line(error)}{remedy}") from error


def made_up_tokens(objective: Any) -> TokenStatistics:
    """Likely and unlikely tokens, float32, with a probability of 0 or 1 at the ends."""
    ce = torch.linspace(0, 120, _PROBED)
    q_target = torch.exp(-ce)
    others = 1 - q_target
    made_up = {
        "cost": others * 0.8,
        "error_norm": others * 1.2,
        "entropy": others * 4,
        "squares": q_target**2 + others**2 / 5,
        "uniform": 8 + q_target,
        "ref_ce": ce.flip(0),
        "ref_q_target": q_target.flip(0),
        "ref_entropy": others.flip(0) * 3,
    }
    return TokenStatistics(ce, q_target, **{name: made_up[name] for name in objective.needs})


def _weighed(objective: Any, name: str, token: TokenStatistics) -> Weighting:
    given = {key: one for key, one in vars(token).items() if one is not None}
    before = {key: (one._version, one.clone()) for key, one in given.items()}
    with _own_code(f"objective {name}: weigh fails on made-up tokens: "):
        weighting = objective.weigh(token)
    for key, one in given.items():
        version, values = before[key]
        if one._version != version or not torch.equal(one, values):  # `.data` has no version
            raise InputError(
                f"objective {name}: weigh changes {key} in place, and with it what is logged; write its result to a "
                "new tensor, as clamp does and clamp_ does not"
            )
    if not isinstance(weighting, Weighting):
        raise InputError(f"objective {name}: weigh returns {type(weighting).__name__}; return a Weighting")
    return weighting
