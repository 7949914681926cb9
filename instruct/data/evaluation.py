"""Evaluation prompts, the baseline's answers, and answers in AlpacaEval's model_outputs format."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from instruct.base.errors import InputError, Problems, one_line
from instruct.data.bad_rows import LISTED
from instruct.data.cards import DatasetCard, check_purpose, load_dataset_card
from instruct.data.formats import text_field, with_cluster
from instruct.data.prompts import (
    EvalPrompt,
    as_prompt,
    id_of,
    pair_ids,
    prompt_column,
    read_prompt,
    say_unread,
    turn_text,
)
from instruct.data.sources import RawRow, is_text_file, read_file, read_source, read_texts

# The categories of MT-Bench whose judge FastChat shows a reference (lm-sys/FastChat, llm_judge/common.py).
REFERENCED = ("math", "reasoning", "coding")


@dataclass(frozen=True)
class EvalSet:
    """Prompts to answer and, if the set has them, the baseline's answers in the same order.

    `baseline` is in model_outputs format: `[{"dataset", "instruction", "output", "generator"}]`.
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
        prompts = [
            [prompt.instruction, prompt.dataset, *prompt.identity[2:], *filter(None, [prompt.cluster])]
            for prompt in self.prompts
        ]
        return hashlib.sha256(json.dumps(prompts, ensure_ascii=False).encode()).hexdigest()


def load_eval_set(
    name: str, files: Sequence[str] | None = None, limit: int | None = None, cluster_column: str | None = None
) -> EvalSet:
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
    raw: list[RawRow] = []
    for file in files or ():
        path = Path(file).expanduser()
        if is_text_file(path):  # a prompt on each line that is not blank
            raw += (row for row in read_texts(path) if row.fields["text"].strip())
        else:
            raw += read_file(path)
    if files:
        name = "+".join(Path(file).stem for file in files)
        say_unread(raw, *map(prompt_column, raw), cluster_column)
    else:
        raw += read_source(card.source, card.folder, section="answers")
        name = card.name
    raw = [with_cluster(row, cluster_column) for row in _asked(raw)]
    prompts = [read_prompt(row, name) for row in raw]
    seen: dict[str, RawRow] = {}
    for row, prompt in zip(raw, prompts, strict=True):
        earlier = seen.setdefault(prompt.whole, row)
        if earlier is not row:
            where = f"row {earlier.row}" if earlier.origin == row.origin else earlier.place
            raise InputError(
                f"{row.place}: instruction: {one_line(prompt.request, 60)!r} is already in {where}; remove one of them"
            )
    prompts = [replace(prompt, temperature=card.temperatures.get(prompt.dataset)) for prompt in prompts[:limit]]
    answers = None
    if card.baseline is not None and not files:
        answers = _baseline_of(card, prompts)
    elif any(row.fields.get("output") is not None for row in raw):
        answers = []
        for row, prompt in zip(raw, prompts, strict=False):
            answers.append(_answer(row, prompt, name) | ({"id": prompt.id} if prompt.id else {}))
    return EvalSet(name, prompts, answers)


def _asked(rows: Iterable[RawRow]) -> list[RawRow]:
    """What rows ask, see `as_prompt`. The references of MT-Bench's questions are those that FastChat shows its judge:
    of the file reference_answer/gpt-4.jsonl beside theirs, for some categories; not the questions' own."""
    answers: dict[str, dict[str | None, list[str]]] = {}
    asked = []
    for row in map(as_prompt, rows):
        if row.fields.get("later") and "category" in row.fields and row.fields.keys() & {"question_id", "prompt_id"}:
            if row.origin not in answers:
                file = Path(row.origin).with_name("reference_answer") / "gpt-4.jsonl"
                told = read_file(file) if file.is_file() else ()
                answers[row.origin] = {id_of(each): turns_of(each) for each in told}
            needed = row.fields["category"] in REFERENCED
            row = replace(
                row, fields=row.fields | {"reference": answers[row.origin].get(id_of(row)) if needed else None}
            )
        asked.append(row)
    return asked


@dataclass(frozen=True)
class AnswerForm:
    """How answers from elsewhere are written.

    `prompt` and `response` name columns, in the files that have them, for `instruction` and `output`, and `cluster` one
    with the same value in rows that depend on each other. `questions` is the benchmark's file of questions, for its
    files of answers.
    """

    prompt: str | None = None
    response: str | None = None
    questions: str | None = None
    cluster: str | None = None

    def renamed(self, files: Sequence[Sequence[RawRow]]) -> list[list[RawRow]]:
        """Each file's rows, with `instruction` and `output`; benchmarks' answers are joined with their questions.

        Raises:
            InputError: a named column is in no file, or a file has neither it nor the usual one; as `_joined`.
        """
        asked = _asked(read_file(Path(self.questions).expanduser())) if self.questions else []
        questions = {id_of(row): read_prompt(row, "unknown") for row in asked}
        files = [_joined(rows, questions, self.questions) for rows in files]
        names, problems = {"instruction": self.prompt, "output": self.response}, Problems()
        for field, key in (("instruction", "`prompt_column`"), ("output", "`response_column`")):
            used = any(names[field] in row.fields for rows in files for row in rows)
            column = field if names[field] is None or used else names[field]
            for rows in files:
                lacking = (row for row in rows if column != field or not {field, names[field]} & row.fields.keys())
                if row := next(lacking, None):
                    problems.found.append(
                        f"{row.place}: no column {one_line(column, 60)!r} (columns: {row.columns}); rename the column, "
                        f"or name it as {key}"
                    )
        problems.refuse()
        clustered = [any(self.cluster in row.fields for row in rows) for rows in files]
        renamed: list[list[RawRow]] = []
        for rows, has_clusters in zip(files, clustered, strict=True):
            renamed.append([])
            cluster = self.cluster if has_clusters or not any(clustered) else None
            for row in rows:
                row = with_cluster(row, cluster)
                taken = {field: row.fields[name] for field, name in names.items() if name and name in row.fields}
                renamed[-1].append(RawRow(row.origin, row.row, row.fields | taken) if taken else row)
        return renamed


def _joined(rows: Sequence[RawRow], questions: Mapping[str | None, EvalPrompt], file: str | None) -> Sequence[RawRow]:
    """The answers of MT-Bench's or Arena-Hard's own file with what they answer; other files as they are.

    Arena-Hard's `messages` have their questions; `choices` are joined on the question's id.

    Raises:
        InputError: an answer without its question, with answers to other turns, or there twice.
    """
    if "instruction" in rows[0].fields or rows[0].fields.keys().isdisjoint(("choices", "messages")):
        return rows
    seen: dict[str | None, RawRow] = {}
    answered = []
    for row in rows:
        id, model, told = id_of(row), model_of(row), turns_of(row)
        prompt = questions.get(id)
        if prompt is None and isinstance(row.fields.get("messages"), list):
            asked = [turn_text(row, turn) for turn in row.fields["messages"] if turn.get("role") == "user"]
            prompt = EvalPrompt(asked[0], "unknown", later=tuple(asked[1:]), id=id) if asked else None
        if prompt is None:
            where = f"{file} has no question {id}" if file else "has answers without their questions"
            raise InputError(f"{row.place}: {where}; give the benchmark's file of `questions`")
        if len(told) != 1 + len(prompt.later):
            raise InputError(f"{row.place}: has {len(told)} answers to {1 + len(prompt.later)} turns; correct it")
        if seen.setdefault(id, row) is not row:
            raise InputError(
                f"{row.place}: {one_line(model, 60)} already answers {one_line(id, 60)!r} in row {seen[id].row}; "
                "remove one of them (the benchmark's own scripts take the last)"
            )
        answered += [RawRow(row.origin, row.row, answer) for answer in prompt.answered(told, model or "")]
    return answered


def load_answers(path: str | Path, form: AnswerForm | None = None) -> list[dict[str, Any]]:
    """The answers in a model_outputs.json: `dataset`, `instruction`, `output` and `generator` of each row.

    A row also has what `EvalPrompt` has beside the instruction, its `id` if its request repeats, and in `failed` the
    reason if its prompt got no answer. Files of AlpacaEval's leaderboard load unchanged: other fields are dropped,
    `generator` defaults to the file's name and `dataset` to "unknown". An empty answer is an answer.

    Args:
        form: of a file from elsewhere.

    Raises:
        InputError: a missing file, invalid JSON, a row without instruction or output, or an instruction that repeats
            without ids.
    """
    path = Path(path).expanduser()
    rows = list(read_file(path))
    return answers_of(form.renamed([rows])[0] if form else rows, answers_name(path))


def answers_name(path: Path) -> str:
    """What a file of answers calls its system."""
    return Path(path.name.removesuffix(".gz")).stem.removesuffix(".model_outputs")


def answers_of(raw: Sequence[RawRow], generator: str) -> list[dict[str, Any]]:
    """The same of rows that were read already; `generator` is the name of rows without one.

    Raises:
        InputErrors: rows without instruction or output, all of them; the first one alone if it lacks a column.
    """
    problems, prompts, answers = Problems(), [], []
    for row in raw:
        with problems.collected():
            prompts.append(read_prompt(row, "unknown"))
            answers.append(_answer(row, prompts[-1], generator))
        if len(problems.found) == LISTED or not {"instruction", "output"} <= raw[0].fields.keys():
            break
    problems.refuse()
    ids = pair_ids(raw, prompts)
    return [answer if id is None else answer | {"id": id} for answer, id in zip(answers, ids, strict=True)]


def _answer(row: RawRow, prompt: EvalPrompt, generator: str) -> dict[str, Any]:
    failed, output = row.fields.get("failed"), text_field(row, "output")
    more = {"failed": failed} if failed and isinstance(failed, str) else {}
    return prompt.row(output, text_field(row, "generator", optional=True) or generator, **more)


def _baseline_of(card: DatasetCard, prompts: Iterable[EvalPrompt]) -> list[dict[str, Any]]:
    """The card's answers to the prompts, from the file for a prompt's data set."""
    assert card.baseline is not None
    sources = card.baseline if isinstance(card.baseline, dict) else {"": card.baseline}
    answers = {}  # by the id of the question or else by the instruction
    for part, source in sources.items():
        told = read_source(source, card.folder, section="answers")
        answers[part] = {id_of(row) or read_prompt(row, "").request: row for row in told}
    rows: list[dict[str, Any]] = []
    for prompt in prompts:
        by_id = answers.get(prompt.dataset, answers.get("", {}))
        row = by_id.get(prompt.id or prompt.request)
        if row is None:
            origin = next((answer.origin for answer in by_id.values()), "baseline")
            raise InputError(
                f"{origin}: has no answer to {one_line(prompt.instruction, 60)!r} of {card.name}; "
                "use a baseline that answers every prompt"
            )
        generator = text_field(row, "generator", optional=True) or model_of(row) or card.name
        rows += prompt.answered(turns_of(row), generator)
    return rows


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
    return [turn_text(row, turn) for turn in turns]


def model_of(row: RawRow) -> str | None:
    """The model that answered, as a leaderboard calls it."""
    return next((text_field(row, name) for name in ("model", "model_id") if row.fields.get(name)), None)
