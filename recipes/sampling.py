"""Texts that a model writes, as data.

Not a recipe by itself: oracle.py learns such texts, precision_recall.py compares systems on them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from instruct.base.models import ModelOptions
    from instruct.generation.continuations import Continuation


def sampled_continuations(name: str, model: ModelOptions, continuations: dict[str, Any]) -> list[Continuation]:
    """What an untuned model writes, unbiased, in a run of its own, runs/NAME; what is done is not done again.

    Args:
        continuations: the config's section: prefixes, their number, and how to generate.
    """
    from instruct.config import make_config
    from instruct.generation.continuations import read_continuations
    from instruct.phases.answer import generate
    from instruct.phases.experiment import open_run

    content = {
        "name": name,
        "model": model.model_dump(mode="json"),
        "systems": {"writer": {"objective": "none"}},
        "continuations": continuations,
    }
    config = make_config(content, [], name)
    return read_continuations(generate(config, open_run(config))["writer"])


def write_texts(path: Path, texts: Iterable[str]) -> None:
    """Write texts as JSON lines with the field `text`."""
    from instruct.base.files import write_atomically

    write_atomically(path, "".join(json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in texts))
