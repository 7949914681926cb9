from __future__ import annotations

import pytest


@pytest.fixture
def known_data(shared_data, monkeypatch):
    """The folder of real data, where the known sets are looked for."""
    monkeypatch.setenv("INSTRUCT_SHARED_DATA", str(shared_data))
    return shared_data


@pytest.fixture(autouse=True)
def _short_waits(short_waits):
    """Retries after a server fault wait milliseconds."""
