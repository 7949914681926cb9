"""What a run's config asks for that only the user may allow: addresses, files, budgets, trust in code.

A run may be another's. What it asks for counts if the call says so, too, or if this user's own call wrote its config:
that is noted outside the run, by what the config holds and when the run was begun, so that a run may be moved.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from instruct.base.errors import InstructError
from instruct.base.files import sha256_of, write_atomically

# Known by their form, so that none is forgotten. Models are data, and what they answer stays in the run.
_CONSENT = re.compile(r"trust_.*|.*_usd|files")
_ADDRESS = re.compile(r".*://.*|[^\s/]+:\d+", re.DOTALL)
_MODELS = ("name", "adapter")


def agree(run: Any) -> None:
    """Note that this user wrote a run's config. Where that fails, later calls have to say again what they allow.

    Args:
        run: a `RunDirectory`.
    """
    with contextlib.suppress(InstructError):
        write_atomically(_record(run), "")


def not_agreed(run: Any, config: dict[str, Any]) -> list[tuple[str, Any]]:
    """The options in a part of a run's config that need consent, by key; [] if this user wrote the config."""
    if _record(run).is_file():
        return []
    return [(key, value) for key, value in _options(config) if value and _needs_consent(key.rpartition(".")[2], value)]


def _record(run: Any) -> Path:
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    begun = f"{run.manifest()['created']} {sha256_of(run.folder / 'config.yaml')}"
    return state / "instruct" / "runs" / hashlib.sha256(begun.encode()).hexdigest()


def _options(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _options(inner, f"{key}.{name}")
    elif isinstance(value, list):
        for inner in value:
            yield from _options(inner, key)
    else:
        yield key[1:], value


def _needs_consent(name: str, value: Any) -> bool:
    leads_out = isinstance(value, str) and (_ADDRESS.fullmatch(value) or os.path.exists(os.path.expanduser(value)))
    return bool(_CONSENT.fullmatch(name) or (leads_out and name not in _MODELS))
