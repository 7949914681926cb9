"""Lets the tests of training import what they share: `from tiny import make_trainer`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
