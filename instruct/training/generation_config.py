"""The generation config that leaves with a trained model."""

from __future__ import annotations

import re
from typing import Any

from instruct.base.output import log_once, warn
from instruct.engines.local import end_token_ids


def settle_generation_config(network: Any, tokenizer: Any) -> None:
    """Have transformers' `generate` stop at the end tokens that are trained, and the generation config be one that
    transformers saves: without settings that the others leave without effect, such as a temperature without sampling.
    """
    settings = getattr(network, "generation_config", None)
    if settings is None:  # it does not generate
        return
    stops = settings.eos_token_id
    stops = [] if stops is None else stops if isinstance(stops, list) else [stops]
    if missing := end_token_ids(tokenizer) - {*stops}:
        settings.eos_token_id = [*stops, *sorted(missing)]
    try:
        settings.validate(strict=True)
    except ValueError as error:
        names = re.findall(r"^- `(\w+)`:", str(error), re.MULTILINE)
        unused = ", ".join(f"{name} {getattr(settings, name)}" for name in names)
        for name in names:
            setattr(settings, name, None)
        line = f"its generation config has {unused}, without effect beside its other settings; saved without"
        log_once(warn, f"warning   model {network.name_or_path}: {line}")
