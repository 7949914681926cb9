"""Replies of a base model and its fine-tuned systems to the same prompts, in fixed batches, resumed after a stop."""

from __future__ import annotations

import hashlib
import json
import re
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from instruct.asking.ask import FixedBatches, ask_engine, progress_of
from instruct.asking.kept import KeptReplies
from instruct.base.errors import InputError, StoppedError, one_line
from instruct.base.extras import vllm_is_installed
from instruct.base.models import ModelOptions, model_path
from instruct.base.output import warn
from instruct.base.replies import Completion
from instruct.data.templates import Rendering, writes_the_date
from instruct.engines.base import Decoding, Engine, EngineOptions, Prompt, Request
from instruct.engines.cluster_options import ClusterOptions
from instruct.engines.local import has_tokenizer, load_tokenizer
from instruct.engines.start import EngineKind, make_engine
from instruct.engines.thinking import MARKS_ROOM, THINK, marks_of
from instruct.engines.weights import adapter_identity, check_model, context_of, is_adapter, model_identity
from instruct.generation.options import EngineConfig
from instruct.generation.work import System, Work

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")


@dataclass(frozen=True)
class _Planned:
    system: System
    model: str  # that the engine is started on
    adapter: str | None
    kept: KeptReplies
    start: int = 0  # of its share of the prompts


@dataclass(frozen=True, slots=True)
class _Asked:
    """A prompt as the engine is sent it, and the most tokens of its reply."""

    prompt: Prompt | array[int]  # token ids as an array take a tenth of the memory
    limit: int


def finished_replies(
    model: ModelOptions,
    systems: Sequence[System],
    work: Work,
    config: EngineConfig,
    folder: Path,
    cluster: ClusterOptions | None = None,
    shares: Mapping[str, int] | None = None,
) -> dict[str, KeptReplies]:
    """The complete replies of each system, in `folder/NAME.replies.sqlite`, with what was missing asked now.

    One start of the engine serves `model` and all its adapters. Prompts are asked in fixed batches of
    `config.batch_size`; each finished batch is on disk before the next begins, and each reply of a server. A prompt
    that gets no reply is a Failure among the replies. If the model, adapter, prompts or
    decoding changed, that system starts over, and its `folder/NAME.json` is removed. With `cluster`, its machines work
    on several batches at a time, and each is on disk when it arrives; a call may be continued there or here.

    Args:
        shares: how many of the prompts each system is asked, in their order; None: all of them.

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
        model = model.model_copy(update={"name": name, "revision": revision})
    folder.mkdir(parents=True, exist_ok=True)
    planned: list[_Planned] = []
    end = 0
    for system in systems:
        if not _NAME.fullmatch(system.name):
            raise InputError(
                f"system {one_line(system.name, 60)!r}: not a file name; use letters, digits and . _ + - only"
            )
        base, adapter, weights, source = model.name, None, "", system.source
        if source is not None and is_adapter(source):
            adapter, weights = str(source), adapter_identity(source)
        elif source is not None:
            base = str(source)
            weights = model_identity(base, check_model(base))
        if config.engine == "server" and source is not None:  # the server knows it by the system's name
            base, adapter = model.name, system.name
        start, end = (end, end + shares[system.name]) if shares is not None else (0, len(work.identities))
        own = replace(work, identities=work.identities[start:end])
        print_of = fingerprint([identity, weights], model, own, config, system.temperature)
        kept = KeptReplies(folder, system.name, print_of, own.identities, config.batch_size)
        planned.append(_Planned(system, base, adapter, kept, start))
    for base in dict.fromkeys(each.model for each in planned):
        served = [each for each in planned if each.model == base]
        if not all(_finished(each.kept, config) for each in served):
            _ask(served, model, work, config, folder, cluster)
    return {each.system.name: each.kept for each in planned}


def fingerprint(
    identities: list[str], model: ModelOptions, work: Work, config: EngineConfig, temperature: float
) -> str:
    """A hash of everything that could change a reply. The engine is stored beside it: `auto` names none.

    Later settings are part of it only where they differ from what was the only way before there was a choice, so that
    earlier journals are resumed.
    """
    decoding = {**work.decoding, "batch_size": config.batch_size, "max_model_len": config.max_model_len}
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


def _finished(kept: KeptReplies, config: EngineConfig) -> bool:
    return not kept.missing and (config.engine == "auto" or kept.engine.startswith(config.engine + " "))


def _ask(
    served: list[_Planned],
    model: ModelOptions,
    work: Work,
    config: EngineConfig,
    folder: Path,
    cluster: ClusterOptions | None,
) -> None:
    """Start one engine and ask what is missing of the systems on one base."""
    with progress_of(f"starting on {Path(served[0].model).name}") as show:
        if config.engine == "server":
            engine, asked = _on_a_server(served, model, work, config)
        else:
            engine, asked = _with_weights(served, model, work, config, cluster)
        try:
            version = engine.start()
            unfinished = {each.kept: each for each in served if not _finished(each.kept, config)}
            for kept in unfinished:
                kept.workers = engine.workers
                kept.start(version)
                if len(kept.missing) == len(kept.batches):
                    (folder / f"{kept.system}.json").unlink(missing_ok=True)  # replies to something else
            batches = FixedBatches(
                work.what,
                list(unfinished),
                lambda kept, places: _requests(unfinished[kept], places, asked, work, config),
                apart=config.engine == "server",
            )
            ask_engine(engine, batches, show)
            for kept in unfinished:
                _check_answered(kept, f"model {model.name}")
                if config.engine == "server" and work.thinking_budget is not None:
                    _warn_of_budget(kept, work.thinking_budget)
        finally:
            engine.close()


def _requests(
    planned: _Planned, places: Sequence[int], asked: list[_Asked], work: Work, config: EngineConfig
) -> list[Request]:
    own = planned.system.temperature
    temperatures = [work.temperature(planned.start + place, own) for place in places]
    return [
        Request(
            key=planned.kept.request_key(place),
            prompt=tuple(prompt) if isinstance(prompt := asked[planned.start + place].prompt, array) else prompt,
            adapter=planned.adapter,
            max_tokens=asked[planned.start + place].limit,
            min_tokens=work.min_tokens,
            temperature=temperature,
            # A server need not know seeds, which matter only where something is drawn.
            seed=work.seeds[planned.start + place] if config.engine != "server" or temperature > 0 else None,
        )
        for place, temperature in zip(places, temperatures, strict=True)
    ]


def _check_answered(kept: KeptReplies, subject: str) -> None:
    """Refuse to go on without a single reply; then all is asked again by a rerun.

    Raises:
        StoppedError: every prompt failed.
    """
    reason = ""
    for reply in kept.replies():
        if isinstance(reply, Completion):
            return
        reason = reason or reply.reason
    kept.forget()
    raise StoppedError(
        f"{subject}: no request to {kept.system} was answered (the first: {reason}); rerun the command when it can be"
    )


def _warn_of_budget(kept: KeptReplies, budget: int) -> None:
    """Say that a server does not hold its replies to the budget: one that does not know the parameter ignores it."""
    over = sum(
        reply.cut_in_thinking or (reply.reasoning_tokens or 0) > budget + MARKS_ROOM
        for reply in kept.replies()
        if isinstance(reply, Completion)
    )
    if over:
        warn(
            f"{kept.system}: {over} replies think longer than thinking_budget {budget}, which the server seems to "
            "ignore; start vLLM with --reasoning-parser, or leave it out"
        )


def _with_weights(
    served: list[_Planned],
    model: ModelOptions,
    work: Work,
    config: EngineConfig,
    cluster: ClusterOptions | None,
) -> tuple[Engine, list[_Asked]]:
    """The engine for systems on one base, here or on a cluster, and the prompts' tokens with the limits of replies."""
    from transformers import AutoConfig, AutoTokenizer

    kind = local_kind(model, config)
    base = served[0].model
    revision = model.revision if base == model.name else None
    # A fine-tuned model may have been saved without the tokenizer; its base's is the same.
    words = base if (Path(base) / "tokenizer_config.json").is_file() else model.name
    try:
        tokenizer = AutoTokenizer.from_pretrained(
            words, revision=model.revision if words == model.name else None, trust_remote_code=False
        )
        context = context_of(AutoConfig.from_pretrained(base, revision=revision, trust_remote_code=False))
    except (OSError, ValueError, KeyError) as error:
        raise InputError(
            f"model {base}: no tokenizer or configuration ({one_line(error, 200)}); check the folder"
        ) from error
    work.rendering.prepare(tokenizer)
    if context is not None and (config.max_model_len or 0) > context:
        raise InputError(f"generation.max_model_len {config.max_model_len}: {base} reads {context} tokens; lower it")
    token_ids = [array("I", ids) for ids in work.token_ids(tokenizer)]
    if work.thinking_budget is not None and marks_of(tokenizer.chat_template) is None:
        raise InputError(
            f"generation.thinking_budget {work.thinking_budget}: the chat template of {words} has no thinking that is "
            "known; leave it out"
        )
    most = _most_tokens(work)
    wanted = config.max_model_len or max(map(len, token_ids)) + most
    length = min(wanted, context or wanted)
    for place, ids in zip(work.places, token_ids, strict=True):
        if not 0 < len(ids) <= length - max(1, work.min_tokens):
            prompt, reply = work.parts
            least = f", of which the {reply} needs {work.min_tokens}" if work.min_tokens else ""
            raise InputError(
                f"{place} has {len(ids)} tokens, {length} hold {prompt} and {reply}{least}; shorten it or use a model "
                "with a longer context"
            )
    options = EngineOptions(
        subject=f"model {base}",
        model=base,
        revision=revision,
        decoding=_decoding(work),
        context_length=length,
        chat=True,
        continues=work.to_the_letter,
        parts_thinking=not work.to_the_letter,
        thinking_budget=work.thinking_budget,
        batch=config.batch_size,
        adapters=tuple(dict.fromkeys(Path(each.adapter) for each in served if each.adapter is not None)),
        tokenizer=tokenizer,
        dtype=model.dtype,
        quantization=model.quantization,
        tensor_parallel_size=config.tensor_parallel_size or 1,
        gpu_memory_utilization=config.gpu_memory_utilization,
    )
    asked = [_Asked(ids, min(most, length - len(ids))) for ids in token_ids]
    return make_engine(kind, options, cluster=cluster), asked


def local_kind(model: ModelOptions, config: EngineConfig) -> EngineKind:
    """The engine that `config.engine` names; `auto` is vLLM if it is installed and can load the model."""
    installed = vllm_is_installed()
    if config.engine == "vllm" and not installed:
        raise InputError(
            "generation.engine vllm: vLLM is not installed; run `pip install vllm` or set it to transformers"
        )
    if config.engine == "transformers" or not installed or (config.engine == "auto" and model.quantization):
        return "transformers"
    return "vllm"


def _on_a_server(
    served: list[_Planned], model: ModelOptions, work: Work, config: EngineConfig
) -> tuple[Engine, list[_Asked]]:
    """The engine for a server, and the prompts as chats, text, or token ids where it would render chats otherwise."""
    prompts, decoding = work.server_prompts(), _decoding(work)
    if tokenizer := _server_tokenizer(prompts, model, work.rendering):
        prompts = [tuple(ids) for ids in work.token_ids(tokenizer)]
        if marks_of(tokenizer.chat_template) not in (None, THINK):  # which are special tokens
            decoding = decoding.model_copy(update={"extra": {"skip_special_tokens": False}})
    options = EngineOptions(
        subject=f"model {model.name}",
        model=model.name,
        decoding=decoding,
        context_length=0,  # only the server knows
        parts_thinking=not work.to_the_letter,
        thinking_budget=work.thinking_budget,
        tokenizer=tokenizer,
    )
    asked = [_Asked(prompt, _most_tokens(work)) for prompt in prompts]
    return make_engine("server", options, config.base_url, config.batch_size, timeout=config.timeout), asked


def _server_tokenizer(prompts: Sequence[Prompt], model: ModelOptions, rendering: Rendering) -> Any:
    """What renders chats here, because a server has another template, other arguments or another date; else None."""
    if not any(isinstance(prompt, list) for prompt in prompts):
        return None
    if not rendering.is_own and (rendering.day is None or not has_tokenizer(model)):
        return None
    tokenizer = load_tokenizer(f"model {model.name}", model_path(model.name), model.revision)
    rendering.prepare(tokenizer)
    return tokenizer if rendering.is_own or writes_the_date(tokenizer) else None


def _most_tokens(work: Work) -> int:
    """The most tokens of a reply, with its thinking."""
    return work.max_tokens + (0 if work.thinking_budget is None else work.thinking_budget + MARKS_ROOM)


def _decoding(work: Work) -> Decoding:
    return Decoding(top_p=work.top_p, max_tokens=work.max_tokens)
