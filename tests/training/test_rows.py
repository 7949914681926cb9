"""The rows of a training: their hashes, order and tokens are those of earlier versions, whose runs go on with them."""

from __future__ import annotations

import hashlib
import itertools
import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from train_configs import tiny_config
from trl import pack_dataset

from instruct.training.rows import load_training_rows

SYSTEM = {"role": "system", "content": "Be brief."}
CALL = {"type": "function", "function": {"name": "add", "arguments": {"b": 2, "a": [1, {"z": None, "y": "é"}]}}}
TOOLS = [{"type": "function", "function": {"name": "add", "parameters": {"z": 1, "a": {}}}}]


def turns(number: int) -> list[dict[str, Any]]:
    listed = [
        {"role": "user", "content": f"Number {number}?"},
        {"role": "assistant", "content": f"It is {number}. " * (1 + number % 3)},
        {"role": "user", "content": "And then?"},
        {"role": "assistant", "content": f"Then {number + 1}." if number % 5 else ""},
    ]
    return [SYSTEM, *listed] if number % 2 else listed


@pytest.fixture
def sources(tmp_path: Path) -> dict[str, str]:
    """A file of each format; some rows have nothing to learn."""
    alpaca = [
        {"instruction": f"Say {i}.", "input": "now" * (i % 2), "output": f"Größe {i} " * (i % 4)} for i in range(40)
    ]
    chats = [{"messages": turns(i)} for i in range(30)]
    calls = [
        {
            "messages": [
                {"role": "user", "content": f"Add {i}"},
                {"role": "assistant", "content": None, "tool_calls": [CALL]},
                {"role": "tool", "content": "3", "name": "add"},
                {"role": "assistant", "content": f"{i}"},
            ],
            "tools": TOOLS if i % 2 else None,
        }
        for i in range(12)
    ]
    pairs = [{"prompt": f"p{i} ", "completion": f"c{i}" if i % 7 else " "} for i in range(25)]
    texts = [f"Text number {i}. " * (1 + i % 6) if i % 9 else "" for i in range(50)]
    files = {
        name: tmp_path / name for name in ("alpaca.json", "chats.parquet", "calls.jsonl", "pairs.csv", "texts.txt")
    }
    files["alpaca.json"].write_text(json.dumps(alpaca, ensure_ascii=False))
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(chats), files["chats.parquet"])
    files["calls.jsonl"].write_text("".join(json.dumps(row) + "\n" for row in calls))
    lines = [f'"{row["prompt"]}",{row["completion"]}' for row in pairs]
    files["pairs.csv"].write_text("\n".join(["prompt,completion", *lines]) + "\n")
    files["texts.txt"].write_text("\n".join(texts) + "\n")
    return {name: str(path) for name, path in files.items()}


def of_files(sources: dict[str, str], *names: str, **more: Any) -> dict[str, Any]:
    return {"files": [sources[name] for name in names], **more}


def mixture(sources: dict[str, str], weights: list[float | None], **more: Any) -> dict[str, Any]:
    names = ("alpaca.json", "chats.parquet", "pairs.csv")
    return {
        "mixture": [
            of_files(sources, name, weight=weight, template="alpaca" if name == "pairs.csv" else None)
            for name, weight in zip(names, weights, strict=True)
        ],
        **more,
    }


def configs(sources: dict[str, str]) -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    """By name, the `data` section and arguments of `train`."""
    weighted = [0.5, 0.3, 0.2]
    return {
        "alpaca": (of_files(sources, "alpaca.json"), {}),
        "alpaca template": (of_files(sources, "alpaca.json", template="alpaca", limit=17), {"max_length": 220}),
        "chats": (of_files(sources, "chats.parquet"), {"max_length": 60}),
        "last turn": (of_files(sources, "chats.parquet", eval_fraction=0.3), {"train_on": "last_turn"}),
        "calls": (of_files(sources, "calls.jsonl"), {}),
        "pairs": (of_files(sources, "pairs.csv", eval_fraction=0.2), {}),
        "two files": (of_files(sources, "texts.txt", "texts.txt", eval_fraction=0.25), {"max_length": 32}),
        "unpacked": (of_files(sources, "texts.txt"), {"packing": False, "max_length": 256}),
        "mixture": (mixture(sources, [None] * 3, eval_fraction=0.1), {}),
        "weights": (mixture(sources, weighted, eval_files=[sources["alpaca.json"]], eval_limit=9), {}),
        "exhausted": (mixture(sources, weighted, seed=3, stopping_strategy="all_exhausted", eval_fraction=0.2), {}),
    }


def tokenizer_with_tools(folder: Path, copy: Path) -> Path:
    """The model's folder again, with a chat template that renders tools and calls with their keys in order."""
    shutil.copytree(folder, copy)
    (copy / "chat_template.jinja").write_text(
        "{{ tools | tojson }}{% for m in messages %}<|{{ m.role }}|>{{ m.content }}"
        "{% if m.tool_calls %}{{ m.tool_calls | tojson }}{% endif %}<|end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>{% endif %}"
    )
    return copy


def digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def made_of(name: str, sources: dict[str, str], folder: Path) -> dict[str, Any]:
    section, arguments = configs(sources)[name]
    config = tiny_config(folder, "", data=section)
    config.train |= arguments
    data = load_training_rows(config)
    train = data.encoded.dataset()
    rows = [[row["input_ids"], row["labels"]] for row in itertools.islice(train, 200)]
    record: dict[str, Any] = {
        "tokens": digest(rows), "rows": len(rows), "counts": data.counts,
        "template": data.template, "notes": len(data.rows.notes), "turns": digest(data.rows.turns),
    }  # fmt: skip
    record["sha256"] = data.rows.sha256[:16]
    if data.rows.plain_text:
        record["packed"] = digest(list(pack_dataset(train, 64, "bfd_split")["input_ids"]))
    if data.eval_encoded:
        evaluated = [[row["input_ids"], row["labels"]] for row in data.eval_encoded.dataset()]
        rows = data.eval_encoded.rows
        record["eval"] = [rows.sha256[:16], digest(evaluated), len(evaluated), rows.counts]
    return record


FROZEN = json.loads((Path(__file__).parent / "frozen_rows.json").read_text())


@pytest.mark.parametrize("name", list(FROZEN))
def test_rows_and_tokens_are_those_of_earlier_versions(tmp_path, tiny_model_folder, sources, name):
    folder = tokenizer_with_tools(tiny_model_folder, tmp_path / "model")
    assert json.loads(json.dumps(made_of(name, sources, folder))) == FROZEN[name]
