"""Replies of a base model and its fine-tuned systems to the same prompts, resumed after a stop."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast

from instruct.base.errors import InputError, StoppedError, one_line
from instruct.base.models import ModelOptions, compute_dtype, model_path
from instruct.base.output import progress_bar
from instruct.base.replies import THINK, Failure, Reply, marks_of
from instruct.data.templates import DEFAULT, Rendering, writes_the_date
from instruct.data.tokens import prompt_token_ids, text_token_ids
from instruct.engines.base import Decoding, Engine, EngineOptions, Prompt, Request
from instruct.engines.canary import FILE, Canary, WeightsCheck, canaries_of, moved_by
from instruct.engines.cluster import Where
from instruct.engines.local import has_tokenizer, load_config, load_tokenizer
from instruct.engines.start import LocalKind, make_engine, pick_kind
from instruct.engines.weights import check_model, context_of, folder_identity, is_adapter, model_identity
from instruct.generation.kept import KeptReplies
from instruct.generation.options import EngineConfig

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")


@dataclass(frozen=True)
class System:
    """A LoRA adapter's folder, None for the model itself, or a whole model's folder; and the temperature it samples at.

    `name` is the name of its file, and of its adapter on a server.
    """

    name: str
    source: Path | None
    temperature: float


@dataclass(frozen=True)
class AskedPrompts:
    """What a system is asked, in order, and how.

    Attributes:
        what: answers, or continuations, which go on with the text of their prompts and keep their white space.
        prompts: chats, or texts.
        places: where each prompt stands, for messages.
        seeds: of each prompt's sample.
        identities: everything about each prompt that could change a reply, for JSON.
        identity: everything about all of them that could.
        decoding: how is decoded, besides the temperature; it could change a reply, too. `max_new_tokens` are those of a
            reply; near the context's end, one without `min_new_tokens`, before which it does not end, may be shorter.
        temperatures: of each prompt; None: the system's. Empty: all have the system's.
        rendering: how chats become text.
    """

    what: Literal["answers", "continuations"]
    prompts: Sequence[str | list[dict[str, str]]]
    places: Sequence[str]
    seeds: Sequence[int]
    identities: Sequence[Any]
    identity: list[Any]
    decoding: dict[str, Any]
    temperatures: Sequence[float | None] = ()
    rendering: Rendering = DEFAULT


_TOKENS_CHECKED = 48  # of a prompt, with an adapter from elsewhere and without
_Prompts = Mapping[int, Sequence[Prompt]]  # by the id of their work, which systems may share


@dataclass(frozen=True)
class _Planned:
    system: System
    work: AskedPrompts
    model: str  # that the engine is started on
    adapter: str | None
    kept: KeptReplies

    def is_finished(self, config: EngineConfig) -> bool:
        if self.kept.missing:
            return False
        return not self.work.prompts or config.engine == "auto" or self.kept.engine.startswith(config.engine + " ")


def finished_replies(
    model: ModelOptions,
    asked: Sequence[tuple[System, AskedPrompts]],
    config: EngineConfig,
    folder: Path,
    where: Where = None,
) -> dict[str, KeptReplies]:
    """The complete replies of each system, in `folder/NAME.replies.sqlite`, with what was missing asked now.

    One start of the engine serves `model` and all its adapters. What has no reply is asked in one stream, and each
    reply is on disk when it arrives. A prompt that gets no reply is a Failure among the replies. If the model, adapter,
    prompts or decoding changed, that system starts over, and its `folder/NAME.json` is removed.

    Raises:
        InputError: a model, adapter, name or prompt that cannot be used.
        InstructError: the engine failed.
        StoppedError: too many requests failed in a row, or all of a system.
    """
    identity = model.name
    if config.engine != "server":
        name = model_path(model.name)
        revision = check_model(name, model.revision)
        identity = model_identity(name, revision)
        model = model.model_copy(update={"name": name, "revision": revision, "dtype": compute_dtype(model)})
    folder.mkdir(parents=True, exist_ok=True)
    planned: list[_Planned] = []
    for system, work in asked:
        if not _NAME.fullmatch(system.name):
            raise InputError(
                f"system {one_line(system.name, 60)!r}: not a file name; use letters, digits and . _ + - only"
            )
        base, adapter, weights, source = model.name, None, "", system.source
        if source is not None:
            weights = folder_identity(source)
            base, adapter = (base, str(source)) if is_adapter(source) else (str(source), None)
        if config.engine == "server" and source is not None:  # the server knows it by the system's name
            base, adapter = model.name, system.name
        print_of = fingerprint([identity, weights], model, work, config, system.temperature)
        kept = KeptReplies(folder, system.name, print_of, work.identities)
        planned.append(_Planned(system, work, base, adapter, kept))
    for base in dict.fromkeys(plan.model for plan in planned):
        served = [plan for plan in planned if plan.model == base]
        if not all(plan.is_finished(config) for plan in served):
            _ask(served, planned, model, config, folder, where)
    return {plan.system.name: plan.kept for plan in planned}


def seed_of(text: str) -> int:
    """A seed that depends on a text alone: 31 bits."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") >> 1


def fingerprint(
    identities: list[str], model: ModelOptions, work: AskedPrompts, config: EngineConfig, temperature: float
) -> str:
    """A hash of everything that could change a reply. The engine is stored beside it: `auto` names none.

    Settings are part of it only where they differ from what was the only way before there was a choice.
    """
    decoding = {**work.decoding, "max_model_len": config.max_model_len}
    decoding["temperature"] = temperature
    if config.base_url is not None:
        decoding["base_url"] = config.base_url
    elif model.dtype != "bfloat16" or model.quantization:
        decoding |= {"dtype": model.dtype, "quantization": model.quantization}
    if config.tensor_parallel_size not in (None, 1):
        decoding["tensor_parallel_size"] = config.tensor_parallel_size
    hashed = hashlib.sha256()
    for piece in json.JSONEncoder().iterencode([*identities, work.identities, *work.identity, decoding]):
        hashed.update(piece.encode())
    return hashed.hexdigest()


def _ask(
    served: list[_Planned],
    everyone: list[_Planned],
    model: ModelOptions,
    config: EngineConfig,
    folder: Path,
    where: Where,
) -> None:
    """Start one engine and ask what is missing of the systems on one base, of everyone who is asked."""
    works = {id(plan.work): plan.work for plan in served}
    prompts: _Prompts
    canaries = canaries_of({plan.system.name: plan.system.source for plan in everyone})
    if config.engine == "server":
        engine, prompts, room = *_on_a_server(works, model, config), None
    else:
        engine, prompts, room = _with_weights(served, works, model, config, where, canaries)
    with contextlib.closing(engine), progress_bar() as progress:
        bar = progress.add_task(f"starting on {Path(served[0].model).name}", total=None)
        version = engine.start()
        unfinished = [plan for plan in served if not plan.is_finished(config)]
        check = WeightsCheck(engine, canaries, "generation.engine")
        checked: list[str | None] = []
        for plan in unfinished:
            ids = () if room is None else prompts[id(plan.work)][0][:_TOKENS_CHECKED]
            checked.append(_check_weights(plan, check, engine, version, cast(Sequence[int], ids)))
        for plan, weights in zip(unfinished, checked, strict=True):
            plan.kept.start(version, weights)
            if len(plan.kept.missing) == len(plan.work.prompts):
                (folder / f"{plan.system.name}.json").unlink(missing_ok=True)  # replies to something else
        asked: dict[str, tuple[KeptReplies, int]] = {}  # by request

        def requests() -> Iterator[Request]:
            for plan in unfinished:
                progress.update(bar, description=f"{plan.work.what} of {plan.system.name}")
                for place in plan.kept.missing:
                    request = _request(plan, place, prompts[id(plan.work)][place], room)
                    asked[request.key] = plan.kept, place
                    yield request

        total = sum(len(plan.work.prompts) for plan in served)
        progress.update(bar, total=total, completed=total - sum(len(plan.kept.missing) for plan in unfinished))
        began = time.monotonic()
        for portion in engine.complete(requests()):
            seconds = time.monotonic() - began
            arrived: dict[KeptReplies, list[tuple[int, Reply]]] = {}
            for request, reply in portion:
                kept, place = asked.pop(request.key)
                arrived.setdefault(kept, []).append((place, reply))
            for kept, replies in arrived.items():
                kept.add(replies, seconds * len(replies) / len(portion))
            progress.advance(bar, len(portion))
            began = time.monotonic()
        for plan in unfinished:
            _check_answered(plan.kept, f"model {model.name}")


def _request(plan: _Planned, place: int, prompt: Prompt, room: int | None) -> Request:
    """The request of a system's prompt; `room`: of a model whose weights are here, the most tokens of both."""
    work, temperature = plan.work, plan.system.temperature
    most = int(work.decoding["max_new_tokens"])
    if work.temperatures and (named := work.temperatures[place]) is not None:
        temperature = named
    return Request(
        key=f"{plan.system.name}/{place}",
        prompt=prompt,
        adapter=plan.adapter,
        max_tokens=most if room is None else min(most, room - len(prompt)),
        min_tokens=work.decoding.get("min_new_tokens", 0),
        temperature=temperature,
        # A server need not know seeds, which matter only where something is drawn.
        seed=work.seeds[place] if room is not None or temperature > 0 else None,
    )


def _check_weights(plan: _Planned, check: WeightsCheck, engine: Engine, version: str, ids: Sequence[int]) -> str | None:
    """What came of comparing the weights that answer with those that were trained; None: nothing was trained.

    With the same engine, it is not done again.

    Args:
        ids: the tokens of a prompt; none if a server has the tokenizer.

    Raises:
        InputError: they are not.
    """
    if plan.system.source is None:
        return None
    if plan.kept.engine == version and plan.kept.work.weights:
        return plan.kept.work.weights
    if plan.system.name not in check.canaries:
        return _check_effect(plan, engine, ids)
    return check.outcome(plan.system.name, plan.adapter)


def _check_effect(plan: _Planned, engine: Engine, ids: Sequence[int]) -> str:
    """What came of comparing an adapter from elsewhere with its base on a text's tokens.

    Raises:
        InputError: it changes nothing in the engine that is to answer with it.
    """
    unknown = f"not checked: no {FILE} is beside the weights"
    if plan.adapter is None or len(ids) < 2:
        return unknown
    try:
        moved = moved_by(engine, list(ids), plan.adapter)
    except InputError as error:
        return f"{unknown}; {error}"
    if moved == 0:
        raise InputError(
            f"system {plan.system.name}: its adapter changes no log-probability of a prompt, so that it is ignored or "
            "0; give the adapter with its own base"
        )
    return unknown if moved is None else f"{unknown}; the adapter moves a log-probability by {moved:.2g}"


def _check_answered(kept: KeptReplies, subject: str) -> None:
    """Refuse to go on without a single reply, so that a rerun asks all again.

    Raises:
        StoppedError: every prompt failed.
    """
    reason = ""
    for reply in kept.replies():
        if not isinstance(reply, Failure):
            return
        reason = reason or reply.reason
    kept.forget()
    raise StoppedError(
        f"{subject}: no request to {kept.system} was answered (the first: {reason}); rerun the command when it can be"
    )


def _with_weights(
    served: list[_Planned],
    works: dict[int, AskedPrompts],
    model: ModelOptions,
    config: EngineConfig,
    where: Where,
    canaries: Mapping[str, Canary],
) -> tuple[Engine, _Prompts, int]:
    """The engine for systems on one base, here or on a cluster, the prompts' tokens, and the room for each."""
    kind = local_kind(model, config, where)
    base, work = served[0].model, served[0].work
    revision = model.revision if base == model.name else None
    # A fine-tuned model may have been saved without the tokenizer; its base's is the same.
    words = base if (Path(base) / "tokenizer_config.json").is_file() else model.name
    tokenizer = load_tokenizer(f"model {words}", words, model.revision if words == model.name else None)
    context = context_of(load_config(f"model {base}", base, revision))
    work.rendering.prepare(tokenizer)
    if context is not None and (config.max_model_len or 0) > context:
        raise InputError(f"generation.max_model_len {config.max_model_len}: {base} reads {context} tokens; lower it")
    prompts = {key: token_ids(tokenizer, own.prompts, own.rendering) for key, own in works.items()}
    scored = [canaries[plan.system.name] for plan in served if plan.system.name in canaries]
    longest = max(len(ids) for own in prompts.values() for ids in own) + int(work.decoding["max_new_tokens"])
    wanted = config.max_model_len or max([longest, *(len(canary.ids) + 1 for canary in scored)])
    room = min(wanted, context or wanted)
    least = work.decoding.get("min_new_tokens", 0)
    for key, own in works.items():
        for place, ids in zip(own.places, prompts[key], strict=True):
            if not 0 < len(ids) <= room - max(1, least):
                prompt, reply = ("prompt", "answer") if own.what == "answers" else ("prefix", "continuation")
                needs = f", of which the {reply} needs {least}" if least else ""
                raise InputError(
                    f"{place} has {len(ids)} tokens, {room} hold {prompt} and {reply}{needs}; shorten it or use a "
                    "model with a longer context"
                )
    options = replace(
        _options(base, work, tokenizer),
        revision=revision,
        context_length=room,
        chat=True,
        continues=work.what == "continuations",
        batch=config.batch_size,
        adapters=tuple(dict.fromkeys(Path(plan.adapter) for plan in served if plan.adapter is not None)),
        dtype=model.dtype,
        quantization=model.quantization,
        tensor_parallel_size=config.tensor_parallel_size or 1,
        gpu_memory_utilization=config.gpu_memory_utilization,
    )
    return make_engine(kind, options, where), prompts, room


def _options(model: str, work: AskedPrompts, tokenizer: Any) -> EngineOptions:
    """What engines of every kind are told; only a server knows how long its context is."""
    return EngineOptions(
        subject=f"model {model}",
        model=model,
        decoding=Decoding(top_p=work.decoding["top_p"], max_tokens=work.decoding["max_new_tokens"]),
        context_length=0,
        parts_thinking=work.what == "answers",
        tokenizer=tokenizer,
    )


def token_ids(tokenizer: Any, prompts: Sequence[Any], rendering: Rendering = DEFAULT) -> list[Prompt]:
    """What an engine on this machine is sent for each prompt: the tokens that training put there.

    A text that begins with nothing begins with a special token.
    """
    texts = list(dict.fromkeys(prompt for prompt in prompts if isinstance(prompt, str)))
    of_text = dict(zip(texts, map(tuple, text_token_ids(tokenizer, texts)), strict=True))
    begin = tokenizer.eos_token_id if tokenizer.bos_token_id is None else tokenizer.bos_token_id
    return [
        of_text[prompt] or (begin,)
        if isinstance(prompt, str)
        else tuple(prompt_token_ids(tokenizer, prompt, rendering))
        for prompt in prompts
    ]


def local_kind(model: ModelOptions, config: EngineConfig, where: Where = None) -> LocalKind:
    """The engine that `config.engine` names, or for `auto` one that can load the model."""
    if config.engine == "auto" and model.quantization:
        return "transformers"
    named = config.engine if config.engine in ("vllm", "transformers") else None
    return pick_kind(named, f"model {model.name}", where)


def _on_a_server(works: dict[int, AskedPrompts], model: ModelOptions, config: EngineConfig) -> tuple[Engine, _Prompts]:
    """The engine for a server, and the prompts as chats, text, or token ids where it would render chats otherwise."""
    from instruct.engines.server import ServerEngine

    work = next(iter(works.values()))
    rendering, tokenizer = work.rendering, None
    chats = any(isinstance(prompt, list) for own in works.values() for prompt in own.prompts)
    # A server has another template, other arguments or another date: then chats are rendered here.
    if chats and (rendering.is_own or (rendering.day is not None and has_tokenizer(model))):
        loaded = load_tokenizer(f"model {model.name}", model_path(model.name), model.revision)
        rendering.prepare(loaded)
        tokenizer = loaded if rendering.is_own or writes_the_date(loaded) else None
    prompts: _Prompts = {
        key: token_ids(tokenizer, own.prompts, own.rendering) if tokenizer else own.prompts
        for key, own in works.items()
    }
    options = _options(model.name, work, tokenizer)
    if tokenizer and marks_of(tokenizer.chat_template) not in (None, THINK):  # which are special tokens
        decoding = options.decoding.model_copy(update={"extra": {"skip_special_tokens": False}})
        options = replace(options, decoding=decoding)
    return ServerEngine(options, config.base_url, config.batch_size, config.timeout), prompts
