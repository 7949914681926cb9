"""Continuations of text prefixes, to the letter, by a base model and its fine-tuned systems."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, NonNegativeInt, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from instruct.base.errors import InputError, InstructError, one_line, problem_words
from instruct.base.files import open_to_read
from instruct.base.models import ModelOptions, model_path
from instruct.base.replies import Completion
from instruct.data.cards import load_dataset_card, parse_length
from instruct.data.prefixes import Prefix, PrefixSet, load_prefixes
from instruct.engines.cluster import Where
from instruct.engines.local import load_tokenizer
from instruct.generation.kept import KeptReplies
from instruct.generation.options import ContinuationOptions
from instruct.generation.replies import AskedPrompts, System, finished_replies, seed_of
from instruct.generation.written import ReplyStats, reply_stats, warn_of_failures, write_rows, written


@dataclass(frozen=True, slots=True, config=ConfigDict(extra="forbid", strict=True))
class Continuation:
    """A prefix of a human text and what a system wrote after it.

    Attributes:
        id: of the prefix; two texts may begin with the same prefix.
        prefix: what the system continued; `prefix + continuation` is the whole text, to the letter.
        continuation: may be empty, if the system ended at once.
        reference: how the human text goes on: `prefix + reference` is its beginning, to the letter; None: unknown.
        sample, seed: which sample of the prefix this is, from 0, and the seed of the config that it was drawn with.
        tokens: of the continuation, without an end token; None: a server did not count them.
        finish_reason: `length` or `stop`.
        cluster: of prefixes that depend on each other, such as those of one document, if they are named.
    """

    id: str
    prefix: str
    continuation: str
    reference: str | None
    sample: NonNegativeInt
    seed: int
    tokens: NonNegativeInt | None
    finish_reason: str
    cluster: str = ""

    @property
    def key(self) -> tuple[str, int, int]:
        """What identifies it in its file, and the same continuation of another system: prefix, seed and sample."""
        return self.id, self.seed, self.sample


def config_prefixes(model: ModelOptions, options: ContinuationOptions) -> PrefixSet:
    """The prefixes, cut to `limit`; lengths in tokens are those of `model`.

    Raises:
        InputError: no such card, texts that cannot be read, or none that can be cut.
    """
    card = load_dataset_card(options.card) if options.card else None
    cuts = [options.cut, *([card.cut] if card and card.cut else [])]
    cut_lengths = [length for cut in cuts for length in (cut.prefix, cut.continuation) if length]
    tokenizer: Any = None
    if options.generation.engine != "server" and any(length.endswith(" tokens") for length in cut_lengths):
        name = model_path(model.name)
        tokenizer = load_tokenizer(f"model {model.name}", name, model.revision)
    return load_prefixes(
        card,
        options.cut,
        files=options.files,
        documents=options.documents,
        column=options.column,
        cluster_column=options.cluster_column,
        limit=options.limit,
        tokenizer=tokenizer,
    )


def prefixes_text(prefixes: PrefixSet, options: ContinuationOptions) -> str:
    """How many prefixes there are, of what, and how they will be continued, for people."""
    most, least = lengths(prefixes, options)
    draws = options.samples * len(options.seeds)
    tokens = f"{most} tokens" if least == most else f"{least} to {most} tokens"
    read = f"{prefixes.counts['read']:,} rows"
    left_out = [
        f"{count:,} {reason}"
        for reason, count in prefixes.counts.items()
        if reason not in ("read", "kept", "windows") and count
    ]
    return (
        f"{prefixes.name}: {len(prefixes.prefixes):,} prefixes"
        + (f" of {prefixes.cut.prefix} from {read}" if prefixes.cut.prefix else "")
        + (f" ({', '.join(left_out)} left out)" if left_out else "")
        + f", {draws} {'continuation' if draws == 1 else 'continuations'} of {tokens} each"
    )


@dataclasses.dataclass(frozen=True)
class _Draw:
    prefix: Prefix
    seed: int
    sample: int


def continue_texts(
    model: ModelOptions,
    systems: Mapping[str, tuple[Path | None, float]],
    prefixes: PrefixSet,
    options: ContinuationOptions,
    folder: Path,
    where: Where = None,
) -> dict[str, ReplyStats]:
    """Write `folder/NAME.json` for each system (see `read_continuations`) and return what was generated.

    A call that was stopped resumes as in `finished_replies`. In vLLM a sample depends on its prefix, seed and number
    alone; transformers draws a whole batch from one seed.

    Args:
        systems: for each name a LoRA adapter's folder, None for `model` itself, or the folder of a whole fine-tuned
            model; and the temperature it samples at.
        where: machines that load the model instead of this one.

    Raises:
        InputError: a model, adapter or name that cannot be used, a prefix that does not fit the context, no length.
        InstructError: the engine failed, or a prefix has no continuation.
    """
    draws = []
    for seed, sample in itertools.product(options.seeds, range(options.samples)):
        draws += [_Draw(prefix, seed, sample) for prefix in prefixes.prefixes]
    asked = [System(name, source, temperature) for name, (source, temperature) in systems.items()]
    if len(draws) > len(prefixes.prefixes) and any(system.temperature == 0 for system in asked):
        raise InputError(
            "continuations: at temperature 0 all samples of a prefix are the same; set samples to 1 and give one seed"
        )
    work = continuation_work(draws, prefixes, options)
    works = [(system, work) for system in asked]
    replies = finished_replies(model, works, options.generation, folder, where)
    stats = {name: reply_stats(model.name, kept) for name, kept in replies.items()}
    for name, counts in stats.items():
        warn_of_failures(name, counts, "continuation")
    if failed := [name for name, counts in stats.items() if counts.failed]:
        # A sample that lacks texts is another sample: MAUVE and diversity have no bounds for what is missing.
        raise InstructError(
            f"continuations: {' and '.join(failed)} did not continue all prefixes; what was continued is kept: leave "
            "out the prefixes that fail (see continuations.files and .limit), or ask another server"
        )
    for kept in replies.values():
        _write(kept, draws, folder)
    return stats


def continuation_work(draws: list[_Draw], prefixes: PrefixSet, options: ContinuationOptions) -> AskedPrompts:
    """What every system is asked for its continuations."""
    most, least = lengths(prefixes, options)
    return AskedPrompts(
        what="continuations",
        prompts=[draw.prefix.text for draw in draws],
        places=[f"{draw.prefix.place}: the prefix {one_line(draw.prefix.text, 60)!r}" for draw in draws],
        # The same for all systems, whatever a sample is batched with.
        seeds=[seed_of(json.dumps([draw.seed, draw.sample, draw.prefix.id])) for draw in draws],
        identities=[[draw.prefix.id, draw.prefix.text, draw.seed, draw.sample] for draw in draws],
        identity=[],
        decoding={"max_new_tokens": most, "min_new_tokens": least, "top_p": options.generation.top_p},
    )


def lengths(prefixes: PrefixSet, options: ContinuationOptions) -> tuple[int, int]:
    """The most and the least tokens of a continuation.

    Raises:
        InputError: no length is given, or the least exceeds the most.
    """
    reference, generation = prefixes.cut.continuation, options.generation
    if generation.max_new_tokens is None and reference is None:
        raise InputError("continuations: has no length; set continuations.continuation, such as 80 words")
    most = generation.max_new_tokens or parse_length(reference or "")[0]
    least = most if generation.min_new_tokens is None else generation.min_new_tokens
    if least > most:
        raise InputError(
            f"continuations.generation.min_new_tokens {least}: exceeds the longest length {most}; lower it"
        )
    return most, least


def _write(kept: KeptReplies, draws: list[_Draw], folder: Path) -> None:
    """Write a finished system's continuations, unless the file already holds them."""
    rows = []
    for draw, reply in zip(draws, written(kept, to_the_letter=True), strict=True):
        assert isinstance(reply, Completion)  # else the call ended before
        row = Continuation(
            id=draw.prefix.id,
            prefix=draw.prefix.text,
            continuation=reply.text,
            reference=draw.prefix.reference,
            sample=draw.sample,
            seed=draw.seed,
            tokens=reply.completion_tokens,
            finish_reason=str(reply.finish_reason),
            cluster=draw.prefix.cluster,
        )
        rows.append(row)
    write_continuations(folder / f"{kept.system}.json", rows)


_FILE = TypeAdapter(list[Continuation])


def read_continuations(path: str | Path) -> list[Continuation]:
    """The continuations in `runs/NAME/continuations/SYSTEM.json`, in the order of the file.

    Raises:
        InputError: a missing or empty file, a row that is not a continuation, or one that is there twice.
    """
    path = Path(path)
    try:
        with open_to_read(path) as file:
            rows = _FILE.validate_json(file.read())
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read ({one_line(error.strerror, 100)}); continue the prefixes first: "
            f"`instruct generate {path.parent.parent}`"
        ) from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = [str(part) for part in first["loc"]]
        where = f", row {int(place[0]) + 1}" if place and place[0].isdigit() else ""
        where += f": {one_line(place[1], 60)}" if len(place) > 1 else ""
        raise InputError(f"{path}{where}: {one_line(problem_words(first), 160)}; generate the file again") from None
    if not rows:
        raise InputError(f"{path}: has no continuations; generate the file again")
    seen: dict[tuple[str, int, int], int] = {}
    for number, row in enumerate(rows, start=1):
        earlier = seen.setdefault(row.key, number)
        if earlier != number:
            raise InputError(
                f"{path}, row {number}: sample {row.sample} of seed {row.seed} of the prefix {one_line(row.id, 60)!r} "
                f"is already in row {earlier}; remove one of them"
            )
    return rows


def write_continuations(path: Path, rows: Iterable[Continuation]) -> None:
    """Write the file of a system's continuations, unless it has these rows already."""
    fields = map(dataclasses.asdict, rows)
    contents = ({name: value for name, value in row.items() if value or name != "cluster"} for row in fields)
    write_rows(path, contents, indent=1)
