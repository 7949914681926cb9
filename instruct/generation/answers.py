"""Answers of a base model and its fine-tuned systems to evaluation prompts, resumed after a stop."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from instruct.asking.kept import KeptReplies
from instruct.base.errors import InputError, one_line
from instruct.base.models import ModelOptions
from instruct.base.replies import Failure, Reply
from instruct.data.cards import Template
from instruct.data.templates import DEFAULT, Rendering
from instruct.engines.cluster_options import ClusterOptions
from instruct.generation.batches import finished_replies
from instruct.generation.options import GenerationConfig
from instruct.generation.reply_files import write_rows
from instruct.generation.work import System, Work
from instruct.generation.written import ReplyStats, reply_stats, warn_of_failures, written

if TYPE_CHECKING:
    from instruct.data.evaluation import EvalPrompt


def generate_answers(
    model: ModelOptions,
    systems: dict[str, Path | None],
    prompts: Sequence[EvalPrompt],
    template: Template,
    config: GenerationConfig,
    folder: Path,
    cluster: ClusterOptions | None = None,
    rendering: Rendering = DEFAULT,
) -> dict[str, ReplyStats]:
    """Write `folder/NAME.json` (AlpacaEval's model_outputs) for each system and return what was generated.

    A system is a LoRA adapter's folder, None for `model` itself, or the folder of a whole fine-tuned model. Prompts are
    asked as in `finished_replies`: repeating a call that was stopped continues with the missing batches and ends with
    the same bytes; repeating a finished one starts no engine. If the model, adapter, prompts, template or decoding
    changed, that system starts over. A prompt that the engine does not answer has an empty answer with the reason in
    `failed`, and is counted; so has one that is cut off while the model thinks. What it thought before its answer is
    kept beside it, as `reasoning`. Later turns are asked after all answers to the turn before, which each system sees
    its own of; replies to them are kept in `folder/turn_2` and so on. A turn after one that failed has failed.

    Raises:
        InputError: a model, adapter, name or prompt that cannot be used.
        InstructError: the engine failed.
        StoppedError: too many requests failed in a row, or all of a system.
    """
    if not prompts:
        raise InputError("no evaluation prompts to answer; give a set that has some")
    asked = [System(name, source, config.temperature) for name, source in systems.items()]
    work = answer_work(prompts, template, config, rendering)
    turns = [finished_replies(model, asked, work, config, folder, cluster)]
    most = 1 + max(len(prompt.later) for prompt in prompts)
    if most == 1:  # nothing needs all replies at a time
        return {name: _write([kept], [], prompts, folder / f"{name}.json") for name, kept in turns[0].items()}
    replies = {name: [[*written(kept, work.to_the_letter)]] for name, kept in turns[0].items()}
    for number in range(2, most + 1):
        later = {name: _next_turn(prompts, told) for name, told in replies.items()}
        places = {name: [place for place, prompt in enumerate(of) if prompt] for name, of in later.items()}
        every = [prompt for of in later.values() for prompt in of if prompt]
        work = answer_work(every, template, config, rendering)
        seeds = [prompt_seed(config.seed, number * len(prompts) + place) for of in places.values() for place in of]
        work, shares = replace(work, seeds=seeds), {name: len(of) for name, of in places.items()}
        turns.append(finished_replies(model, asked, work, config, folder / f"turn_{number}", cluster, shares))
        for name, kept in turns[-1].items():
            told: list[Reply] = [NOT_ASKED] * len(prompts)
            for place, reply in zip(places[name], written(kept, work.to_the_letter), strict=True):
                told[place] = reply
            replies[name].append(told)
    return {
        name: _write([turn[name] for turn in turns], told, prompts, folder / f"{name}.json")
        for name, told in replies.items()
    }


NOT_ASKED = Failure("no answer to the turn before", permanent=True)


def _next_turn(prompts: Sequence[EvalPrompt], told: Sequence[Sequence[Reply]]) -> list[EvalPrompt | None]:
    """What a system is asked next about each prompt, after these replies of each turn; None: nothing."""
    number = len(told)
    asked: list[EvalPrompt | None] = []
    for prompt, replies in zip(prompts, zip(*told, strict=True), strict=True):
        texts = [reply.text for reply in replies if not isinstance(reply, Failure)]
        if len(prompt.later) < number or len(texts) < number:
            asked.append(None)
            continue
        earlier = prompt.answered([*texts, ""], "")[-1]["earlier"]
        asked.append(replace(prompt, instruction=prompt.later[number - 1], later=(), earlier=tuple(earlier)))
    return asked


def answer_work(
    prompts: Sequence[EvalPrompt], template: Template, config: GenerationConfig, rendering: Rendering = DEFAULT
) -> Work:
    """What every system is asked for its answers."""
    from instruct.data.evaluation import eval_prompt

    temperatures = sampled_at(prompts, config)
    return Work(
        what="answers",
        parts=("prompt", "answer"),
        places=[
            f"{prompt.dataset}: prompt {number} ({one_line(prompt.instruction, 60)!r})"
            for number, prompt in enumerate(prompts, start=1)
        ],
        seeds=[prompt_seed(config.seed, index) for index in range(len(prompts))],
        token_ids=lambda tokenizer: (sent_token_ids(tokenizer, [prompt], template, rendering)[0] for prompt in prompts),
        server_prompts=lambda: [eval_prompt(prompt.instruction, template, prompt.earlier) for prompt in prompts],
        identities=[
            [prompt.dataset, prompt.instruction, *filter(None, [prompt.earlier, temperature])]
            for prompt, temperature in zip(prompts, temperatures, strict=True)
        ],
        identity=[template, *filter(None, [rendering.identity()])],
        decoding=config.model_dump(include={"max_new_tokens", "temperature", "top_p", "seed"})
        | ({} if config.thinking_budget is None else {"thinking_budget": config.thinking_budget}),
        rendering=rendering,
        max_tokens=config.max_new_tokens,
        thinking_budget=config.thinking_budget,
        top_p=config.top_p,
        temperatures=temperatures,
    )


def sampled_at(prompts: Sequence[EvalPrompt], config: GenerationConfig) -> list[float | None]:
    """The temperature that the evaluation set's card names for each prompt; None: the config's."""
    named = config.card_temperatures and config.temperature == 0
    return [prompt.temperature if named else None for prompt in prompts]


def prompt_seed(seed: int, index: int) -> int:
    """A prompt's own seed, so that its sample does not depend on what it is batched with."""
    return int.from_bytes(hashlib.sha256(f"{seed}:{index}".encode()).digest()[:4], "big") >> 1


def sent_token_ids(
    tokenizer: Any, prompts: Sequence[EvalPrompt], template: Template, rendering: Rendering = DEFAULT
) -> list[list[int]]:
    """What an engine on this machine is sent for each prompt: the tokens that training put before the answer."""
    from instruct.data.evaluation import eval_prompt
    from instruct.data.tokens import prompt_token_ids

    asked = [eval_prompt(prompt.instruction, template, prompt.earlier) for prompt in prompts]
    return [prompt_token_ids(tokenizer, prompt, rendering) for prompt in asked]


def _write(
    turns: Sequence[KeptReplies], replies: Sequence[Sequence[Reply]], prompts: Sequence[EvalPrompt], path: Path
) -> ReplyStats:
    """Write a finished system's answers, to each turn of each prompt, unless the file already holds them.

    Args:
        replies: of each turn; empty if there is one turn.
    """
    name = turns[0].system

    def rows() -> Iterator[dict[str, Any]]:
        every: Sequence[Iterable[Reply]] = replies or [written(turns[0], to_the_letter=False)]
        for prompt, told in zip(prompts, zip(*every, strict=True), strict=True):
            texts = ["" if isinstance(reply, Failure) else reply.text for reply in told]
            for row, reply in zip(prompt.answered(texts, name), told, strict=False):
                if isinstance(reply, Failure):
                    yield {**row, "failed": reply.reason}
                    continue
                beside = {"reasoning": reply.reasoning, "tool_calls": reply.tool_calls}
                yield {**row, **{name: value for name, value in beside.items() if value}}

    write_rows(path, rows, indent=2)
    stats = reply_stats(*turns)
    warn_of_failures(name, stats, "answer")
    return stats
