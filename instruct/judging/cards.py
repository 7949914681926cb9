"""Judge cards: who judges, with which prompt and decoding, how the verdict is read."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, model_validator

from instruct.cards import find_card, load_card
from instruct.errors import InputError

Policy = Literal["single", "strict", "upstream"]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", protected_namespaces=())


class Decoding(_Section):
    """How the judge's reply is sampled; part of what a stored completion is keyed by."""

    temperature: float = Field(default=0.0, ge=0)
    top_p: float = Field(default=1.0, gt=0, le=1)
    max_tokens: int = Field(default=512, ge=1)
    repetition_penalty: float | None = Field(default=None, gt=0)


class Labels(_Section):
    """The text of the label for each verdict; each must be one token of the judge's tokenizer."""

    first: str
    second: str


class VerdictRule(_Section):
    """Either a named parser of the reply's text, or labels whose log-probabilities decide.

    With labels: log p(first) - log p(second), nearer to 0 than `tie_margin` (nats), is a tie.
    """

    parser: Literal["autoj", "pandalm", "alpaca_eval"] | None = None
    labels: Labels | None = None
    tie_margin: float = Field(default=0.0, ge=0)

    @model_validator(mode="after")
    def _one_of_two(self) -> VerdictRule:
        if (self.parser is None) == (self.labels is None):
            raise ValueError("give either parser or labels")
        return self


class JudgeCard(_Section):
    """What `judges/NAME/judge.yaml` says.

    `annotator` names an annotator of the alpaca-eval package whose prompt is read from there; else `prompt` is a file
    beside the card with the placeholders {instruction}, {input}, {first} and {second}. `warning` stands prominently
    in every report; `human_agreement` is what was measured, on which set.
    """

    name: str
    description: str
    model: str
    revision: str | None = None
    protocol: Literal["pairwise"]
    annotator: str | None = None
    prompt: str | None = None
    prompt_with_input: str | None = None
    prompt_form: Literal["text", "chat"]
    remove_from_answers: list[str] = []
    decoding: Decoding
    verdict: VerdictRule
    order_policy: Literal["both", "one"]
    leading_policy: Policy
    identical_outputs_tie: bool = False
    context_length: int = Field(ge=1)
    needs: str | None = None
    licence: str
    citation: str | None = None
    human_agreement: dict[str, Any] | None = None
    warning: str | None = None
    notes: str | None = None
    _folder: Path = PrivateAttr(default=Path("."))

    @model_validator(mode="after")
    def _has_a_prompt(self) -> JudgeCard:
        if (self.annotator is None) == (self.prompt is None):
            raise ValueError("give either prompt (a file beside the card) or annotator (of the alpaca-eval package)")
        return self

    def sha256(self) -> str:
        """A hash of what makes the verdicts: the card's fields and its prompts."""
        prompts = [self.prompt_file(with_input).read_text(encoding="utf-8") for with_input in (False, True)]
        return hashlib.sha256(json.dumps([self.model_dump(mode="json"), prompts]).encode()).hexdigest()

    def prompt_file(self, with_input: bool = False) -> Path:
        """The prompt's file.

        Raises:
            InputError: it is not there.
        """
        if self.annotator:
            return _package_prompt(self.annotator)
        path = self._folder / str(self.prompt_with_input if with_input and self.prompt_with_input else self.prompt)
        if not path.is_file():
            raise InputError(f"{path}: no such prompt file; put it beside {self._folder / 'judge.yaml'}")
        return path


def load_judge_card(name: str) -> JudgeCard:
    """A judge card by name or path.

    Raises:
        InputError: no such card (with the nearest names), or one that is not as it should be.
    """
    card = load_card("judges", name, JudgeCard)
    card._folder = find_card("judges", name).parent
    return card


def _package_prompt(annotator: str) -> Path:
    import importlib.util

    import yaml

    spec = importlib.util.find_spec("alpaca_eval")
    if spec is None or spec.origin is None:
        raise InputError(f"judge {annotator}: the package alpaca-eval is not installed; run `pip install alpaca-eval`")
    configs = Path(spec.origin).parent / "evaluators_configs"
    path = configs / annotator / "configs.yaml"
    if not path.is_file():
        raise InputError(f"annotator {annotator}: alpaca-eval has none of that name; see its evaluators_configs")
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    return configs / str(content[annotator]["prompt_template"])
