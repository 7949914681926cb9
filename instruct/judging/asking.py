"""The engine that asks a card's judge: vLLM or transformers on this machine, a server, or replayed replies."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from instruct.engines.base import Engine, EngineOptions
from instruct.errors import InputError
from instruct.judging.cards import JudgeCard

EngineName = Literal["vllm", "transformers", "server"]

# Requests whose labels' log-probabilities are computed together in vLLM, always the same ones.
BATCH = 64
# Models that are reported to have been shut down, and when.
_GONE = {"gpt-4": "2026-10-23", "gpt-4-1106-preview": "2026-10-23"}


@contextlib.contextmanager
def judge_engine(
    card: JudgeCard,
    base_url: str | None = None,
    engine: EngineName | None = None,
    concurrency: int | None = None,
    replay: str | Path | None = None,
) -> Iterator[Engine]:
    """The engine for a card.

    Args:
        base_url: of an OpenAI-compatible server; None: OpenAI's.
        engine: None: a server if there is a `base_url` or the card is an annotator of alpaca-eval, else vLLM if it is
            installed, else transformers.
        concurrency: requests at a time to a server; None: the server engine's default.
        replay: a file of replies that this engine made earlier, read instead of asking.

    Raises:
        InputError: what the judge needs is missing here; the message says what.
    """
    judge = _made(card, base_url, engine, concurrency)
    if replay is not None:
        from instruct.engines.replay import ReplayEngine

        judge.close()
        judge = ReplayEngine(replay, judge.identity)
    try:
        yield judge
    finally:
        judge.close()


def check_available(card: JudgeCard, base_url: str | None = None, engine: EngineName | None = None) -> None:
    """Refuse, before any work, a judge that cannot be asked on this machine.

    Raises:
        InputError: what the judge needs.
    """
    with judge_engine(card, base_url, engine) as judge:
        judge.check()


def costs_money(card: JudgeCard, base_url: str | None = None, engine: EngineName | None = None) -> bool:
    """Whether asking may cost money: its endpoint has a price, or is not the user's own machine.

    Raises:
        InputError: an invalid address or price table.
    """
    if _name(card, base_url, engine) != "server":
        return False
    from instruct.judging.money import is_free, price_of

    endpoint = _made(card, base_url, "server", None).identity["endpoint"]
    return price_of(card.model, endpoint) is not None or not is_free(endpoint)


def engine_options(card: JudgeCard, batch: int | None = None) -> EngineOptions:
    """What an engine must know of a judge."""
    gone = None
    if card.model in _GONE:
        gone = (
            f"it is reported to have been shut down ({_GONE[card.model]}): --judge-model M asks another model with the "
            "same prompt, under a name of its own, never beside published figures"
        )
    labels = card.verdict.labels
    return EngineOptions(
        subject=f"judge {card.name}",
        model=card.model,
        decoding=card.decoding,
        context_length=card.context_length,
        revision=card.revision,
        labels=(labels.first, labels.second) if labels else (),
        response_schema=card.response_schema,
        chat=card.prompt_form == "chat",
        keep_special_tokens=card.thinking_end is not None,  # the end of the thinking may be one
        keep_choice=card.needs_choice,
        batch=batch,
        allow_pickle=card.weights == "pickle",
        needs=card.needs,
        gone=gone,
    )


def _name(card: JudgeCard, base_url: str | None, engine: EngineName | None) -> EngineName:
    installed = importlib.util.find_spec("vllm") is not None
    if engine is None:
        return "server" if base_url or card.annotator else "vllm" if installed else "transformers"
    if base_url and engine != "server":
        raise InputError(f"engine {engine}: asks nobody at {base_url}; leave --engine or --base-url out")
    if engine == "vllm" and not installed:
        raise InputError("engine vllm: vLLM is not installed; `pip install 'emo-instruct[vllm]'`, or another --engine")
    return engine


def _made(card: JudgeCard, base_url: str | None, engine: EngineName | None, concurrency: int | None) -> Engine:
    name = _name(card, base_url, engine)
    if name == "server":
        from instruct.engines.server import CONCURRENCY, ServerEngine

        return ServerEngine(engine_options(card), base_url, CONCURRENCY if concurrency is None else concurrency)
    if card.annotator or card.decoding.extra:
        what = "an annotator of alpaca-eval" if card.annotator else "what decoding.extra asks for"
        raise InputError(f"judge {card.name}: {what} needs a server; give --base-url, or leave --engine out")
    if name == "vllm":
        from instruct.engines.vllm import VLLMEngine

        return VLLMEngine(engine_options(card, BATCH if card.verdict.labels else None))
    from instruct.engines.transformers import TransformersEngine

    return TransformersEngine(engine_options(card))
