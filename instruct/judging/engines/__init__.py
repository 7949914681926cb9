"""Who is asked: vLLM or transformers on this machine, any OpenAI-compatible server, or earlier replies."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from instruct.judging.cards import JudgeCard
from instruct.judging.engines.base import Engine, Failure, Reply, Request

__all__ = ["Engine", "Failure", "Reply", "Request", "check_available", "judge_engine"]


@contextlib.contextmanager
def judge_engine(card: JudgeCard, base_url: str | None = None) -> Iterator[Engine]:
    """The engine for a card: the server at `base_url`, OpenAI's for AlpacaEval's annotators, else vLLM here.

    Raises:
        InputError: what the judge needs is not here; the line says what that is.
    """
    from instruct.judging.engines.server import ServerJudge
    from instruct.judging.engines.vllm import VLLMJudge

    engine: Engine = ServerJudge(card, base_url) if base_url or card.annotator else VLLMJudge(card)
    try:
        yield engine
    finally:
        engine.close()


def check_available(card: JudgeCard, base_url: str | None = None) -> None:
    """Refuse, before any work, a judge that cannot be asked on this machine.

    Raises:
        InputError: the line says what it needs.
    """
    if base_url:
        return
    if card.annotator:
        from instruct.judging.engines.server import ServerJudge

        ServerJudge(card, None).close()
    else:
        from instruct.judging.engines.vllm import local_model

        local_model(card)
