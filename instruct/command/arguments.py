"""Flags that override the config. It imports nothing slow."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence

from instruct.command.flags import config_schema

# The config's sections, whose flags need no dot; these four are flags of their own, or none.
SECTIONS = tuple(name for name in config_schema()["properties"] if name not in ("name", "model", "cluster", "extends"))
OVERRIDES = (
    "Any config key can be set by a flag: --train.learning_rate 1e-4, --data.files my.jsonl, --lora.r 32. "
    "A list is YAML: --data.files '[a.txt, b.txt]'."
)


def split_overrides(argv: Sequence[str], own: Collection[str] = ()) -> tuple[list[str], list[str]]:
    """`argv` without the flags that override the config, and those flags with their values.

    An override has a dot (`--train.max_steps 40`) or is a section's name (`--lora null`), unless the verb has a flag of
    its `own` with that name. argparse alone would take the value of an unknown flag for a positional argument.
    """
    rest, overrides = [], []
    tokens = iter(argv)
    for token in tokens:
        name = token.partition("=")[0]
        if name.startswith("--") and ("." in name or (name[2:] in SECTIONS and name not in own)):
            overrides.append(token)
            if "=" not in token:
                overrides += itertools.islice(tokens, 1)
        else:
            rest.append(token)
    return rest, overrides
