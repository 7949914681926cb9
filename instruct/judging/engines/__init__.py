"""Who is asked: vLLM or transformers on this machine, any OpenAI-compatible server, or earlier replies."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from instruct.engines.base import Engine, Failure, Reply, Request
from instruct.errors import InputError
from instruct.judging.cards import JudgeCard

__all__ = ["Engine", "EngineName", "Failure", "Reply", "Request", "check_available", "costs_money", "judge_engine"]

EngineName = Literal["vllm", "transformers", "server"]


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
        engine: None: a server for a `base_url` or an annotator of alpaca-eval, else vLLM where it is installed, else
            transformers.
        concurrency: requests at a time to a server; None: its default.
        replay: a file of replies that this engine has made, which takes its place.

    Raises:
        InputError: what the judge needs is not here; the line says what that is.
    """
    judge = _made(card, base_url, engine, concurrency)
    if replay is not None:
        from instruct.judging.engines.replay import ReplayJudge

        judge.close()
        judge = ReplayJudge(replay, judge.identity)
    try:
        yield judge
    finally:
        judge.close()


def check_available(card: JudgeCard, base_url: str | None = None, engine: EngineName | None = None) -> None:
    """Refuse, before any work, a judge that cannot be asked on this machine.

    Raises:
        InputError: the line says what it needs.
    """
    if _name(card, base_url, engine) == "server":
        from instruct.judging.engines.server import ServerJudge

        ServerJudge(card, base_url).check()
    else:
        from instruct.judging.engines.local import local_model

        _made(card, base_url, engine, None).close()
        local_model(card)


def costs_money(card: JudgeCard, base_url: str | None = None, engine: EngineName | None = None) -> bool:
    """Whether asking may cost money: where it would be asked has a price, or is not one's own.

    Raises:
        InputError: no address, or a price table that is not as it should be.
    """
    if _name(card, base_url, engine) != "server":
        return False
    from instruct.judging.engines.server import ServerJudge
    from instruct.judging.money import is_free, price_of

    endpoint = ServerJudge(card, base_url).identity["endpoint"]
    return price_of(card.model, endpoint) is not None or not is_free(endpoint)


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
    if name == "vllm":
        from instruct.judging.engines.vllm import VLLMJudge

        return VLLMJudge(card)
    if name == "transformers":
        from instruct.judging.engines.transformers import TransformersJudge

        return TransformersJudge(card)
    from instruct.judging.engines.server import ServerJudge

    return ServerJudge(card, base_url) if concurrency is None else ServerJudge(card, base_url, concurrency)
