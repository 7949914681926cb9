from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _short_waits(short_waits):
    """Retries after a server fault wait milliseconds."""
