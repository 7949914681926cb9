"""Dataset cards: the YAML files in `data/` that describe where rows come from and how to read them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PrivateAttr, model_validator

from instruct.base.cards import find_card, read_yaml, validated
from instruct.base.errors import InputError
from instruct.base.options import Options

Format = Literal["alpaca", "sharegpt", "messages", "prompt_completion", "text"]
Template = Literal["alpaca", "chat"]
Documents = Literal["line", "file"]
Purpose = Literal["train", "eval", "continue"]
Unit = Literal["words", "tokens"]
_LENGTH = re.compile(r"([0-9]{1,6}) (words|tokens)")


def _length(text: str) -> str:
    if not _LENGTH.fullmatch(text):
        raise ValueError("must be a number and a unit, such as `20 words` or `80 tokens`")
    return text


# A length of text, such as `20 words` or `80 tokens`.
Length = Annotated[str, AfterValidator(_length)]


def parse_length(length: Length) -> tuple[int, Unit]:
    """The number and the unit of a length."""
    number, unit = length.split()
    return int(number), "words" if unit == "words" else "tokens"


class Source(BaseModel):
    """A data set on the hub (or a `subset`), one `file` of its repository, or local `files` (relative to the card)."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    hub: str | None = None
    """A data set's id on the hub."""
    subset: str | None = None
    """The subset of the data set."""
    revision: str = "main"
    """A branch, tag or commit of the hub."""
    split: str = "train"
    """The split of the data set."""
    file: str | None = None
    """One file of the data set's repository, read as it is."""
    files: list[str] | None = Field(default=None, min_length=1)
    """Local files instead, relative to the card."""

    @model_validator(mode="after")
    def _one_source(self) -> Source:
        if (self.hub is None) == (self.files is None):
            raise ValueError("give exactly one of hub (a data set's id) and files (a list)")
        hub_only = sorted({"subset", "revision", "split", "file"} & self.model_fields_set)
        if self.files is not None and hub_only:
            raise ValueError(f"{', '.join(hub_only)} requires hub; remove it, or replace files with hub")
        return self


class Cut(Options):
    """How texts are cut into a prefix, which systems continue, and its reference, which is how the human text goes on.

    A word is a run of characters that are not white space. Tokens are those of the model that continues.
    """

    prefix: Length | None = None
    """The length of a prefix, such as `20 words` or `32 tokens`."""
    continuation: Length | None = None
    """The length of the human text to compare with, and the number of tokens that a system writes."""
    rows: int | None = Field(default=None, ge=1)
    """Read the first rows of the source only."""
    min_characters: int | None = Field(default=None, ge=1)
    """Leave out shorter texts."""
    min_words: int | None = Field(default=None, ge=1)
    """Leave out texts of fewer words."""
    without: str | None = Field(default=None, min_length=1)
    """Leave out texts that contain this, such as `==`."""
    windows: bool | None = None
    """Join the texts by line breaks and cut them into one window after another (default: cut each text's beginning)."""


class DatasetCard(BaseModel):
    """A dataset card."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    name: str = Field(min_length=1)
    """The card's name; the file is called NAME.yaml."""
    description: str = ""
    """One line for people."""
    purpose: Purpose
    """What it is for: training, evaluation prompts, or a corpus to continue."""
    source: Source
    """Where the rows are: give `hub` or `files`."""
    format: Format
    """The fields of a row; an evaluation set is `alpaca`: instruction and, if it has a baseline, output."""
    template: Template = "chat"
    """How a prompt is rendered: Stanford Alpaca's text, or the tokenizer's chat template."""
    column: str | None = None
    """The column that has the fields as a mapping, if they are not columns themselves; of plain text, its column."""
    documents: Documents | None = None
    """What a text is in a plain text file (default: line)."""
    rows: int | None = Field(default=None, ge=1)
    """The expected number of rows, which is checked."""
    baseline: Source | dict[str, Source] | None = None
    """Of an evaluation set, the answers to compare with, or some for each data set in it (default: `output`)."""
    temperatures: dict[str, Annotated[float, Field(ge=0)]] = {}
    """Of an evaluation set, the sampling temperature by the data set of a row; others are greedy."""
    cut: Cut | None = None
    """How the texts of a corpus are cut into a prefix and its continuation."""
    licence: str
    """The license of the data."""
    citation: str | None = None
    """The source to cite."""
    notes: str | None = None
    """For people who read the card."""

    _folder: Path = PrivateAttr(default=Path("."))

    @model_validator(mode="after")
    def _fits_its_purpose(self) -> DatasetCard:
        for name in ("baseline", "temperatures"):
            if self.purpose != "eval" and getattr(self, name):
                raise ValueError(f"{name} is for evaluation cards; remove it")
        if self.purpose == "continue" and self.format != "text":
            raise ValueError("a corpus to continue needs format: text")
        if (self.purpose == "continue") != (self.cut is not None):
            raise ValueError("purpose: continue requires cut, which says how texts are cut, and cut requires it")
        if self.cut is not None and not (self.cut.prefix and self.cut.continuation):
            raise ValueError("cut needs prefix and continuation, such as `20 words` and `80 words`")
        if self.purpose == "eval" and (self.format != "alpaca" or self.column is not None):
            raise ValueError("an evaluation card needs format: alpaca and takes no column")
        if self.format == "text" and "template" in self.model_fields_set:
            raise ValueError("template is for prompts; remove it from a card with format: text")
        if self.format != "text" and self.documents:
            raise ValueError("documents is for format: text; remove it")
        return self

    @property
    def folder(self) -> Path:
        """The folder of the card's file; the card's `files` are relative to it."""
        return self._folder


def load_dataset_card(name: str) -> DatasetCard:
    """The dataset card called `name`, or in the YAML file `name`.

    Raises:
        InputError: an unknown card (with the nearest names), invalid YAML, an unknown or missing key.
    """
    path = find_card("data", name)
    card = validated(DatasetCard, read_yaml(path), path)
    card._folder = path.resolve().parent
    return card


_PURPOSES: dict[Purpose, str] = {
    "train": "a training set",
    "eval": "an evaluation set",
    "continue": "a corpus to continue",
}


def check_purpose(card: DatasetCard, purpose: Purpose) -> None:
    """Refuse a card of another purpose, such as a training card for evaluation.

    Raises:
        InputError: the card's purpose is not `purpose`.
    """
    if card.purpose != purpose:
        raise InputError(f"card {card.name}: is {_PURPOSES[card.purpose]}; name {_PURPOSES[purpose]} instead")
