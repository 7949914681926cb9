"""Files of rows or of other content, for tests of what reads them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def write_json(path: str | Path, content: Any) -> Path:
    """Content as JSON; the rows of a .jsonl file a line each."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(row) + "\n" for row in content) if path.suffix == ".jsonl" else json.dumps(content)
    path.write_text(lines, encoding="utf-8")
    return path
