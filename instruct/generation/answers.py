"""Answers of a base model and its fine-tuned systems to evaluation prompts, resumed after a stop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from instruct.base.errors import InputError, one_line
from instruct.base.models import ModelOptions
from instruct.base.replies import Failure, Reply
from instruct.data.cards import Template
from instruct.data.evaluation import EvalSet, load_eval_set
from instruct.data.templates import DEFAULT, Rendering
from instruct.engines.cluster import Where
from instruct.generation.kept import KeptReplies
from instruct.generation.options import AnswerOptions, GenerationConfig
from instruct.generation.replies import AskedPrompts, System, finished_replies, seed_of
from instruct.generation.written import ReplyStats, reply_stats, warn_of_failures, write_rows, written

if TYPE_CHECKING:
    from instruct.data.prompts import EvalPrompt


def evaluation_set(answers: AnswerOptions) -> EvalSet:
    """The evaluation set, cut to `limit`.

    Raises:
        InputError: no such set, or prompts that cannot be read.
    """
    return load_eval_set(answers.eval_set, answers.files, answers.limit, answers.cluster_column)


def generate_answers(
    model: ModelOptions,
    systems: dict[str, Path | None],
    prompts: Sequence[EvalPrompt],
    template: Template,
    config: GenerationConfig,
    folder: Path,
    where: Where = None,
    rendering: Rendering = DEFAULT,
) -> dict[str, ReplyStats]:
    """Write `folder/NAME.json` (AlpacaEval's model_outputs) for each system and return what was generated.

    A system is a LoRA adapter's folder, None for `model` itself, or the folder of a whole fine-tuned model. Prompts are
    asked as in `finished_replies`: repeating a call that was stopped asks what is missing; repeating a finished one
    starts no engine. If the model, adapter, prompts, template or decoding
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
    first = answer_work(prompts, template, config, rendering)
    asked = [System(name, source, config.temperature) for name, source in systems.items()]
    kept = finished_replies(model, [(system, first) for system in asked], config, folder, where)
    turns: dict[str, list[_Turn]] = {name: [(own, range(len(prompts)))] for name, own in kept.items()}
    for number in range(2, 2 + max(len(prompt.later) for prompt in prompts)):
        later: dict[str, dict[int, EvalPrompt]] = {}  # what each system is asked next, by the places of the prompts
        for name, made in turns.items():
            following = map(_next_turn, prompts, _replies(made, len(prompts)))
            later[name] = {place: prompt for place, prompt in enumerate(following) if prompt}
        works = []
        for system in asked:
            numbers = [number * len(prompts) + place for place in later[system.name]]
            own = [*later[system.name].values()]
            works.append((system, answer_work(own, template, config, rendering, numbers)))
        kept = finished_replies(model, works, config, folder / f"turn_{number}", where)
        for name, made in turns.items():
            made.append((kept[name], later[name]))
    return {name: _write(prompts, made, folder / f"{name}.json", model.name) for name, made in turns.items()}


NOT_ASKED = Failure("no answer to the turn before", permanent=True)


# What was kept of a turn, and the places of the prompts that were asked then.
_Turn = tuple[KeptReplies, Collection[int]]


def _replies(turns: Sequence[_Turn], count: int) -> Iterator[list[Reply]]:
    """Of each of `count` prompts the reply to each turn, read a few at a time."""
    read = [(places, written(kept, to_the_letter=False)) for kept, places in turns]
    for place in range(count):
        yield [next(replies) if place in places else NOT_ASKED for places, replies in read]


def _next_turn(prompt: EvalPrompt, replies: Sequence[Reply]) -> EvalPrompt | None:
    """What a system is asked next about a prompt, after these replies to its turns; None: nothing."""
    texts = [reply.text for reply in replies if not isinstance(reply, Failure)]
    if len(prompt.later) < len(replies) or len(texts) < len(replies):
        return None
    for answer, asked in zip(texts, prompt.later, strict=False):
        prompt = prompt.next_turn(answer, asked)
    return prompt


def answer_work(
    prompts: Sequence[EvalPrompt],
    template: Template,
    config: GenerationConfig,
    rendering: Rendering = DEFAULT,
    numbers: Sequence[int] | None = None,
) -> AskedPrompts:
    """What a system is asked for its answers; `numbers` draw the samples, by default those of the prompts."""
    temperatures = sampled_at(prompts, config)
    identities = []
    times: Counter[str] = Counter()
    for prompt, temperature in zip(prompts, temperatures, strict=True):
        beside = [prompt.earlier, temperature, prompt.input, prompt.system and [prompt.system], times[prompt.whole]]
        identities.append([prompt.dataset, prompt.instruction, *filter(None, beside)])
        times[prompt.whole] += 1
    return AskedPrompts(
        what="answers",
        prompts=[prompt.render(template) for prompt in prompts],
        places=[
            f"{prompt.dataset}: prompt {number} ({one_line(prompt.instruction, 60)!r})"
            for number, prompt in enumerate(prompts, start=1)
        ],
        seeds=[prompt_seed(config.seed, number) for number in (range(len(prompts)) if numbers is None else numbers)],
        identities=identities,
        identity=[template, *filter(None, [rendering.identity()])],
        decoding=config.model_dump(include={"max_new_tokens", "temperature", "top_p", "seed"}),
        temperatures=temperatures,
        rendering=rendering,
    )


def sampled_at(prompts: Sequence[EvalPrompt], config: GenerationConfig) -> list[float | None]:
    """The temperature that the evaluation set's card names for each prompt; None: the config's."""
    named = config.card_temperatures and config.temperature == 0
    return [prompt.temperature if named else None for prompt in prompts]


def prompt_seed(seed: int, index: int) -> int:
    """A prompt's own seed, so that its sample does not depend on what it is batched with."""
    return seed_of(f"{seed}:{index}")


def _write(prompts: Sequence[EvalPrompt], turns: Sequence[_Turn], path: Path, base: str) -> ReplyStats:
    """Write a finished system's answers, to each turn of each prompt, unless the file already holds them."""
    kept = [own for own, _ in turns]
    name = kept[0].system

    def rows() -> Iterator[dict[str, Any]]:
        for prompt, replies in zip(prompts, _replies(turns, len(prompts)), strict=True):
            texts = ["" if isinstance(reply, Failure) else reply.text for reply in replies]
            for row, reply in zip(prompt.answered(texts, name), replies, strict=False):
                if isinstance(reply, Failure):
                    yield {**row, "failed": reply.reason}
                    continue
                beside = {"reasoning": reply.reasoning, "tool_calls": reply.tool_calls}
                yield {**row, **{key: value for key, value in beside.items() if value}}

    write_rows(path, rows(), indent=2)
    stats = reply_stats(base, *kept)
    warn_of_failures(name, stats, "answer")
    return stats
