from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _short_waits(short_waits):
    """A server's faults are waited out in milliseconds."""
