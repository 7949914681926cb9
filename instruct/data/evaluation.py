"""Evaluation prompts, the baseline's answers, and answers in AlpacaEval's model_outputs format."""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import re
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from instruct.base.errors import InputError, Problems, one_line
from instruct.base.thinking import parted_inline
from instruct.data.bad_rows import LISTED
from instruct.data.cards import DatasetCard, Source, Template, check_purpose, load_dataset_card
from instruct.data.formats import Prompt, alpaca_prompt, text_field
from instruct.data.sources import RawRow, is_text_file, read_file, read_source, read_texts

# What a judge may be shown of a row, as a placeholder of this name: texts, or lists of texts.
GUIDES = ("rubric", "criteria", "checklist")
# The evaluation set with other references than MT-Bench's wrong ones.
CORRECTED = "mt_bench_corrected"
# What benchmarks call that which identifies a question.
_IDS = ("uid", "question_id", "prompt_id", "key")


@dataclass(frozen=True)
class EvalPrompt:
    """A prompt and the subset of the evaluation set that it belongs to.

    `later` are the questions of further turns, which follow the answer to the one before, and `reference` the right
    answer to each turn, for judges. `id` identifies the question in a benchmark's files. `earlier` are the messages
    before the instruction. `guides` are what else a judge may be shown of the row, see `GUIDES`. `temperature` is what
    the set samples its answers at, if it says so.
    """

    instruction: str
    dataset: str
    later: tuple[str, ...] = ()
    reference: tuple[str, ...] = ()
    id: str | None = None
    earlier: tuple[dict[str, str], ...] = ()
    guides: tuple[tuple[str, str], ...] = ()
    temperature: float | None = None

    @property
    def identity(self) -> list[Any]:
        """Everything that a reply or a verdict depends on, for JSON."""
        return [self.dataset, self.instruction, *filter(None, [self.later, self.reference, self.earlier, self.guides])]

    def answered(self, answers: Sequence[str], generator: str) -> list[dict[str, Any]]:
        """Rows of answers in model_outputs format: one for each turn that is answered, with the turns before it."""
        rows: list[dict[str, Any]] = []
        earlier: list[dict[str, str]] = []
        for number, (asked, answer) in enumerate(zip([self.instruction, *self.later], answers, strict=False), start=1):
            row = {"dataset": self.dataset, "instruction": asked, "output": answer, "generator": generator}
            turn = {"id": f"{self.id or self.instruction}, turn {number}"} if self.later else {"id": self.id}
            beside = {"earlier": [*earlier], "reference": list(self.reference[:number])}
            rows.append(row | {name: value for name, value in (turn | beside | dict(self.guides)).items() if value})
            earlier += [{"role": "user", "content": asked}, {"role": "assistant", "content": answer}]
        return rows


@dataclass(frozen=True)
class EvalSet:
    """Prompts to answer and, if the set has them, the baseline's answers in the same order.

    `baseline` is in model_outputs format: `[{"dataset", "instruction", "output", "generator"}]`; of several sets, it
    answers the prompts of those that have answers.
    """

    name: str
    prompts: list[EvalPrompt]
    baseline: list[dict[str, Any]] | None

    @property
    def baseline_name(self) -> str | None:
        """Who answered; several with a plus between them."""
        return "+".join(dict.fromkeys(row["generator"] for row in self.baseline or ())) or None

    @property
    def sha256(self) -> str:
        """Of the prompts and their subsets; independent of the file that they came from."""
        prompts = [[prompt.instruction, prompt.dataset, *prompt.identity[2:]] for prompt in self.prompts]
        return hashlib.sha256(json.dumps(prompts, ensure_ascii=False).encode()).hexdigest()


def named_sets(names: str, limit: int | None) -> list[tuple[str, int | None]]:
    """The evaluation sets that are named, with commas between them, and each one's limit, as in `mt_bench[:10]`."""
    parts = [re.fullmatch(r"(.+?)(?:\[:(\d+)\])?", name.strip()) for name in names.split(",")]
    if None in parts:
        raise InputError(f"eval_set {names!r}: has a name missing; write names with a comma between them")
    return [(part[1], int(part[2]) if part[2] else limit) for part in parts if part]


def load_eval_sets(names: str, files: Sequence[str] | None = None, limit: int | None = None) -> EvalSet:
    """The evaluation sets of `named_sets` as one.

    The subsets of several are called SET/SUBSET, so that judges can be asked about one of the sets.

    Raises:
        InputError: as load_eval_set, or two sets have the same instruction.
    """
    sets = [load_eval_set(name, files, number) for name, number in named_sets(names, limit)]
    if len(sets) == 1:
        return sets[0]
    prompts = [replace(prompt, dataset=_within(part, prompt.dataset)) for part in sets for prompt in part.prompts]
    twice = [text for text, times in Counter(prompt.instruction for prompt in prompts).items() if times > 1]
    if twice:
        raise InputError(f"eval_set {names}: {one_line(twice[0], 60)!r} is in two of the sets; answer them in two runs")
    baseline = [row | {"dataset": _within(part, row["dataset"])} for part in sets for row in part.baseline or []]
    return EvalSet("+".join(part.name for part in sets), prompts, baseline or None)


def of_sets(rows: Iterable[dict[str, Any]], names: Container[str]) -> list[dict[str, Any]]:
    """The rows of answers to these evaluation sets, of several that were answered together."""
    return [row for row in rows if row["dataset"].partition("/")[0] in names]


def _within(of: EvalSet, dataset: str) -> str:
    return dataset if dataset == of.name else f"{of.name}/{dataset}"


def load_eval_set(name: str, files: Sequence[str] | None = None, limit: int | None = None) -> EvalSet:
    """An evaluation set by its card, cut to its first `limit` prompts.

    The baseline's answers are those of the card's `baseline` file, or else the `output` values of the prompts' rows.
    `files` replace both the prompts and the answers, and the set is called like them; a .txt file has a prompt on each
    line. The questions of Arena-Hard, MT-Bench and IFEval are read as they are published.

    Raises:
        InputError: an unknown card, a card of training data, an unreadable file, a row without an instruction, a
            duplicate instruction, or missing answers.
    """
    card = load_dataset_card(name)
    check_purpose(card, "eval")
    if files:
        raw = [row for file in files for row in _read_prompts(Path(file).expanduser())]
        name = "+".join(Path(file).stem for file in files)
    else:
        raw = list(read_source(card.source, card.folder, section="answers"))
        name = card.name
    raw = [as_prompt(row) for row in raw]
    _check_instructions(raw)
    references = _by_id(card.reference, card) if card.reference and not files else None
    prompts = [_prompt(row, name, references, card.temperatures) for row in raw][:limit]
    if card.baseline is not None and not files:
        answers = _baseline_of(card, prompts)
    elif any(row.fields.get("output") is not None for row in raw):
        answers = [_answer(row, name) for row in raw][:limit]
    else:
        return EvalSet(name, prompts, None)
    return EvalSet(name, prompts, answers)


def _prompt(
    row: RawRow, name: str, references: Mapping[str, RawRow] | None, temperatures: Mapping[str, float]
) -> EvalPrompt:
    """A row's prompt; references are the row's own without a file of the card's, or with one that replaces some."""
    id, part = id_of(row), _part(row, name)
    own = references is None or all("replaces" in other.fields for other in references.values())
    reference = (row.fields.get("reference") or ()) if own else ()
    if references and id is not None and id in references:
        reference = turns_of(references[id])
    return EvalPrompt(
        row.fields["instruction"],
        part,
        later=tuple(row.fields.get("later") or ()),
        reference=tuple(reference),
        id=id,
        guides=tuple(_guides(row).items()),
        temperature=temperatures.get(part),
    )


@functools.cache
def wrong_references() -> dict[str, str]:
    """By the start of their SHA-256, MT-Bench's published references that are wrong, and the id of their question."""
    card = load_dataset_card(CORRECTED)
    rows = read_source(card.reference, card.folder) if card.reference else ()
    return {digest: id_of(row) or "" for row in rows for digest in row.fields.get("replaces", ()) if digest}


def wrong_reference(reference: Sequence[str]) -> str | None:
    """The question's id if one of the turns' references is among those; else None."""
    digests = (hashlib.sha256(text.strip().encode()).hexdigest()[:16] for text in reference)
    return next((wrong_references()[digest] for digest in digests if digest in wrong_references()), None)


def _guides(row: RawRow) -> dict[str, str]:
    """What a row has for judges: texts, or lists of texts with a line for each; what is neither is not for them."""
    guides: dict[str, str] = {}
    for name in GUIDES:
        value = row.fields.get(name)
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            value = "\n".join(f"- {item}" for item in value)
        if isinstance(value, str) and value.strip():
            guides[name] = text_field(replace(row, fields={name: value}), name)
    return guides


def _by_id(source: Source, card: DatasetCard) -> dict[str, RawRow]:
    """The rows of a file of answers, by the id of the question or else by the instruction."""
    rows = list(read_source(source, card.folder, section="answers"))
    return {id_of(row) or _instruction(row): row for row in rows}


def _read_prompts(path: Path) -> Iterable[RawRow]:
    """The rows of a file of prompts; a text file has one on each line, and its blank lines are none."""
    if not is_text_file(path):
        return read_file(path)
    lines = [row for row in read_texts(path) if row.fields["text"].strip()]
    return [RawRow(row.origin, row.row, {"instruction": row.fields["text"]}) for row in lines]


@dataclass(frozen=True)
class AnswerForm:
    """How answers from elsewhere are written.

    `prompt` and `response` name columns, in the files that have them, for `instruction` and `output`; `encoding` is
    that of files that are not UTF-8.
    """

    prompt: str | None = None
    response: str | None = None
    encoding: str | None = None

    def rows_of(self, path: Path) -> list[RawRow]:
        """The rows of a file; raises as `read_file`."""
        return list(read_file(path, encoding=self.encoding, option="--encoding"))

    def renamed(self, files: Sequence[Sequence[RawRow]]) -> list[list[RawRow]]:
        """Each file's rows, with `instruction` and `output`.

        Raises:
            InputError: a named column is in no file, or a file has neither it nor the usual one.
        """
        names, problems = {"instruction": self.prompt, "output": self.response}, Problems()
        for field, flag in (("instruction", "--prompt-column"), ("output", "--response-column")):
            used = any(names[field] in row.fields for rows in files for row in rows)
            column = field if names[field] is None or used else names[field]
            for row in itertools.chain(*files):
                if column != field or not {field, names[field]} & row.fields.keys():
                    problems.found.append(
                        f"{row.place}: no column {one_line(column, 60)!r} (columns: {row.columns}); rename the column, "
                        f"or name it with {flag}"
                    )
                if len(problems.found) == LISTED:
                    problems.refuse()
        problems.refuse()
        return [[self._renamed(row, names) for row in rows] for rows in files]

    def _renamed(self, row: RawRow, names: Mapping[str, str | None]) -> RawRow:
        taken = {field: row.fields[column] for field, column in names.items() if column and column in row.fields}
        return RawRow(row.origin, row.row, row.fields | taken) if taken else row


def load_answers(path: str | Path, form: AnswerForm | None = None) -> list[dict[str, Any]]:
    """The answers in a model_outputs.json: `dataset`, `instruction`, `output` and `generator` of each row.

    A row whose instruction repeats also has its `id`, and one whose prompt got no answer has the reason in `failed` and
    an empty output. Files of AlpacaEval's leaderboard load unchanged: other fields
    are dropped, `generator` defaults to the file's name and `dataset` to "unknown". An empty answer is an answer. One
    that begins with the model's thinking loses that, and its row has `thinking` True; one with False keeps it, because
    verdicts on the whole text were brought from elsewhere.

    Args:
        form: of a file from elsewhere.

    Raises:
        InputError: a missing file, invalid JSON, a row without instruction or output, or an instruction that repeats
            without ids.
    """
    path = Path(path).expanduser()
    rows = list(read_file(path)) if form is None else form.renamed([form.rows_of(path)])[0]
    return answers_of(rows, answers_name(path))


def answers_name(path: Path) -> str:
    """What a file of answers calls its system."""
    return path.name.removesuffix(path.suffix).removesuffix(".model_outputs")


def answers_of(raw: Sequence[RawRow], generator: str) -> list[dict[str, Any]]:
    """The same of rows that were read already; `generator` is the name of rows without one.

    Raises:
        InputErrors: rows without instruction or output, all of them; the first one alone if it lacks a column.
    """
    problems, answers = Problems(), []
    for row in raw:
        with problems.collected():
            answers.append(_answer(row, "unknown", generator))
        if len(problems.found) == LISTED or not {"instruction", "output"} <= raw[0].fields.keys():
            break
    problems.refuse()
    return [answer if id is None else answer | {"id": id} for answer, id in zip(answers, pair_ids(raw), strict=True)]


def identity(row: Mapping[str, Any]) -> str:
    """What identifies a row's pair: its `id`, or its instruction."""
    return str(row.get("id", row["instruction"]))


_TURN = re.compile(r"(.+), turn (\d+)", re.DOTALL)  # as EvalPrompt.answered names it


def turn_of(pair: str) -> tuple[str, int] | None:
    """The conversation and the number of a turn, by what identifies its pair; None: it is no such turn."""
    turn = _TURN.fullmatch(pair)
    return (turn[1], int(turn[2])) if turn else None


def conversations(rows: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """The conversations of rows of answers that are turns of one, by what identifies each row's pair."""
    firsts: dict[str, str] = {}
    by_pair: dict[str, str] = {}
    for row in rows:
        pair = identity(row)
        if turn := turn_of(pair):
            by_pair[pair] = turn[0]
        elif row.get("earlier"):
            begun = str(row["earlier"][0].get("content"))
            by_pair[pair] = firsts.get(begun, begun)
            by_pair.setdefault(by_pair[pair], by_pair[pair])
        else:
            firsts.setdefault(str(row["instruction"]), pair)
    return by_pair


def pair_ids(raw: Sequence[RawRow]) -> list[str | None]:
    """The `id` of each row whose instruction repeats; None for the others, which their instruction identifies.

    Raises:
        InputError: an empty instruction, one that repeats in rows without ids, or an id that repeats.
    """
    instructions = [_instruction(row) for row in raw]
    times = Counter(instructions)
    ids = [_id(row) if times[instruction] > 1 else None for row, instruction in zip(raw, instructions, strict=True)]
    with_it: dict[str, int] = {}
    taken: dict[str, int] = {}
    for number, (row, instruction, id) in enumerate(zip(raw, instructions, ids, strict=True)):
        first = with_it.setdefault(instruction, number)
        lacking = number if id is None else first
        if first != number and ids[lacking] is None:
            other = raw[first if lacking == number else number]
            raise InputError(
                f"{raw[lacking].place}: instruction: {one_line(instruction, 60)!r} is already in row {other.row}; "
                "give each of these rows an `id` of its own, or remove one of them"
            )
        earlier = raw[taken.setdefault(id or instruction, number)]
        if earlier is not row:
            raise InputError(
                f"{row.place}: id: {one_line(id or instruction, 60)!r} already identifies row {earlier.row}; "
                "give each row an id of its own"
            )
    return ids


def _id(row: RawRow) -> str | None:
    value = row.fields.get("id")
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    text = text_field(row, "id")
    if not text.strip():
        raise InputError(f"{row.place}: id: is empty; write one, or remove the key")
    return text


def eval_prompt(instruction: str, template: Template, earlier: Sequence[dict[str, str]] = ()) -> Prompt:
    """The prompt for an instruction, rendered as in training: Alpaca's text without input, or one user message.

    `earlier` messages come before it; in Alpaca's text, which has no turns, each question is an instruction of its own.
    """
    if template == "chat":
        return [*earlier, {"role": "user", "content": instruction}]
    turns = [asked["content"] for asked in earlier[::2]] + [instruction]
    told = [answer["content"] + "\n\n" for answer in earlier[1::2]] + [""]
    return "".join(alpaca_prompt(asked) + answer for asked, answer in zip(turns, told, strict=True))


def _baseline_of(card: DatasetCard, prompts: Iterable[EvalPrompt]) -> list[dict[str, Any]]:
    """The card's answers to the prompts, from the file for a prompt's data set."""
    assert card.baseline is not None
    sources = card.baseline if isinstance(card.baseline, dict) else {"": card.baseline}
    answers = {part: _by_id(source, card) for part, source in sources.items()}
    rows: list[dict[str, Any]] = []
    for prompt in prompts:
        by_id = answers.get(prompt.dataset, answers.get("", {}))
        row = by_id.get(prompt.id or prompt.instruction)
        if row is None:
            origin = next((answer.origin for answer in by_id.values()), "baseline")
            raise InputError(
                f"{origin}: has no answer to {one_line(prompt.instruction, 60)!r} of {card.name}; "
                "use a baseline that answers every prompt"
            )
        generator = text_field(row, "generator", optional=True) or model_of(row) or card.name
        rows += prompt.answered(turns_of(row), generator)
    return rows


def _check_instructions(raw: Iterable[RawRow]) -> None:
    seen: dict[str, RawRow] = {}
    for row in raw:
        instruction = _instruction(row)
        earlier = seen.setdefault(instruction, row)
        if earlier is not row:
            where = f"row {earlier.row}" if earlier.origin == row.origin else earlier.place
            raise InputError(
                f"{row.place}: instruction: {one_line(instruction, 60)!r} is already in {where}; remove one of them"
            )


def _instruction(row: RawRow) -> str:
    instruction = text_field(row, "instruction")
    if not instruction.strip():
        raise InputError(f"{row.place}: instruction: is empty; write a prompt or remove the row")
    return instruction


def _part(row: RawRow, default: str) -> str:
    return text_field(row, "dataset", optional=True) or default


def _answer(row: RawRow, dataset: str, generator: str | None = None) -> dict[str, Any]:
    instruction, failed = _instruction(row), row.fields.get("failed")
    output, whole = text_field(row, "output"), row.fields.get("thinking") is False
    text, thought = (output, None) if whole else parted_inline(output)
    thinking = thought is not None or row.fields.get("thinking") is True
    return {
        "dataset": _part(row, dataset),
        "instruction": instruction,
        "output": text,
        "generator": text_field(row, "generator", optional=True) or generator or dataset,
        **({"failed": failed} if failed and isinstance(failed, str) else {}),
        **({"thinking": thinking} if whole or thinking else {}),
        **{name: row.fields[name] for name in ("earlier", "reference") if isinstance(row.fields.get(name), list)},
        **_guides(row),
    }


def id_of(row: RawRow) -> str | None:
    """What identifies a benchmark's question, in the files of questions, answers and references alike."""
    value = next((row.fields[name] for name in _IDS if row.fields.get(name) is not None), None)
    return None if value is None else str(value)


def as_prompt(row: RawRow) -> RawRow:
    """A row of an evaluation set: a benchmark's question with `instruction`, `later` turns and `dataset`.

    Raises:
        InputError: a turn is no text.
    """
    fields = row.fields
    if "instruction" in fields or id_of(row) is None:
        return row
    asked = next((fields[name] for name in ("turns", "prompt") if fields.get(name)), None)
    turns = [_turn_text(row, turn) for turn in (asked if isinstance(asked, list) else [asked])]
    named = {"instruction": turns[0], "later": turns[1:]} | (
        {"dataset": fields["category"]} if "category" in fields else {}
    )
    return replace(row, fields=fields | named)


def turns_of(row: RawRow) -> list[str]:
    """The answer to each turn, in a row of answers of a leaderboard or of AlpacaEval.

    Raises:
        InputError: there is none, or one is no text.
    """
    choices, messages = row.fields.get("choices"), row.fields.get("messages")
    if isinstance(choices, list) and choices and isinstance(choices[0], Mapping):
        turns = choices[0].get("turns")
    elif isinstance(messages, list):
        turns = [told for told in messages if isinstance(told, Mapping) and told.get("role") == "assistant"]
    else:
        return [text_field(row, "output")]
    if not isinstance(turns, list) or not turns:
        raise InputError(f"{row.place}: has no answers in choices or messages; give the benchmark's own file")
    return [_turn_text(row, turn) for turn in turns]


def model_of(row: RawRow) -> str | None:
    """The model that answered, as a leaderboard calls it."""
    return next((text_field(row, name) for name in ("model", "model_id") if row.fields.get(name)), None)


def unwrapped(value: Any) -> Any:
    """The text that a message or an answer of Arena-Hard holds, which may be wrapped in both."""
    for name in ("content", "answer"):
        value = value[name] if isinstance(value, Mapping) and name in value else value
    return value


def _turn_text(row: RawRow, value: Any) -> str:
    return text_field(replace(row, fields={"turn": unwrapped(value)}), "turn")
