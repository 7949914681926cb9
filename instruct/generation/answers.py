"""Answers of a base model and its fine-tuned systems to evaluation prompts, resumed after a stop."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from instruct.data.cards import Template
from instruct.engines.base import Completion, Decoding, Engine, EngineOptions, Prompt, Reply, Request
from instruct.engines.start import EngineKind, make_engine, vllm_is_installed
from instruct.engines.weights import adapter_identity, check_model, context_of, is_adapter, model_identity
from instruct.errors import InputError, InstructError, one_line
from instruct.generation.journal import Batch, Journal
from instruct.generation.options import GenerationConfig
from instruct.models import ModelOptions, model_path
from instruct.output import progress_bar
from instruct.runs import write_atomically

if TYPE_CHECKING:
    from instruct.data.evaluation import EvalPrompt

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")


@dataclass(frozen=True)
class AnswerStats:
    """A system's answers: how many, how many were cut at their length limit, mean tokens without the end token.

    `mean_tokens` is None if a server did not count the tokens of every answer. `engine` is its name, version and
    device. `minutes` is the time of the batches, over all calls that answered them, without the engine's start.
    """

    n: int
    truncated: int
    mean_tokens: float | None
    engine: str
    minutes: float


@dataclass(frozen=True)
class _System:
    name: str
    model: str  # that the engine is started on
    adapter: str | None
    journal: Journal


@dataclass(frozen=True)
class _Asked:
    """A prompt as the engine is sent it, and the most tokens of its answer."""

    prompt: Prompt
    limit: int


def generate_answers(
    model: ModelOptions,
    systems: dict[str, Path | None],
    prompts: Sequence[EvalPrompt],
    template: Template,
    config: GenerationConfig,
    folder: Path,
) -> dict[str, AnswerStats]:
    """Write `folder/NAME.json` (AlpacaEval's model_outputs) for each system and return what was generated.

    A system is a LoRA adapter's folder, None for `model` itself, or the folder of a whole fine-tuned model. One start
    of the engine serves `model` and all its adapters. Prompts are asked in fixed batches of `config.batch_size`, in
    order; each finished batch is on disk in `folder/NAME.batches.jsonl` before the next begins. Repeating a call that
    was stopped continues with the first missing batch and ends with the same bytes; repeating a finished one starts no
    engine. If the model, adapter, prompts, template or decoding changed, that system starts over.

    Raises:
        InputError: a model, adapter, name or prompt that cannot be used.
        InstructError: the engine failed.
    """
    if not prompts:
        raise InputError("no evaluation prompts to answer; give a set that has some")
    identity = model.name
    if config.engine != "server":
        name = model_path(model.name)
        revision = check_model(name, model.revision)
        identity = model_identity(name, revision)
        model = model.model_copy(update={"name": name, "revision": revision})
    sizes = [min(config.batch_size, len(prompts) - i) for i in range(0, len(prompts), config.batch_size)]
    folder.mkdir(parents=True, exist_ok=True)
    planned: list[_System] = []
    for name, source in systems.items():
        if not _NAME.fullmatch(name):
            raise InputError(f"system {one_line(name, 60)!r}: not a file name; use letters, digits and . _ + - only")
        base, adapter, weights = model.name, None, ""
        if source is not None and is_adapter(source):
            adapter, weights = str(source), adapter_identity(source)
        elif source is not None:
            base = str(source)
            weights = model_identity(base, check_model(base))
        if config.engine == "server" and source is not None:  # the server knows it by the system's name
            base, adapter = model.name, name
        journal = Journal(
            folder / f"{name}.batches.jsonl",
            _fingerprint([identity, weights], model, prompts, template, config),
            sizes,
        )
        planned.append(_System(name, base, adapter, journal))
    for base in dict.fromkeys(system.model for system in planned):
        served = [system for system in planned if system.model == base]
        if not all(_finished(system.journal, config) for system in served):
            _answer(served, model, prompts, template, config, folder)
    return {system.name: _write(system, prompts, folder) for system in planned}


def _fingerprint(
    identities: list[str],
    model: ModelOptions,
    prompts: Sequence[EvalPrompt],
    template: Template,
    config: GenerationConfig,
) -> str:
    """A hash of everything that could change an answer. The engine is in the journal's header: `auto` names none.

    Later settings are part of it only where they differ from what was the only way before there was a choice, so that
    earlier journals are resumed.
    """
    decoding = config.model_dump(exclude={"engine", "gpu_memory_utilization", "base_url", "tensor_parallel_size"})
    if config.base_url is not None:
        decoding["base_url"] = config.base_url
    elif model.dtype != "bfloat16" or model.quantization:
        decoding |= {"dtype": model.dtype, "quantization": model.quantization}
    if config.tensor_parallel_size not in (None, 1):
        decoding["tensor_parallel_size"] = config.tensor_parallel_size
    texts = [[prompt.dataset, prompt.instruction] for prompt in prompts]
    return hashlib.sha256(json.dumps([*identities, texts, template, decoding]).encode()).hexdigest()


def _finished(journal: Journal, config: GenerationConfig) -> bool:
    return journal.complete and (config.engine == "auto" or journal.engine.startswith(config.engine + " "))


def _answer(
    served: list[_System],
    model: ModelOptions,
    prompts: Sequence[EvalPrompt],
    template: Template,
    config: GenerationConfig,
    folder: Path,
) -> None:
    """Start one engine and answer what is missing of the systems on one base."""
    with progress_bar() as progress:
        bar = progress.add_task(f"starting on {Path(served[0].model).name}", total=None)
        make = _on_a_server if config.engine == "server" else _on_this_machine
        engine, asked = make(served, model, prompts, template, config)
        try:
            version = engine.start()
            unfinished = [system for system in served if not _finished(system.journal, config)]
            for system in unfinished:
                system.journal.start(version)
                if len(system.journal.missing) == len(system.journal.sizes):
                    (folder / f"{system.name}.json").unlink(missing_ok=True)  # answers to something else
            progress.update(
                bar,
                total=sum(len(system.journal.sizes) for system in unfinished),
                completed=sum(len(system.journal.batches) for system in unfinished),
            )
            missing = [(system, number) for system in unfinished for number in system.journal.missing]

            def batches() -> Iterator[list[Request]]:
                for system, number in missing:
                    progress.update(bar, description=f"answers of {system.name}")
                    yield _requests(system, number, asked, config)

            # A batch is recorded when all its replies are there.
            arrived: dict[int, tuple[float, list[tuple[Request, Reply]]]] = {}
            for portion in engine.complete_batches(batches()):
                system, number = missing[portion.batch]
                seconds, replies = arrived.pop(portion.batch, (0.0, []))
                seconds, replies = seconds + portion.seconds, [*replies, *portion.replies]
                if len(replies) < system.journal.sizes[number]:
                    arrived[portion.batch] = seconds, replies
                    continue
                system.journal.append(_batch(system, number, prompts, replies, seconds))
                progress.advance(bar)
        finally:
            engine.close()


def _requests(system: _System, number: int, asked: list[_Asked], config: GenerationConfig) -> list[Request]:
    """The requests of a batch; each one's key is its prompt's place, and unique among all systems."""
    first = number * config.batch_size
    # A server need not know seeds, which matter only where something is drawn.
    seeded = config.engine != "server" or config.temperature > 0
    return [
        Request(
            key=f"{system.name}/{place}",
            prompt=each.prompt,
            adapter=system.adapter,
            max_tokens=each.limit,
            seed=prompt_seed(config.seed, place) if seeded else None,
        )
        for place, each in enumerate(asked[first : first + config.batch_size], first)
    ]


def _batch(
    system: _System, number: int, prompts: Sequence[EvalPrompt], replies: list[tuple[Request, Reply]], seconds: float
) -> Batch:
    """The answers to a batch, from its replies in any order."""
    places = {int(request.key.rpartition("/")[2]): reply for request, reply in replies}
    done: list[Completion] = []
    for place, reply in sorted(places.items()):
        if not isinstance(reply, Completion):
            raise InstructError(
                f"{_place(prompts, place)}: no answer of {system.name} ({reply.reason}); finished batches are kept: "
                "rerun to resume, or leave the prompt out if the server always refuses it"
            )
        done.append(reply)
    return Batch(
        batch=number,
        seconds=round(seconds, 3),
        tokens=[
            None if each.completion_tokens is None else each.completion_tokens - (each.finish_reason == "stop")
            for each in done
        ],
        finish=["length" if each.finish_reason == "length" else "stop" for each in done],
        texts=[each.text.strip() for each in done],
    )


def _on_this_machine(
    served: list[_System],
    model: ModelOptions,
    prompts: Sequence[EvalPrompt],
    template: Template,
    config: GenerationConfig,
) -> tuple[Engine, list[_Asked]]:
    """The engine for systems on one base, and the prompts' tokens with the limits of their answers."""
    from transformers import AutoConfig, AutoTokenizer

    kind = _local_kind(model, config)
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
    if context is not None and (config.max_model_len or 0) > context:
        raise InputError(f"generation.max_model_len {config.max_model_len}: {base} reads {context} tokens; lower it")
    token_ids = sent_token_ids(tokenizer, prompts, template)
    wanted = config.max_model_len or max(map(len, token_ids)) + config.max_new_tokens
    length = min(wanted, context or wanted)
    for place, ids in enumerate(token_ids):
        if not 0 < len(ids) < length:
            raise InputError(
                f"{_place(prompts, place)} has {len(ids)} tokens, {length} hold prompt and answer; shorten it or use "
                "a model with a longer context"
            )
    options = EngineOptions(
        subject=f"model {base}",
        model=base,
        revision=revision,
        decoding=_decoding(config),
        context_length=length,
        chat=True,
        batch=config.batch_size,
        adapters=tuple(dict.fromkeys(Path(system.adapter) for system in served if system.adapter is not None)),
        tokenizer=tokenizer,
        dtype=model.dtype,
        quantization=model.quantization,
        tensor_parallel_size=config.tensor_parallel_size or 1,
        gpu_memory_utilization=config.gpu_memory_utilization,
    )
    asked = [_Asked(tuple(ids), min(config.max_new_tokens, length - len(ids))) for ids in token_ids]
    return make_engine(kind, options), asked


def _local_kind(model: ModelOptions, config: GenerationConfig) -> EngineKind:
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
    served: list[_System],
    model: ModelOptions,
    prompts: Sequence[EvalPrompt],
    template: Template,
    config: GenerationConfig,
) -> tuple[Engine, list[_Asked]]:
    """The engine for a server, and the prompts as chats or text, by the template."""
    from instruct.data.evaluation import eval_prompt

    options = EngineOptions(
        subject=f"model {model.name}",
        model=model.name,
        decoding=_decoding(config),
        context_length=0,  # only the server knows
    )
    asked = [_Asked(eval_prompt(prompt.instruction, template), config.max_new_tokens) for prompt in prompts]
    return make_engine("server", options, config.base_url, config.batch_size), asked


def _decoding(config: GenerationConfig) -> Decoding:
    return Decoding(temperature=config.temperature, top_p=config.top_p, max_tokens=config.max_new_tokens)


def _place(prompts: Sequence[EvalPrompt], index: int) -> str:
    """Where a prompt stands, for an error message."""
    prompt = prompts[index]
    return f"{prompt.dataset}: prompt {index + 1} ({one_line(prompt.instruction, 60)!r})"


def prompt_seed(seed: int, index: int) -> int:
    """A prompt's own seed, so that its sample does not depend on what it is batched with."""
    return int.from_bytes(hashlib.sha256(f"{seed}:{index}".encode()).digest()[:4], "big") >> 1


def sent_token_ids(tokenizer: Any, prompts: Sequence[EvalPrompt], template: Template) -> list[list[int]]:
    """What an engine on this machine is sent for each prompt: the tokens that training put before the answer."""
    from instruct.data.evaluation import eval_prompt
    from instruct.data.tokens import prompt_token_ids

    return [prompt_token_ids(tokenizer, eval_prompt(prompt.instruction, template)) for prompt in prompts]


def _write(system: _System, prompts: Sequence[EvalPrompt], folder: Path) -> AnswerStats:
    """Write a finished system's answers, unless the file already holds them."""
    batches = system.journal.batches
    outputs = [text for batch in batches for text in batch.texts]
    tokens = [count for batch in batches for count in batch.tokens if count is not None]
    rows = [
        {"dataset": prompt.dataset, "instruction": prompt.instruction, "output": output, "generator": system.name}
        for prompt, output in zip(prompts, outputs, strict=True)
    ]
    text = json.dumps(rows, ensure_ascii=False, indent=2) + "\n"
    path = folder / f"{system.name}.json"
    if not path.is_file() or path.read_bytes() != text.encode():
        write_atomically(path, text)
    return AnswerStats(
        n=len(rows),
        truncated=sum(batch.finish.count("length") for batch in batches),
        mean_tokens=sum(tokens) / len(rows) if len(tokens) == len(rows) else None,
        engine=system.journal.engine,
        minutes=sum(batch.seconds for batch in batches) / 60,
    )
