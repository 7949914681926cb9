"""Judge cards: which model judges, with which prompt and decoding, and how its verdict is read."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, field_validator, model_validator

from instruct.analysis.outcomes import Policy
from instruct.base.cards import find_card, list_cards, nearest, read_yaml, validated
from instruct.base.errors import InputError, UnknownNameError, one_line
from instruct.base.files import sha256_of
from instruct.base.models import EMBEDDED_MODEL
from instruct.engines.base import SAMPLING, Decoding
from instruct.judging.annotators import annotator_card_fields, annotator_names, annotator_prompt
from instruct.judging.human_agreement import HumanAgreement

PAIRWISE_PARSERS = ("autoj", "pandalm", "alpaca_eval_annotator")
ONE_RULE = "give one of labels, words, regex, json_field, scores or parser"


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", protected_namespaces=(), use_attribute_docstrings=True)


class Labels(_Section):
    """The text of the label for each verdict; each must be one token of the judge's tokenizer."""

    first: str
    """Says that the answer shown first is better."""
    second: str
    """Says that the other one is."""


class Words(_Section):
    """What the judge writes for each verdict; without `tie`, it is not asked for ties."""

    first: str
    """Says that the answer shown first is better."""
    second: str
    """Says that the other one is."""
    tie: str | None = None
    """Says that they are equal; without it the judge is not asked for ties."""

    @model_validator(mode="after")
    def _distinct(self) -> Words:
        words = [word for word in (self.first, self.second, self.tie) if word is not None]
        if len(set(words)) < len(words) or not all(word.strip() == word != "" for word in words):
            raise ValueError("the words must differ, and have no spaces around them")
        return self


class RatingScale(_Section):
    """The lowest and the highest rating; any other number is not a rating."""

    low: float
    """The lowest number."""
    high: float
    """The highest number."""

    @model_validator(mode="after")
    def _in_order(self) -> RatingScale:
        if not self.low < self.high:
            raise ValueError("low must be less than high")
        return self


class VerdictRule(_Section):
    """How the reply is read: by exactly one of `parser`, `labels`, `words` alone, `regex`, `json_field` and `scores`.

    `regex` and `json_field` need `words`, `rating` or `grades`. A reply with two different verdicts is unparsed, unless
    `occurrence: last` makes the last one count. A reward model has no replies: its scores are compared.
    """

    parser: Literal["autoj", "autoj_rating", "pandalm", "alpaca_eval_annotator"] | None = None
    """The rule of a published judge's authors."""
    labels: Labels | None = None
    """Labels whose log-probabilities as the first token are compared."""
    tie_margin: float = Field(default=0.0, ge=0)
    """A smaller difference of log-probabilities (nats), or of a reward model's scores, is a tie."""
    words: Words | None = None
    """The words to search for in the text, or to compare with what `regex` or `json_field` finds."""
    regex: str | None = None
    """A regular expression with one group, around the verdict; with `scores` two."""
    json_field: str | None = None
    """The field of a JSON object in the reply that has the verdict."""
    rating: RatingScale | None = None
    """The scale of the number that `regex` or `json_field` finds; for `protocol: single`."""
    grades: dict[str, float] = {}
    """Labels with the number of wins that each is worth to the answer shown first; below 0 to the other, 0: one tie."""
    scores: RatingScale | None = None
    """The scale of two numbers, alone on the first line or in the groups of `regex`; the higher one wins."""
    occurrence: Literal["only", "last"] = "only"
    """Which of several different verdicts counts; only: none."""

    @model_validator(mode="after")
    def _one_rule(self) -> VerdictRule:
        ways = [name for name in ("labels", "regex", "json_field", "parser") if getattr(self, name) is not None]
        if len(ways) > 1:
            raise ValueError(ONE_RULE)
        if self.scores:
            if self.words or self.rating or self.grades or ways not in ([], ["regex"]):
                raise ValueError(
                    "scores are read alone or by a regex with two groups; remove the other keys of verdict"
                )
            if self.occurrence == "last" and not ways:
                raise ValueError("scores without a regex are on the first line; remove occurrence, or add a regex")
        searched = not ways or ways[0] in ("regex", "json_field")
        if self.words and not searched:
            raise ValueError(f"words go alone or with regex or json_field, not with {ways[0]}")
        if ways and searched and not self.scores and len([*filter(None, (self.words, self.rating, self.grades))]) != 1:
            raise ValueError(f"{ways[0]} needs either words (first, second), rating (low, high) or grades")
        if not ways and self.rating:
            raise ValueError("a rating is read by regex, json_field or parser; words give a verdict")
        if self.grades and ways not in (["regex"], ["json_field"]):
            raise ValueError("grades are read by regex or json_field; add one of them")
        if self.grades and not min(self.grades.values()) < 0 < max(self.grades.values()):
            raise ValueError("grades need labels above 0, for the answer shown first, and below 0, for the second")
        if self.tie_margin and self.reads_replies and not self.labels:
            raise ValueError("tie_margin belongs to labels, or to protocol reward")
        if self.occurrence == "last" and not searched:
            raise ValueError("occurrence belongs to words, regex or json_field")
        if self.regex is not None:
            try:
                groups = re.compile(self.regex).groups
            except re.error as error:
                raise ValueError(f"regex is not a regular expression ({one_line(error)})") from None
            if groups != (2 if self.scores else 1):
                wanted = "two groups, around the scores" if self.scores else "one group, around the verdict"
                raise ValueError(f"regex needs {wanted}; it has {groups} (write others as (?:…))")
        return self

    @property
    def largest_grade(self) -> float | None:
        """None without grades."""
        return max(map(abs, self.grades.values()), default=None)

    @property
    def reads_replies(self) -> bool:
        """Whether it says how a verdict is read, and is not only a margin for ties."""
        return any((self.labels, self.words, self.regex, self.json_field, self.scores, self.parser))


class PromptFor(_Section):
    """A prompt's file, for rows of answers that are of these data sets and have all of these fields."""

    file: str
    """The prompt's file."""
    datasets: list[str] = []
    """The data sets of the rows (default: all)."""
    fields: list[Literal["input", "system", "reference", "earlier", "rubric", "criteria", "checklist"]] = []
    """The fields that a row must have."""

    def fits(self, row: Mapping[str, Any]) -> bool:
        """Whether it is the prompt for a row."""
        return (not self.datasets or row["dataset"] in self.datasets) and all(map(row.get, self.fields))


class JudgeCard(_Section):
    """The content of `judges/NAME/judge.yaml`. Fields that do not affect the verdicts are left out of dumps.

    A prompt has the placeholders {instruction}, {input}, {first} and {second}, or {instruction}, {input} and {answer}
    if each answer is rated alone (`protocol: single`). {system}, {earlier}, {reference}, {rubric}, {criteria} and
    {checklist} are the row's; what is between {#criteria} and {/criteria} is for rows that have them, and so for each
    of these.
    """

    name: str = Field(exclude=True)
    """The judge's name, that of the folder."""
    description: str = Field(exclude=True)
    """One line for people."""
    model: str
    """A hub id or a local folder; any other name is a provider's, asked at OpenAI unless a base URL is given."""
    revision: str | None = None
    """The hub's branch, tag or commit."""
    weights: Literal["safetensors", "pickle"] = Field(default="safetensors", exclude=True)
    """pickle allows weights that exist only as pickled .bin files; see docs/judges.md."""
    protocol: Literal["pairwise", "single", "reward"]
    """Compares two answers, rates each alone, or scores each with a reward model, which has no prompt."""
    annotator: str | None = None
    """An annotator of the alpaca-eval package, whose prompt, and unless there are `words` whose parser, is used."""
    head: str | None = None
    """For `protocol: reward`, a small head on the states of `model`, written by recipes/train_judge.py."""
    trained_on: str | None = Field(default=None, exclude=True)
    """A file with a hash of each pair that the judge was trained on: agreement on these is no measurement."""
    prompt: str | None = None
    """The prompt's file, next to the card."""
    prompts: list[PromptFor] = []
    """Prompts for some rows, of which the first one that fits is used; `prompt` is for all others."""
    prompt_form: Literal["text", "chat"] = "chat"
    """Whether the prompt is a user turn in the model's chat template, or the text as it is."""
    remove_from_answers: list[str] = []
    """Texts that are removed from answers before the judge is shown them."""
    decoding: Decoding = Decoding()
    """What a server is sent; null, and all that `{}` leaves out, is not: its own defaults count."""
    response_schema: dict[str, Any] | None = None
    """A JSON schema for the reply, enforced by engines that can."""
    verdict: VerdictRule = VerdictRule()
    """How the verdict is read."""
    order_policy: Literal["both", "one"]
    """Show each pair in both orders, or in one that is drawn for each instruction."""
    leading_policy: Policy = Field(exclude=True)
    """The policy that a report puts first."""
    context_length: int = Field(ge=1)
    """The longest prompt and reply together, in tokens."""
    needs: str | None = Field(default=None, exclude=True)
    """What the model takes on this machine, in words."""
    gpu_gb: float | None = Field(default=None, gt=0, exclude=True)
    """The memory of its GPUs, in GB."""
    licence: str = Field(exclude=True)
    """The license of model and prompt."""
    citation: str | None = Field(default=None, exclude=True)
    """The source to cite."""
    human_agreement: dict[str, HumanAgreement] | None = Field(default=None, exclude=True)
    """The measured agreement with people's labels, by set, written by `instruct validate --write-card`."""
    warning: str | None = Field(default=None, exclude=True)
    """Shown prominently in every report."""
    notes: str | None = Field(default=None, exclude=True)
    """For people who read the card."""
    _folder: Path = PrivateAttr(default=Path("."))

    @field_validator("decoding", mode="before")
    @classmethod
    def _empty_is_not_sent(cls, decoding: Any) -> Any:
        return dict.fromkeys(SAMPLING) if decoding == {} else decoding

    @model_validator(mode="after")
    def _fits_together(self) -> JudgeCard:
        if self.protocol == "reward":
            return self._checked_reward()
        if self.head:
            raise ValueError("head belongs to protocol reward")
        for name in ("prompt_form", "decoding", "verdict"):
            if name not in self.model_fields_set:
                raise ValueError(f"the key {name!r} is missing; add it")
        if not self.verdict.reads_replies:
            raise ValueError(f"verdict: {ONE_RULE}")
        if (self.annotator is None) == (self.prompt is None):
            raise ValueError("give either prompt (a file next to the card) or annotator (of the alpaca-eval package)")
        if self.needs_choice != (self.annotator is not None) and not (self.annotator and self.verdict.words):
            raise ValueError("an annotator and verdict.parser: alpaca_eval_annotator go together; or give words")
        rates = self.verdict.rating is not None
        if self.protocol == "single":
            if not rates or self.verdict.parser in PAIRWISE_PARSERS:
                raise ValueError("protocol single needs verdict.rating {low, high}, and regex or json_field to read it")
            if (self.order_policy, self.leading_policy) != ("one", "single"):
                raise ValueError("protocol single shows no order: set order_policy: one and leading_policy: single")
        elif rates or self.verdict.parser == "autoj_rating":
            raise ValueError("protocol pairwise needs a verdict, not a rating; set protocol: single")
        margins = self.verdict.labels or self.verdict.scores
        if self.leading_policy == "averaged" and (self.order_policy == "one" or not margins):
            raise ValueError("leading_policy averaged needs order_policy: both, and verdict.labels or verdict.scores")
        fields = (self.response_schema or {}).get("properties", {})
        if self.response_schema and self.verdict.json_field not in (*fields, None):
            raise ValueError(
                f"response_schema has no property {self.verdict.json_field!r}, which the verdict is read by"
            )
        return self

    def _checked_reward(self) -> JudgeCard:
        unused = {"prompt", "prompts", "prompt_form", "annotator", "remove_from_answers"}
        unused |= {"decoding", "response_schema"}
        if fields := sorted(unused & self.model_fields_set):
            raise ValueError(f"protocol reward has no prompt and no reply; remove {', '.join(fields)}")
        if self.verdict.reads_replies:
            raise ValueError("protocol reward compares scores; keep only tie_margin in verdict")
        if (self.order_policy, self.leading_policy) != ("one", "single"):
            raise ValueError("protocol reward shows no order: set order_policy: one and leading_policy: single")
        return self

    @property
    def rates_alone(self) -> bool:
        """Whether each answer is rated or scored alone, so that a pair has no order."""
        return self.protocol != "pairwise"

    @property
    def is_a_providers(self) -> bool:
        """Whether the model is asked at its provider, as all of alpaca-eval's are: no hub id, nor a folder here."""
        here = "/" in self.model or self.model == EMBEDDED_MODEL or Path(self.model).exists()
        return self.annotator is not None or not (here or self.protocol == "reward")

    @property
    def needs_choice(self) -> bool:
        """Whether the verdict is read from the server's whole choice, not from its text alone."""
        return self.verdict.parser == "alpaca_eval_annotator"

    def sha256(self) -> str:
        """A hash of everything that affects the verdicts, and nothing else: model, prompts, decoding, verdict rule."""
        content = self.model_dump(mode="json")
        if self.head:
            content["head"] = sha256_of(self.head_file())
        prompts = [] if self.protocol == "reward" else [self.prompt_text(), *map(self.prompt_text, self.prompts)]
        return hashlib.sha256(json.dumps([content, prompts], sort_keys=True).encode()).hexdigest()

    def head_file(self) -> Path:
        """The file of the card's score head.

        Raises:
            InputError: it does not exist.
        """
        return self.file_beside(str(self.head), "file", "the head")

    def prompt_file(self, some_rows: PromptFor | None = None) -> Path:
        """The prompt's file, or that of the prompt for some rows.

        Raises:
            InputError: it does not exist.
        """
        if self.annotator:
            return annotator_prompt(self.annotator)
        return self.file_beside(str(some_rows.file if some_rows else self.prompt), "prompt file", "it")

    def file_beside(self, name: str, kind: str, what: str) -> Path:
        """A file next to the card; `what` belongs there.

        Raises:
            InputError: it does not exist.
        """
        path = self._folder / name
        if not path.is_file():
            raise InputError(f"{path}: no such {kind}; put {what} next to {self._folder / 'judge.yaml'}")
        return path

    def prompt_text(self, some_rows: PromptFor | None = None) -> str:
        """The content of the prompt's file.

        Raises:
            InputError: it does not exist, or is not UTF-8.
        """
        path = self.prompt_file(some_rows)
        try:
            text = path.read_text(encoding="utf-8")
            return text.strip() if self.annotator else text  # as the alpaca-eval package does
        except UnicodeDecodeError:
            raise InputError(f"{path}: is not UTF-8 text; save the prompt as UTF-8") from None


def load_judge_card(name: str, model: str | None = None, *, by_path: bool = True) -> JudgeCard:
    """A judge card by name or path, or the card of an annotator of the alpaca-eval package by its name.

    Args:
        by_path: whether the name may be a path; False for a name that a file of verdicts gives.
        model: the model to ask with the card's prompt, instead of the card's own. That is a different judge: its name
            shows the model, and the card's measured agreement and needs do not apply to it, nor what a reward model's
            card says about its model.

    Raises:
        InputError: no such card (the message lists the nearest names), or an invalid card.
    """
    card = _card(name, by_path)
    if model is None or model == card.model:
        return card
    if card.head:
        raise InputError(
            f"judge {card.name}: its head was trained on the states of {card.model} and reads no other model's; leave "
            "`model` out, or train a head with recipes/train_judge.py"
        )
    unknown: dict[str, Any] = dict.fromkeys(("revision", "human_agreement", "needs", "gpu_gb", "trained_on"))
    if card.protocol == "reward":  # without a prompt there is nothing left of the card's judge
        unknown |= {"description": "a reward model that scores each answer alone", "licence": "the model's own"}
        unknown |= dict.fromkeys(("citation", "notes"))
    return card.model_copy(update={"name": f"{card.name}@{model}", "model": model, **unknown})


# What `by_criteria` adds to a name.
_BY_CRITERIA = re.compile(r"\+criteria-[0-9a-f]{6}$")


def by_criteria(card: JudgeCard, criteria: str | None) -> JudgeCard:
    """The judge that compares by other criteria than its card says, which is another judge with a name of its own."""
    if criteria is None:
        return card
    name = f"{card.name}+criteria-{hashlib.sha256(criteria.encode()).hexdigest()[:6]}"
    return card.model_copy(update={"name": name, "human_agreement": None})


def stored_judge_card(name: str, recorded: Mapping[str, Any]) -> JudgeCard:
    """The card of a judge whose verdicts are stored.

    Args:
        name: CARD or CARD@MODEL, as in the store, with what `by_criteria` adds.
        recorded: the judge that the record of its judging states; {}: none does.

    Raises:
        InputError: as `load_judge_card`.
    """
    base, _, model = _BY_CRITERIA.sub("", name).partition("@")
    path = recorded.get("card", "")  # the call may have given the card by its path
    by_path = bool(path) and Path(path).exists()
    card = load_judge_card(path if by_path else base, recorded.get("model") or model or None, by_path=by_path)
    return by_criteria(card, recorded.get("criteria"))


def _card(name: str, by_path: bool) -> JudgeCard:
    cards = {card.name: card.path for card in list_cards("judges")}
    if by_path and (Path(name).suffix in {".yaml", ".yml"} or (Path(name) / "judge.yaml").is_file()):
        path = find_card("judges", name)
    elif name in cards:
        path = cards[name]
    else:
        annotators = annotator_names()
        if name in annotators:
            return annotator_card(name)
        known = f"{nearest(name, {*cards, *annotators})}; see `instruct list judges`"
        raise UnknownNameError(f"unknown judge {one_line(name, 80)!r}", known)
    card = validated(JudgeCard, read_yaml(path), path)
    card._folder = path.parent
    return card


def annotator_card(name: str) -> JudgeCard:
    """The card of an annotator of the alpaca-eval package.

    Raises:
        InputError: as `annotator_card_fields`.
    """
    return JudgeCard.model_validate(annotator_card_fields(name))
