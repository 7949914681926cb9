"""Answers of a base model and its fine-tuned systems to evaluation prompts, resumed after a stop."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from instruct.asking.kept import KeptReplies
from instruct.base.errors import InputError, one_line
from instruct.base.models import ModelOptions
from instruct.base.replies import Failure
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
    kept beside it, as `reasoning`.

    Raises:
        InputError: a model, adapter, name or prompt that cannot be used.
        InstructError: the engine failed.
        StoppedError: too many requests failed in a row, or all of a system.
    """
    if not prompts:
        raise InputError("no evaluation prompts to answer; give a set that has some")
    asked = [System(name, source, config.temperature) for name, source in systems.items()]
    work = answer_work(prompts, template, config, rendering)
    systems_replies = finished_replies(model, asked, work, config, folder, cluster)
    return {name: _write(kept, work, prompts, folder) for name, kept in systems_replies.items()}


def answer_work(
    prompts: Sequence[EvalPrompt], template: Template, config: GenerationConfig, rendering: Rendering = DEFAULT
) -> Work:
    """What every system is asked for its answers."""
    from instruct.data.evaluation import eval_prompt

    return Work(
        what="answers",
        parts=("prompt", "answer"),
        places=[
            f"{prompt.dataset}: prompt {number} ({one_line(prompt.instruction, 60)!r})"
            for number, prompt in enumerate(prompts, start=1)
        ],
        seeds=[prompt_seed(config.seed, index) for index in range(len(prompts))],
        token_ids=lambda tokenizer: (sent_token_ids(tokenizer, [prompt], template, rendering)[0] for prompt in prompts),
        server_prompts=lambda: [eval_prompt(prompt.instruction, template) for prompt in prompts],
        identities=[[prompt.dataset, prompt.instruction] for prompt in prompts],
        identity=[template, *filter(None, [rendering.identity()])],
        decoding=config.model_dump(include={"max_new_tokens", "temperature", "top_p", "seed"})
        | ({} if config.thinking_budget is None else {"thinking_budget": config.thinking_budget}),
        rendering=rendering,
        max_tokens=config.max_new_tokens,
        thinking_budget=config.thinking_budget,
        top_p=config.top_p,
    )


def prompt_seed(seed: int, index: int) -> int:
    """A prompt's own seed, so that its sample does not depend on what it is batched with."""
    return int.from_bytes(hashlib.sha256(f"{seed}:{index}".encode()).digest()[:4], "big") >> 1


def sent_token_ids(
    tokenizer: Any, prompts: Sequence[EvalPrompt], template: Template, rendering: Rendering = DEFAULT
) -> list[list[int]]:
    """What an engine on this machine is sent for each prompt: the tokens that training put before the answer."""
    from instruct.data.evaluation import eval_prompt
    from instruct.data.tokens import prompt_token_ids

    return [prompt_token_ids(tokenizer, eval_prompt(prompt.instruction, template), rendering) for prompt in prompts]


def _write(kept: KeptReplies, work: Work, prompts: Sequence[EvalPrompt], folder: Path) -> ReplyStats:
    """Write a finished system's answers, unless the file already holds them."""

    def rows() -> Iterator[dict[str, Any]]:
        for prompt, reply in zip(prompts, written(kept, work.to_the_letter), strict=True):
            row = {"dataset": prompt.dataset, "instruction": prompt.instruction, "output": "", "generator": kept.system}
            if isinstance(reply, Failure):
                yield {**row, "failed": reply.reason}
                continue
            beside = {"reasoning": reply.reasoning, "tool_calls": reply.tool_calls}
            yield {**row, "output": reply.text, **{name: value for name, value in beside.items() if value}}

    write_rows(folder / f"{kept.system}.json", rows, indent=2)
    stats = reply_stats(kept)
    warn_of_failures(kept.system, stats, work.parts[1])
    return stats
