"""Evaluation prompts, baselines, and answers in AlpacaEval's model_outputs form."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from instruct.data.cards import Template, load_dataset_card
from instruct.data.formats import Prompt, alpaca_prompt
from instruct.data.sources import RawRow, read_file, read_source
from instruct.errors import InputError, one_line


@dataclass(frozen=True)
class EvalPrompt:
    """One prompt and the part of the evaluation set that it belongs to."""

    instruction: str
    dataset: str


@dataclass(frozen=True)
class EvalSet:
    """Prompts to answer, and the baseline's answers to them, if the set has any."""

    name: str
    prompts: list[EvalPrompt]
    baseline: list[dict[str, Any]] | None

    @property
    def sha256(self) -> str:
        prompts = [[prompt.instruction, prompt.dataset] for prompt in self.prompts]
        return hashlib.sha256(json.dumps(prompts, ensure_ascii=False).encode()).hexdigest()


def load_eval_set(name: str, files: list[str] | None = None, limit: int | None = None) -> EvalSet:
    """An evaluation set by its card, with `files` in place of the card's source; rows with an output are baseline.

    Raises:
        InputError: a bad file or row, or a card of training data.
    """
    card = load_dataset_card(name)
    if card.purpose != "eval":
        raise InputError(f"data card {name}: is training data; name an evaluation set (see `instruct list data`)")
    raw: list[RawRow] = []
    if files:
        for file in files:
            raw += read_file(Path(file))
    else:
        raw += read_source(card, card.source)
    rows = _checked(raw, ("instruction",))[:limit]
    prompts = [EvalPrompt(row["instruction"], str(row.get("dataset") or name)) for row in rows]
    baseline = rows
    if card.baseline and not files:
        wanted = {row["instruction"] for row in rows}
        answers = _checked(list(read_source(card, card.baseline)), ("instruction", "output"))
        baseline = [row for row in answers if row["instruction"] in wanted]
    if not all("output" in row for row in baseline):
        return EvalSet(name, prompts, None)
    return EvalSet(name, prompts, [_answer(row, name) for row in baseline])


def load_answers(path: str | Path) -> list[dict[str, Any]]:
    """The rows of a model_outputs.json: `dataset`, `instruction`, `output`, `generator`; leaderboard files load.

    Raises:
        InputError: a missing file or field, an instruction that stands twice.
    """
    rows = _checked(list(read_file(Path(path))), ("instruction", "output"))
    return [_answer(row, Path(path).stem) for row in rows]


def eval_prompt(instruction: str, template: Template) -> Prompt:
    """An evaluation prompt as training saw its rows."""
    return alpaca_prompt(instruction) if template == "alpaca" else [{"role": "user", "content": instruction}]


def _answer(row: dict[str, Any], default: str) -> dict[str, Any]:
    return {
        "dataset": str(row.get("dataset") or default),
        "instruction": row["instruction"],
        "output": row["output"],
        "generator": str(row.get("generator") or default),
    }


def _checked(raw: list[RawRow], fields: tuple[str, ...]) -> list[dict[str, Any]]:
    seen: dict[str, str] = {}
    for where, row in raw:
        for field in fields:
            if not isinstance(row.get(field), str):
                raise InputError(f"{where}: the field {field!r} is missing or no text; write one in every row")
        instruction = row["instruction"]
        if not instruction.strip():
            raise InputError(f"{where}: the field 'instruction' is empty; write a prompt or remove the row")
        if instruction in seen:
            raise InputError(
                f"{where}: the instruction {one_line(instruction, 60)!r} stands already at {seen[instruction]}; remove one"
            )
        seen[instruction] = where
    if not raw:
        raise InputError("the evaluation set has no rows; give a file with prompts")
    return [row for _, row in raw]
