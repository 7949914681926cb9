"""What the tests of data share."""

from __future__ import annotations

import json
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from local_hub import running_hub


@pytest.fixture
def hub(tmp_path):
    with running_hub(tmp_path / "hf_home") as server:
        yield server


@pytest.fixture
def write(tmp_path):
    """Write a test file and give its path: rows as a .jsonl or a .parquet, text and bytes as they are, else JSON."""

    def written(name: str, content: Any) -> str:
        path = tmp_path / name
        if isinstance(content, bytes):
            path.write_bytes(content)
        elif path.suffix == ".parquet":
            pyarrow.parquet.write_table(pyarrow.Table.from_pylist(content), path)
        elif isinstance(content, str):
            path.write_text(content, encoding="utf-8", newline="")
        elif path.suffix == ".jsonl":
            path.write_text("".join(json.dumps(row) + "\n" for row in content), encoding="utf-8")
        else:
            path.write_text(json.dumps(content), encoding="utf-8")
        return str(path)

    return written


@pytest.fixture(scope="session")
def smollm2_tokenizer(smollm2):
    """The embedded model's own tokenizer."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(smollm2)
