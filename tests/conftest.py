"""What all tests share: where real data is, and no network."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data that is not part of the project."""
    folder = Path(os.environ.get("INSTRUCT_SHARED_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"real data is absent: {folder} (set INSTRUCT_SHARED_DATA)")
    return folder


@pytest.fixture(scope="session")
def smollm2() -> str:
    """The folder of the embedded SmolLM2-135M-Instruct."""
    from instruct.models import EMBEDDED_MODEL, resolve_model

    return resolve_model(EMBEDDED_MODEL)
