"""Evaluation prompts answered by a base model and its adapters; what was answered before a stop is not asked again."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from instruct.engines.stop_tokens import stop_token_ids
from instruct.engines.weights import adapter_identity, check_model, is_adapter, model_identity
from instruct.errors import InputError, one_line
from instruct.generation.engines import start_engine
from instruct.generation.journal import Batch, Journal
from instruct.generation.options import GenerationConfig
from instruct.generation.serving import Engine, Serving
from instruct.models import resolve_model
from instruct.runs import write_atomically

if TYPE_CHECKING:
    from instruct.data.evaluation import EvalPrompt

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
_CONTEXT_KEYS = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "max_sequence_length")


@dataclass(frozen=True)
class AnswerStats:
    """A system's answers: how many, how many were cut at their length limit, tokens an answer without its end token.

    `minutes` is what its batches took, over all calls that answered them; the engine's start is not in it.
    """

    n: int
    truncated: int
    mean_tokens: float
    engine: str
    minutes: float


@dataclass(frozen=True)
class _System:
    name: str
    base: str  # what the engine is started on
    adapter: Path | None
    journal: Journal


def generate_answers(
    model: str,
    systems: dict[str, Path | None],
    prompts: Sequence[EvalPrompt],
    template: str,
    config: GenerationConfig,
    folder: Path,
    revision: str | None = None,
) -> dict[str, AnswerStats]:
    """Write `folder/NAME.json` (AlpacaEval's model_outputs) for each system and return what was generated.

    A system is a LoRA adapter's folder, None for `model` itself, or the folder of a whole fine-tuned model. One start
    of the engine serves `model` and all its adapters. Prompts go in fixed batches of `config.batch_size`, in their
    order; each finished batch is on the disk in `folder/NAME.batches.jsonl` before the next begins. The same call
    after a stop at any moment goes on with the first missing batch and ends with the same bytes; after a finished one
    it starts nothing. A change of model, adapter, prompts, template or decoding starts that system anew. `revision` is
    of `model`, where that is on the hub.

    Raises:
        InputError: a model, adapter, name or prompt that cannot be used.
        InstructError: the engine failed.
    """
    if not prompts:
        raise InputError("no evaluation prompts to answer; give a set that has some")
    model = resolve_model(model)
    revision = check_model(model, revision)
    identity = model_identity(model, revision)
    sizes = [min(config.batch_size, len(prompts) - i) for i in range(0, len(prompts), config.batch_size)]
    folder.mkdir(parents=True, exist_ok=True)
    planned: list[_System] = []
    for name, source in systems.items():
        if not _NAME.fullmatch(name):
            raise InputError(f"system {one_line(name, 60)!r}: no file name; use letters, digits and . _ + - only")
        base, adapter, weights = model, None, ""
        if source is not None and is_adapter(source):
            adapter, weights = source, adapter_identity(source)
        elif source is not None:
            base = str(source)
            weights = model_identity(base, check_model(base))
        fingerprint = _fingerprint(identity, weights, prompts, template, config)
        journal = Journal(folder / f"{name}.batches.jsonl", fingerprint, sizes)
        planned.append(_System(name, base, adapter, journal))
    for base in dict.fromkeys(system.base for system in planned):
        served = [system for system in planned if system.base == base]
        if not all(_finished(system.journal, config) for system in served):
            _answer(served, model, revision, prompts, template, config, folder)
    return {system.name: _write(system, prompts, folder) for system in planned}


def _fingerprint(
    identity: str, weights: str, prompts: Sequence[EvalPrompt], template: str, config: GenerationConfig
) -> str:
    """A hash of what could change an answer. The engine is in the journal's header: `auto` names none."""
    decoding = config.model_dump(exclude={"engine", "gpu_memory_utilization"})
    texts = [[prompt.dataset, prompt.instruction] for prompt in prompts]
    return hashlib.sha256(json.dumps([identity, weights, texts, template, decoding]).encode()).hexdigest()


def _finished(journal: Journal, config: GenerationConfig) -> bool:
    return journal.complete and (config.engine == "auto" or journal.engine.startswith(config.engine + " "))


def _answer(
    served: list[_System],
    model: str,
    revision: str | None,
    prompts: Sequence[EvalPrompt],
    template: str,
    config: GenerationConfig,
    folder: Path,
) -> None:
    """Start one engine and answer what is missing of the systems on one base."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        bar = progress.add_task(f"starting on {Path(served[0].base).name}", total=None)
        serving, token_ids = _serving(served, model, revision, prompts, template, config)
        engine = start_engine(serving, config)
        try:
            unfinished = [system for system in served if not _finished(system.journal, config)]
            for system in unfinished:
                system.journal.start(engine.name)
                if not system.journal.batches:
                    (folder / f"{system.name}.json").unlink(missing_ok=True)  # answers of something else
            progress.update(
                bar,
                total=sum(len(system.journal.sizes) for system in unfinished),
                completed=sum(len(system.journal.batches) for system in unfinished),
            )
            for system in unfinished:
                progress.update(bar, description=f"answers of {system.name}")
                while not system.journal.complete:
                    _next_batch(system, engine, token_ids, config)
                    progress.advance(bar)
        finally:
            engine.close()


def _next_batch(system: _System, engine: Engine, token_ids: list[list[int]], config: GenerationConfig) -> None:
    number = len(system.journal.batches)
    first = number * config.batch_size
    began = time.monotonic()
    done = engine.complete(token_ids[first : first + config.batch_size], system.adapter, config, first)
    system.journal.append(
        Batch(
            batch=number,
            seconds=round(time.monotonic() - began, 3),
            tokens=[completion.tokens for completion in done],
            finish=[completion.finish_reason for completion in done],
            texts=[completion.text for completion in done],
        )
    )


def _serving(
    served: list[_System],
    model: str,
    revision: str | None,
    prompts: Sequence[EvalPrompt],
    template: str,
    config: GenerationConfig,
) -> tuple[Serving, list[list[int]]]:
    """What the engine is to load, and the prompts' tokens."""
    from transformers import AutoConfig, AutoTokenizer

    base = served[0].base
    own_revision = revision if base == model else None
    # a fine-tuned model may have been saved without the tokenizer, which is then its base's
    words = base if (Path(base) / "tokenizer_config.json").is_file() else model
    try:
        tokenizer = AutoTokenizer.from_pretrained(
            words, revision=revision if words == model else None, trust_remote_code=False
        )
        settings = AutoConfig.from_pretrained(base, revision=own_revision, trust_remote_code=False).get_text_config()
    except (OSError, ValueError, KeyError) as error:
        raise InputError(
            f"model {base}: no tokenizer or configuration ({one_line(error, 200)}); check the folder"
        ) from error
    context = next((value for key in _CONTEXT_KEYS if isinstance(value := getattr(settings, key, None), int)), None)
    if context is not None and (config.max_model_len or 0) > context:
        raise InputError(f"generation.max_model_len {config.max_model_len}: {base} reads {context} tokens; set no more")
    token_ids = sent_token_ids(tokenizer, prompts, template)
    wanted = config.max_model_len or max(map(len, token_ids)) + config.max_new_tokens
    max_model_len = min(wanted, context or wanted)
    for number, (prompt, ids) in enumerate(zip(prompts, token_ids, strict=True), 1):
        if not 0 < len(ids) < max_model_len:
            raise InputError(
                f"{prompt.dataset}: prompt {number} ({one_line(prompt.instruction, 60)!r}) has {len(ids)} tokens, "
                f"{max_model_len} hold prompt and answer; shorten it or take a model with a longer context"
            )
    adapters = tuple(dict.fromkeys(system.adapter for system in served if system.adapter is not None))
    stop_ids = stop_token_ids(tokenizer, base, own_revision)
    return Serving(base, own_revision, tokenizer, adapters, max_model_len, stop_ids), token_ids


def sent_token_ids(tokenizer: Any, prompts: Sequence[EvalPrompt], template: str) -> list[list[int]]:
    """What an engine is sent for each prompt: the tokens that training put before the answer."""
    from instruct.data.evaluation import eval_prompt
    from instruct.data.tokens import prompt_token_ids

    return [prompt_token_ids(tokenizer, eval_prompt(prompt.instruction, cast(Any, template))) for prompt in prompts]


def _write(system: _System, prompts: Sequence[EvalPrompt], folder: Path) -> AnswerStats:
    """Write a finished system's answers, if they do not stand there already."""
    batches = system.journal.batches
    outputs = [text for batch in batches for text in batch.texts]
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
        mean_tokens=sum(sum(batch.tokens) for batch in batches) / len(rows),
        engine=system.journal.engine,
        minutes=sum(batch.seconds for batch in batches) / 60,
    )
