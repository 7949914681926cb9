import pytest


@pytest.fixture(autouse=True)
def _short_waits(short_waits):
    """Waits for a faulty server take milliseconds."""
