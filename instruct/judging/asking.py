"""A judge, resolved once: its card, the engine that asks its model, where, at what price, within which budget."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any, Literal

from instruct.base.errors import InputError
from instruct.base.replies import Completion
from instruct.engines.base import Engine, EngineOptions, Prompt, Request, most_tokens
from instruct.engines.cluster import Where
from instruct.engines.start import LocalKind, make_engine, pick_kind
from instruct.judging.annotators import SHUT_DOWN
from instruct.judging.cards import JudgeCard, by_criteria, load_judge_card
from instruct.judging.money import Price, is_free, price_of
from instruct.judging.options import JudgeOptions
from instruct.run.directory import RunDirectory

# Requests whose labels' log-probabilities are computed together on this machine.
BATCH = 64


class Judge:
    """What the plan, the estimate and the requests need to know of a judge.

    Args:
        options: which judge, and how to ask it.
        card: None: loaded by `options.card` and `options.model`.
        where: a local model is loaded.

    Raises:
        InputError: no such card, or an invalid one.
    """

    def __init__(
        self,
        options: JudgeOptions,
        card: JudgeCard | None = None,
        where: Where = None,
    ) -> None:
        self.card = by_criteria(card or load_judge_card(options.card, options.model), options.criteria)
        self.options = options
        self.where = where

    @property
    def orders(self) -> Literal["both", "one"]:
        """Whether each pair is shown in both orders."""
        return self.options.orders or self.card.order_policy

    @functools.cached_property
    def engine(self) -> LocalKind | Literal["server"]:
        """A server if there is a base URL or the model is a provider's; else as `pick_kind` has it.

        A score head is always asked in transformers.

        Raises:
            InputError: an engine that is not installed, or does not use the base URL.
        """
        name, base_url = self.options.engine, self.options.base_url
        if name == "server" or (name is None and (base_url or self.card.is_a_providers)):
            return "server"
        if base_url:
            raise InputError(
                f"judge {self.card.name}: engine {name} asks no server at {base_url}; leave `engine` or `base_url` out"
            )
        if name is None and self.card.head:
            return "transformers"
        return pick_kind(name, f"judge {self.card.name}", self.where)

    @functools.cached_property
    def endpoint(self) -> str | None:
        """The server's address; None for a model on this machine.

        Raises:
            InputError: an invalid address.
        """
        return self._made().identity["endpoint"] if self.engine == "server" else None

    @functools.cached_property
    def price(self) -> Price | None:
        """The model's price at the endpoint; None if it is free or unknown.

        Raises:
            InputError: an invalid price table.
        """
        return price_of(self.card.model, self.endpoint)

    @property
    def costs_money(self) -> bool:
        """Whether asking may cost money: the endpoint has a price or a budget, or is not the user's own."""
        has_budget = self.endpoint is not None and self.options.budget_usd is not None
        return has_budget or self.price is not None or not is_free(self.endpoint)

    def most_usd(self, prompt: Prompt) -> float:
        """The most that one attempt at a prompt can cost, in US dollars."""
        if self.price is None:
            return 0.0
        decoding = self.card.decoding
        prompt_tokens = most_tokens(prompt, also=[decoding.extra, self.card.response_schema])
        return self.price.usd(prompt_tokens, decoding.most_tokens(self.card.context_length))

    def paid_usd(self, request: Request, reply: Completion) -> float:
        """What a reply cost, in US dollars: by the server's count of tokens, else the most that it can have cost."""
        if self.price is None:
            return 0.0
        if reply.prompt_tokens is None or reply.completion_tokens is None:
            return request.usd
        return self.price.usd(reply.prompt_tokens, reply.completion_tokens)

    @contextlib.contextmanager
    def open(self) -> Iterator[Engine]:
        """The engine to ask.

        Raises:
            InputError: the judge cannot be asked this way; the message says what is missing.
        """
        with contextlib.closing(self._made()) as engine:
            yield engine

    def check(self) -> None:
        """Refuse, before any work, a judge that cannot be asked on this machine.

        Raises:
            InputError: what is missing.
        """
        with self.open() as engine:
            engine.check()

    def settle_dtype(self, run: RunDirectory) -> None:
        """Set what a local model computes in: as when the run first asked it, else as this machine picks it."""
        if self.engine == "server" or self.options.dtype not in (None, "auto"):
            return
        steps = run.manifest()["steps"].values() if run.manifest_path.is_file() else ()
        asked = [by for step in steps if isinstance(by := step["inputs"].get("judge"), dict)]
        same = [by for by in asked if (by.get("card"), by.get("model")) == (self.options.card, self.options.model)]
        dtype = same[0].get("dtype") if same else None
        if not same:
            engine = self._made()
            with contextlib.closing(engine), contextlib.suppress(InputError):
                dtype = getattr(engine, "dtype", None)  # which local engines have
        self.options = self.options.model_copy(update={"dtype": dtype})

    def _made(self) -> Engine:
        card = self.card
        if self.engine == "server":
            from instruct.engines.server import ServerEngine

            if card.protocol == "reward":
                raise InputError(
                    f"judge {card.name}: a reward model is asked on this machine; leave `base_url` and `engine` out"
                )
            asked = self.options
            engine = ServerEngine(  # refuses an invalid address
                engine_options(card), asked.base_url, asked.concurrency, asked.timeout, asked.replicas
            )
            if asked.replicas and not all(map(is_free, (asked.base_url, *asked.replicas))):
                raise InputError(
                    f"judge {card.name}: several `base_url` are servers of your own, on this machine or a private "
                    "network; give one of a provider alone"
                )
            return engine
        if card.annotator or card.decoding.extra:
            what = "an annotator of alpaca-eval" if card.annotator else "decoding with extra, null or {}"
            raise InputError(f"judge {card.name}: {what} needs a server; give `base_url`, or leave `engine` out")
        local = self.options.model_dump(include={"dtype", "quantization", "tensor_parallel_size"}, exclude_none=True)
        options = engine_options(card, batch=BATCH if card.verdict.labels else None, **local)
        return make_engine(self.engine, options, self.where)


def engine_options(card: JudgeCard, **local: Any) -> EngineOptions:
    """What an engine must know of a judge; `local`: how a model on this machine is loaded."""
    other_model = "set `model` to one that it serves, and check that `base_url` ends where its API begins"
    if card.model in SHUT_DOWN:
        other_model = (
            f"it is reported to have been shut down ({SHUT_DOWN[card.model]}): another `model` is asked with "
            "the same prompt, under a name of its own, never beside published figures"
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
        parts_thinking=not labels,
        keep_choice=card.needs_choice,
        allow_pickle=card.weights == "pickle",
        needs=card.needs,
        gpu_gb=card.gpu_gb,
        reward=card.protocol == "reward",
        head=card.head_file() if card.head else None,
        merges_system=True,
        other_model=other_model,
        shorter=f"`trim` cuts both answers to context_length, {card.context_length} in the card: lower it in a copy",
        **local,
    )
