"""Packages that only a part of the work needs: which extra of emo-instruct installs them."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Iterator

from instruct.base.errors import InputError

PROJECT = "emo-instruct"


def requirements(extra: str | None = None) -> Iterator[str]:
    """The requirements of an extra as the installed package names them, without markers; of the base by default."""
    from packaging.requirements import Requirement

    for requirement in map(Requirement, importlib.metadata.requires(PROJECT) or []):
        marker, requirement.marker = requirement.marker, None
        base = marker is None or marker.evaluate({"extra": ""})
        if base if extra is None else marker is not None and not base and marker.evaluate({"extra": extra}):
            yield str(requirement)


def missing_package(error: ModuleNotFoundError) -> InputError | None:
    """The error in one line with the smallest extra that installs the package; None if no extra does."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    package = canonicalize_name((error.name or "").partition(".")[0])
    extras = importlib.metadata.metadata(PROJECT).get_all("Provides-Extra") or []
    installed = {extra: {canonicalize_name(Requirement(text).name) for text in requirements(extra)} for extra in extras}
    having = [extra for extra, packages in installed.items() if package in packages - {PROJECT}]
    if not having:
        return None
    extra = min(having, key=lambda extra: len(installed[extra]))
    return InputError(f"this needs the package {package}, which is not installed: pip install '{PROJECT}[{extra}]'")


def vllm_is_installed() -> bool:
    """Whether vLLM can be imported; it is not."""
    return importlib.util.find_spec("vllm") is not None
