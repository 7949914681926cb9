"""What a judge is shown: two systems' answers become presentations, each with the requests that ask about it."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from instruct.analysis.outcomes import IDENTICAL, candidate_is_second
from instruct.base.errors import InputError, counted, one_line
from instruct.data.prompts import GUIDES, identity, missing_prompts, request_of
from instruct.engines.base import Engine, Message, Prompt, Request, likely_tokens
from instruct.engines.encode import FilledText
from instruct.judging.annotators import chat_turns
from instruct.judging.asking import Judge
from instruct.judging.cards import JudgeCard, PromptFor
from instruct.judging.comparison import ComparisonKey
from instruct.judging.store import Judgment, JudgmentStore
from instruct.judging.verdicts import Reading
from instruct.run.replies import completion_key


@dataclass(frozen=True)
class Answers:
    """A system's answers in AlpacaEval's model_outputs form.

    A row's `failed`, if it has one, says why the prompt got no answer. Its `id`, if it has one, identifies the pair
    instead of the request: sets with human labels show one instruction with several answers. The other fields are those
    of `EvalPrompt.row`.
    """

    name: str
    rows: list[dict[str, Any]]


@dataclass(frozen=True)
class Presentation:
    """One pair in one order, and its requests: one, or two if each answer is rated alone.

    `about` is what will be judged, its verdict not read yet.
    """

    about: Judgment
    requests: tuple[Request, ...]

    @property
    def key(self) -> str:
        """The keys of its requests, separated by a space."""
        return " ".join(request.key for request in self.requests)

    def judged(self, reading: Reading) -> Judgment:
        """The verdict of its replies."""
        return replace(self.about, key=self.key, **vars(reading))


@dataclass(frozen=True)
class Plan:
    """A comparison before it is judged: what to ask about, and what is decided without asking.

    `decided`: identical answers are ties; a pair without an answer on one side is failed, with the reason. `notes`:
    what the rows have and the judge is not shown.
    """

    comparison: ComparisonKey
    presentations: list[Presentation]
    decided: list[Judgment]
    notes: list[str] = field(default_factory=list)

    def requests(self) -> dict[str, Request]:
        """Every request, by its key."""
        return {request.key: request for shown in self.presentations for request in shown.requests}

    def missing(self, store: JudgmentStore, retry_failed: bool) -> list[Request]:
        """The requests that have no completion and are asked for.

        Unless `retry_failed`, not those of a presentation with one that was refused for good, or asked again twice.
        """
        requests = self.requests()
        missing = requests.keys() - store.completions(requests).keys()
        given_up = set() if retry_failed else store.given_up(missing)
        asked = (shown.requests for shown in self.presentations if given_up.isdisjoint(shown.key.split()))
        keys = dict.fromkeys(request.key for request in itertools.chain.from_iterable(asked))
        return [requests[key] for key in keys if key in missing]


def plan_comparison(judge: Judge, candidate: Answers, baseline: Answers, engine: Engine) -> Plan:
    """What to show the judge, in the order in which it is shown. Nothing is asked.

    Raises:
        InputError: candidate and baseline have different prompts.
    """
    card = judge.card
    template = AnswerChats() if card.protocol == "reward" else PromptTemplate(card)
    plan = Plan(ComparisonKey(card.name, candidate.name, baseline.name), [], [])
    hidden: Counter[str] = Counter()
    turns: dict[int, str] = {}  # by pair, what a server may take for the mark of a turn
    criteria = judge.options.criteria
    if criteria and "criteria" not in template.fields:
        name = one_line(judge.options.card, 80)
        raise InputError(f"judge {name}: its prompt shows no criteria; use the judge pairwise, or drop `criteria`")
    for pair, (ours, theirs) in enumerate(joined(candidate, baseline)):
        prompt_row = ours | {name: theirs[name] for name in _BESIDE if name in theirs and not ours.get(name)}
        if criteria:
            prompt_row = {"criteria": criteria} | prompt_row
        hidden.update(template.hidden(prompt_row))
        lacking = [
            f"no answer of {side.name}: {row['failed']}"
            for side, row in ((candidate, ours), (baseline, theirs))
            if row.get("failed")
        ]
        positions = ["first", "second"]
        if card.rates_alone:
            positions = ["first"]  # each answer is shown alone, so there is no order
        elif judge.orders == "one":
            positions = ["second" if candidate_is_second(ours["instruction"]) else "first"]
        for position in positions:
            in_order = (ours, theirs) if position == "first" else (theirs, ours)
            texts = (in_order[0]["output"], in_order[1]["output"])
            if judge.engine == "server" and (mark := _TURN_MARK.search("\n".join(texts))):
                turns[pair] = mark[0]
            earlier = [row.get("earlier", []) for row in in_order]
            about = Judgment(*plan.comparison, pair, identity(ours), ours["dataset"], position, "", "failed")
            if lacking:
                plan.decided.append(replace(about, reason="; ".join(lacking)))
            elif texts[0] == texts[1] and earlier[0] == earlier[1]:
                plan.decided.append(replace(about, verdict="tie", reason=IDENTICAL))
            else:
                row = prompt_row | ({"conversations": earlier} if any(earlier) else {})
                prompts, was_trimmed = _prompts(judge, template, row, texts, engine)
                requests = tuple(judge_request(judge, prompt, engine) for prompt in prompts)
                plan.presentations.append(Presentation(replace(about, trimmed=was_trimmed), requests))
    if turns:
        plan.notes.append(
            f"judge {card.name}: answers of {counted(len(turns), 'pair')} contain special tokens such as "
            f"{next(iter(turns.values()))}; where the server reads them as its own, an answer speaks to the judge: "
            "read its replies, or ask the model on this machine"
        )
    if hidden:
        parts = ", ".join(f"{name} ({count} of {counted(pair + 1, 'pair')})" for name, count in hidden.items())
        plan.notes.append(f"judge {card.name} is not shown what the rows have as {parts}")
    return plan


def joined(candidate: Answers, baseline: Answers) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """The candidate's and the baseline's rows, joined on exactly equal requests, or on their ids.

    Raises:
        InputError: a prompt that only one side has, as none is dropped; one of which the two rows say different things.
    """
    theirs = {identity(row): row for row in baseline.rows}
    ours = {identity(row) for row in candidate.rows}
    for name, missing in (
        (baseline.name, [i for i in map(identity, candidate.rows) if i not in theirs]),
        (candidate.name, [i for i in theirs if i not in ours]),
    ):
        if missing:
            has = theirs if name == baseline.name else ours
            raise InputError(f"answers {name}: {missing_prompts(missing, has)}; answer the same prompts with both")
    pairs = [(row, theirs[identity(row)]) for row in candidate.rows]
    for pair in pairs:
        for name, (one, other) in zip(_ASKED, zip(*map(_asked, pair), strict=True), strict=True):
            if one and other and one != other:
                raise InputError(
                    f"answers {candidate.name} and {baseline.name}: the {name} of {one_line(identity(pair[0]), 60)!r} "
                    "is not the same in both; answer the same prompts with both"
                )
    return pairs


# What else a judge may be shown of a prompt than its request and the turns before it.
_BESIDE = ("system", "earlier", "reference", *GUIDES)
_ASKED = ("instruction", "system", "reference", *GUIDES, "earlier")


def _asked(row: Mapping[str, Any]) -> list[Any]:
    """What a row says about its prompt, in the order of _ASKED; of the turns before it, those of the user."""
    questions = [turn["content"] for turn in row.get("earlier") or () if turn["role"] == "user"]
    return [request_of(row), *map(row.get, _ASKED[1:-1]), questions]


def _prompts(
    judge: Judge, template: AnswerChats | PromptTemplate, row: dict[str, Any], shown: tuple[str, str], engine: Engine
) -> tuple[tuple[Prompt, ...], bool]:
    if not judge.options.trim:
        return template.render_all(row, *shown), False

    def fits(prompt: Prompt) -> bool:
        tokens = engine.tokens(prompt)
        if tokens is None:  # only the server can count them: a quarter more than is likely
            tokens = math.ceil(1.25 * likely_tokens(prompt))
        reply = 0 if judge.card.protocol == "reward" else judge.card.decoding.max_tokens
        return tokens + reply <= judge.card.context_length

    return trimmed(template, row, *shown, fits)


def judge_request(judge: Judge, prompt: Prompt, engine: Engine) -> Request:
    card = judge.card
    asked: dict[str, Any] = {"prompt": prompt, **engine.identity}
    if card.protocol != "reward":
        asked |= {
            "decoding": card.decoding.model_dump(),
            "labels": card.verdict.labels and card.verdict.labels.model_dump(),
            "schema": card.response_schema,
            "sample": 0,
        }
    return Request(completion_key(asked), prompt, judge.most_usd(prompt))


# The judges' authors' placeholders, so that their prompts can be kept byte for byte, and this project's own.
_NAMES = {
    "prompt": "instruction",  # Auto-J
    "response": "first",
    "response_another": "second",
    "resp1": "first",  # PandaLM
    "resp2": "second",
    "output_1": "first",  # AlpacaEval
    "output_2": "second",
    "question": "instruction",  # FastChat's MT-Bench
    "answer_a": "first",
    "answer_b": "second",
}
_SINGLE_NAMES = {"answer": "first", "prompt": "instruction", "response": "first", "question": "instruction"}
# MT-Bench's, for a turn by its number from 1: the question, the answers, and their reference.
_TURNS = r"(?:question|answer|answer_[ab]|ref_answer)_\d+"
_NEEDED = {"pairwise": ("instruction", "first", "second"), "single": ("instruction", "answer")}
# A part of a prompt that only rows with this field have.
_SECTION = re.compile(r"\{#(" + "|".join(("input", *_BESIDE)) + r")\}(.*?)\{/\1\}", re.DOTALL)
# What chat templates write around turns, in the families that servers serve.
_TURN_MARK = re.compile(r"<\|[^|<>\s]{1,40}\|>|<｜[^｜<>\s]{1,40}｜>|</?s>|\[/?INST\]|<(?:start|end)_of_turn>|<[be]os>")
_CHATML = re.compile(r"<\|im_start\|>(\w+)\n(.*?)\n?<\|im_end\|>", re.DOTALL)


class AnswerChats:
    """The prompts of a reward model: a chat with the system prompt, the request and an answer, for each answer."""

    fields = frozenset({"instruction", "input", "system", "earlier"})

    def hidden(self, row: Mapping[str, Any]) -> list[str]:
        """What a row has and the chats do not show."""
        return [name for name in ("reference", *GUIDES) if row.get(name)]

    def render_all(self, row: dict[str, Any], first: str, second: str) -> tuple[Prompt, ...]:
        """The chat for each of two answers. A row's `input` follows the instruction and a blank line."""
        system = [{"role": "system", "content": row["system"]}] if row.get("system") else []
        asked = {"role": "user", "content": request_of(row)}
        return tuple(
            [*system, *earlier, asked, {"role": "assistant", "content": answer}]
            for earlier, answer in zip(_conversations(row), (first, second), strict=True)
        )


class PromptTemplate:
    """A card's prompt: read once, rendered for many pairs.

    Raises:
        InputError: the prompt lacks a placeholder.
    """

    def __init__(self, card: JudgeCard) -> None:
        self._card = card
        pairwise = card.protocol == "pairwise"
        self._names = _NAMES if pairwise else _SINGLE_NAMES
        self._answers = {"first", "second"} if pairwise else {"first"}
        self._turn_answers = {"answer_a", "answer_b"} if pairwise else {"answer"}
        shown = ["first", "second"] if pairwise else []
        known = ["instruction", "input", *_BESIDE, *shown, *self._names]
        self._placeholder = re.compile(r"\{(" + "|".join([*known, _TURNS]) + r")\}")
        self._text = self._read()
        self._further = [(prompt, self._read(prompt)) for prompt in card.prompts]

    def render_all(self, row: dict[str, Any], first: str, second: str) -> tuple[Prompt, ...]:
        """The prompts about two answers, in the order shown: one for the pair, or one for each if they are rated alone.

        A row's `input` replaces {input}; a prompt without {input} gets it after the instruction and a blank line, as in
        AlpacaEval. All placeholders are replaced in a single pass, so an answer that contains "{second}" is unchanged.
        """
        first, second = self._cleaned(first), self._cleaned(second)
        if self._card.protocol == "single":
            return tuple(
                self._rendered(row | {"conversations": [earlier]}, {"first": answer})
                for earlier, answer in zip(_conversations(row), (first, second), strict=True)
            )
        return (self._rendered(row, {"first": first, "second": second}),)

    @property
    def fields(self) -> set[str]:
        """What some rows' prompts show."""
        return set().union(*map(self._used, [self._text, *(text for _, text in self._further)]))

    def hidden(self, row: Mapping[str, Any]) -> list[str]:
        """What a row has and its prompt does not show.

        Raises:
            InputError: the prompt does not show the answer of this turn.
        """
        used = self._used(self._text_for(row))
        turns = 1 + len(row.get("earlier") or ()) // 2
        if not (self._answers <= used or {f"{name}_{turns}" for name in self._turn_answers} <= used):
            raise InputError(
                f"judge {self._card.name}: {one_line(row['instruction'], 60)!r} is turn {turns} of a conversation, and "
                "its prompt shows fewer; give the card a prompt for such rows, under `prompts`"
            )
        shows = {name: {name} for name in _BESIDE}
        if "reference" not in used:
            shows["reference"] = {f"ref_answer_{number + 1}" for number in range(len(row.get("reference") or ()))}
        before = {"question", *self._turn_answers}
        if "earlier" not in used:
            shows["earlier"] = {f"{name}_{number}" for number in range(1, turns) for name in before}
        return [name for name in _BESIDE if row.get(name) and not shows[name] <= used]

    def _text_for(self, row: Mapping[str, Any]) -> str:
        """The prompt for a row, with the sections of the fields that it has."""
        text = next((further for prompt, further in self._further if prompt.fits(row)), self._text)
        return _SECTION.sub(lambda section: section[2] if row.get(section[1]) else "", text)

    def _used(self, text: str) -> set[str]:
        return {self._names.get(name, name) for name in self._placeholder.findall(text)}

    def _rendered(self, row: dict[str, Any], answers: dict[str, str]) -> Prompt:
        text = self._text_for(row)
        values = {name: row[name] for name in ("input", "system", *GUIDES) if row.get(name)}
        values |= {"instruction": request_of(row), **answers, **_turn_values(row, answers)}
        if "input" in self._used(text):
            values = {"input": ""} | values | {"instruction": row["instruction"]}

        def filled(part: str) -> str:
            parts = self._placeholder.split(part)
            try:  # every second part is a placeholder's name
                parts[1::2] = [values[self._names.get(name, name)] for name in parts[1::2]]
            except KeyError as error:
                raise InputError(
                    f"judge {self._card.name}: {one_line(row['instruction'], 60)!r} has nothing for the prompt's "
                    f"{{{error.args[0]}}}; add it to the row, or give the card a prompt for such rows, under `prompts`"
                ) from None
            text = FilledText("".join(parts))
            text.parts = parts
            return text

        if self._card.prompt_form == "text":
            return filled(text)
        # Split into messages before the substitution, so that an answer cannot start a turn of its own.
        return [turn | {"content": filled(turn["content"])} for turn in self._turns(text)]

    def _turns(self, text: str) -> list[Message]:
        if self._card.annotator:
            return chat_turns(text)
        turns = [{"role": role, "content": content} for role, content in _CHATML.findall(text)]
        return turns or [{"role": "user", "content": text.strip()}]

    def _read(self, some_rows: PromptFor | None = None) -> str:
        text = self._card.prompt_text(some_rows)
        placeholders = self._used(text)
        needed = () if some_rows and "earlier" in some_rows.fields else _NEEDED[self._card.protocol]
        lacking = [name for name in needed if self._names.get(name, name) not in placeholders]
        if lacking:
            path = self._card.prompt_file(some_rows)
            wanted = " and ".join("{" + name + "}" for name in needed)
            raise InputError(f"{path}: lacks {', '.join(lacking)}; write {wanted} where they belong")
        return text

    def _cleaned(self, answer: str) -> str:
        if not self._card.remove_from_answers:
            return answer
        answer = answer.strip()
        for token in self._card.remove_from_answers:
            answer = answer.replace(token, "")
        return answer.strip()


def _conversations(row: Mapping[str, Any]) -> Sequence[Sequence[Message]]:
    """The turns before each answer in the order shown, which may have been answered by each system itself."""
    return row.get("conversations") or [row.get("earlier") or []] * 2


def _turn_values(row: dict[str, Any], answers: dict[str, str]) -> dict[str, str]:
    """The values of the placeholders in _TURNS."""
    references = row.get("reference") or []
    values = {f"ref_answer_{number}": text for number, text in enumerate(references, start=1)}
    if references:  # of this turn, where each turn has one
        values["reference"] = "\n\n".join(references[len(_conversations(row)[0]) // 2 :] or references[-1:])
    if before := list(zip(*_conversations(row), strict=False)):
        values["earlier"] = "\n\n".join(itertools.chain.from_iterable(map(_turn_text, before)))
    sides = ("_a", "_b") if len(answers) == 2 else ("",)
    for side, answer, earlier in zip(sides, answers.values(), _conversations(row), strict=False):
        turns = [*earlier, {"role": "user", "content": request_of(row)}, {"role": "assistant", "content": answer}]
        for number, (asked, told) in enumerate(zip(turns[::2], turns[1::2], strict=True), start=1):
            values |= {f"question_{number}": asked["content"], f"answer{side}_{number}": told["content"]}
    return values


def _turn_text(turns: Sequence[Message]) -> list[str]:
    """A turn of a conversation, once or as each system took it."""
    texts = [turn["content"] for turn in turns]
    who = turns[0]["role"].capitalize()
    if len(set(texts)) == 1:
        return [f"{who}: {texts[0]}"]
    return [f"{who} {name}: {text}" for name, text in zip("AB", texts, strict=True)]


def trimmed(
    template: AnswerChats | PromptTemplate,
    row: dict[str, Any],
    first: str,
    second: str,
    fits: Callable[[Prompt], bool],
) -> tuple[tuple[Prompt, ...], bool]:
    """The prompts for two answers, and whether the answers were cut to fit.

    Both answers are cut to the same length in characters, the largest at which every prompt fits, so the shorter answer
    is cut only if the longer one would otherwise become shorter than it. If not even one character of each fits, the
    instruction alone is too long, and nothing is cut.
    """
    whole = template.render_all(row, first, second)
    if all(map(fits, whole)):
        return whole, False
    low, high = 0, max(len(first), len(second))  # `low` fits, or is 0; `high` does not fit
    best = whole
    while high - low > 1:
        middle = (low + high) // 2
        prompts = template.render_all(row, first[:middle], second[:middle])
        if all(map(fits, prompts)):
            low, best = middle, prompts
        else:
            high = middle
    return best, low > 0
