"""Whether the Hugging Face Hub answers. It is asked once: its libraries would each retry for half a minute."""

from __future__ import annotations

import functools
import logging
import os
import sys

_log = logging.getLogger("instruct")
SECONDS = 5


@functools.cache
def failure() -> str | None:
    """The kind of error with which the Hub could not be reached; None if it answers."""
    from huggingface_hub import constants, get_session

    try:
        get_session().head(constants.ENDPOINT, timeout=SECONDS)
    except Exception as error:  # its text is not shown: it may hold the address, and an address may hold a password
        return type(error).__name__
    return None


def use_cache_if_unreachable() -> None:
    """Switch to the Hub's offline mode, for this process and those that it starts, if the Hub does not answer."""
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE or failure() is None:
        return
    _log.warning("note: the Hugging Face Hub is out of reach (%s); only what is cached can be used", failure())
    constants.HF_HUB_OFFLINE = True
    os.environ["HF_HUB_OFFLINE"] = "1"
    if "datasets" in sys.modules:
        sys.modules["datasets"].config.HF_HUB_OFFLINE = True
