"""Options of the training data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from instruct.base.errors import one_line
from instruct.base.options import Options, Texts
from instruct.data.bad_rows import OnBadRow
from instruct.data.cards import Documents, Template, load_dataset_card
from instruct.data.templates import Rendering

# What a rendering sets itself.
_NOT_ARGUMENTS = {"messages", "tools", "documents", "tokenize", "chat_template", "add_generation_prompt"}
_NOT_ARGUMENTS |= {"continue_final_message", "strftime_now"}
Stopping = Literal["first_exhausted", "all_exhausted", "all_exhausted_without_replacement"]


class SourceOptions(Options):
    """One data set."""

    card: str | None = None
    """A data set's card, by name or path; without one, the first row determines the format."""
    files: Texts | None = None
    """Your own files, instead of the card's source: JSON, JSON lines, CSV, Parquet or plain text."""
    template: Literal["alpaca", "chat"] | None = None
    """How prompts are rendered: Alpaca's, or the model's chat template (default: the card's, else chat)."""
    limit: int | None = Field(default=None, ge=1)
    """Use the first rows only."""
    documents: Documents | None = None
    """What a text is in a plain text file (default: the card's)."""

    @property
    def label(self) -> str:
        """The data set's name for people: its card, or its files without their folders."""
        return ", ".join(Path(file).name for file in self.files or []) or str(self.card)

    def reading(self) -> dict[str, Any]:
        """The arguments of `data.rows.RowReader` that say what is read, and how.

        Raises:
            InputError: an unknown card.
        """
        return {
            "card": load_dataset_card(self.card) if self.card else None,
            "files": self.files,
            "template": self.template,
            "documents": self.documents,
        }


class MixedSource(SourceOptions):
    """A data set of a mixture."""

    weight: float | None = Field(default=None, gt=0, le=1)
    """The probability that the next row comes from this data set."""

    @model_validator(mode="after")
    def _is_named(self) -> MixedSource:
        if self.card is None and not self.files:
            raise ValueError("names no data; set card or files")
        return self


class DataOptions(SourceOptions):
    """The training data: one data set, or a `mixture` of several.

    A mixture without weights has every row of every data set once. With weights, rows are drawn with these
    probabilities until `stopping_strategy` says so, as in `datasets.interleave_datasets`.
    """

    no_result: ClassVar[frozenset[str]] = frozenset({"eval_samples"})

    mixture: list[MixedSource] | None = Field(default=None, min_length=1)
    """Several data sets, mixed by weight, instead of one."""
    stopping_strategy: Stopping | None = None
    """When a weighted mixture ends (default: first_exhausted); all_exhausted repeats rows of smaller data sets."""
    seed: int | None = Field(default=None, ge=0)
    """Draws the rows of a weighted mixture (default: 42)."""
    eval_files: Texts | None = Field(default=None, min_length=1)
    """Files to evaluate on while training, read like the training files (of a mixture: like its first data set)."""
    eval_limit: int | None = Field(default=None, ge=1)
    """The largest number of rows from eval_files."""
    eval_fraction: float | None = Field(default=None, gt=0, lt=1)
    """The share of every data set's rows to hold out and evaluate on while training."""
    eval_samples: int | None = Field(default=None, ge=0)
    """How many rows are answered at each evaluation (default: 2)."""
    on_bad_row: OnBadRow | None = None
    """Stop at bad rows or skip them (default: stop at malformed ones, skip up to a tenth that the template rejects)."""
    empty_thinking: Literal["train"] | None = None
    """Train answers without thinking after the prompt that asks for thinking (default: thinking is turned off)."""
    chat_template: str | None = None
    """The chat template: a .jinja file, a model, or the name of one in TRL, such as qwen3 (default: the model's)."""
    chat_template_kwargs: dict[str, Any] | None = None
    """Arguments of the chat template, in training and in answers, such as {enable_thinking: false}."""

    @field_validator("chat_template_kwargs")
    @classmethod
    def _are_arguments(cls, arguments: dict[str, Any] | None) -> dict[str, Any] | None:
        for name, value in (arguments or {}).items():
            if not name.isidentifier() or name in _NOT_ARGUMENTS:
                raise ValueError(f"{one_line(name, 60)} is not an argument of a template; remove it")
            if value is None:
                raise ValueError(f"{name}: is null; remove it")
        return arguments or None

    @model_validator(mode="after")
    def _is_one_or_several(self) -> DataOptions:
        of_mixture = {"stopping_strategy": self.stopping_strategy, "seed": self.seed}
        if self.mixture is None:
            names = ", ".join(name for name, value in of_mixture.items() if value is not None)
            if names:
                raise ValueError(f"{names} requires mixture; add it or remove {names}")
            return self
        single = [name for name in SourceOptions.model_fields if getattr(self, name) is not None]
        if single:
            names = ", ".join(single)
            raise ValueError(f"{names} and mixture exclude each other; set {names} to null or move it into mixture")
        weights = [source.weight for source in self.mixture]
        if any(weight is None for weight in weights):
            if any(weight is not None for weight in weights) or any(v is not None for v in of_mixture.values()):
                missing = ", ".join(source.label for source in self.mixture if source.weight is None)
                raise ValueError(f"mixture: {missing} has no weight; give every data set a weight")
            return self
        total = math.fsum(weight or 0 for weight in weights)
        if abs(total - 1) > 1e-6:
            listed = " + ".join(f"{weight:g}" for weight in weights)
            raise ValueError(f"mixture: the weights must sum to 1 ({listed} = {total:g}); change them")
        return self

    @model_validator(mode="after")
    def _one_evaluation(self) -> DataOptions:
        if self.eval_files and self.eval_fraction:
            raise ValueError("give eval_files or eval_fraction, not both")
        if self.eval_limit and not self.eval_files:
            raise ValueError("eval_limit requires eval_files; lower eval_fraction instead")
        if self.eval_samples and not self.evaluates:
            raise ValueError("eval_samples requires eval_files or eval_fraction")
        return self

    def rendering(self, day: date | None = None) -> Rendering:
        """How chats become text; a template that writes the date writes `day`."""
        return Rendering(self.chat_template, self.chat_template_kwargs or {}, self.empty_thinking == "train", day)

    @property
    def evaluates(self) -> bool:
        """Whether there are rows to evaluate on while training."""
        return bool(self.eval_files or self.eval_fraction)

    @property
    def parts(self) -> list[SourceOptions]:
        """The data sets that are trained on."""
        return list(self.mixture) if self.mixture else [self]


def template_of(source: SourceOptions) -> Template:
    """The template that a data set's prompts are rendered with.

    Raises:
        InputError: an unknown card.
    """
    return source.template or (load_dataset_card(source.card).template if source.card else "chat")


def data_label(data: Mapping[str, Any]) -> str:
    """What a config's `data` section trains on, for people: each data set and its weight, as in "a (0.7), b (0.3)"."""
    labels = []
    for part in data.get("mixture") or [{**data, "weight": None}]:
        weight = part.get("weight")
        label = SourceOptions.model_construct(**part).label
        labels.append(label if weight is None else f"{label} ({weight:.4g})")
    return ", ".join(labels)
