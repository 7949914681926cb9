"""Dataset cards: the YAML files in `data/` that say where rows come from and how to read them."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, model_validator

from instruct.cards import find_card, read_yaml, validated
from instruct.errors import InputError

Format = Literal["alpaca", "sharegpt", "messages", "prompt_completion"]
Template = Literal["alpaca", "chat"]


class Source(BaseModel):
    """Either a data set on the hub, one `file` of such a repository, or local `files` (relative to the card)."""

    model_config = ConfigDict(extra="forbid")

    hub: str | None = None
    revision: str = "main"
    split: str = "train"
    file: str | None = None
    files: list[str] | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _one_source(self) -> Source:
        if (self.hub is None) == (self.files is None):
            raise ValueError("give either hub (a data set's id) or files (a list), not both and not neither")
        hub_only = sorted({"revision", "split", "file"} & self.model_fields_set)
        if self.files is not None and hub_only:
            raise ValueError(f"{', '.join(hub_only)} belongs to a hub source; remove it beside files")
        return self


class DatasetCard(BaseModel):
    """What a card holds.

    Attributes:
        description: one line for `instruct list data`.
        source: where the rows are.
        format: how a row is written; an evaluation set is `alpaca`: instruction and, where it has a baseline, output.
        template: how a prompt is rendered: Stanford Alpaca's text, or the tokenizer's chat template.
        column: a column of mappings in which the fields stand, where they do not stand in the row itself.
        rows: how many rows the source is known to have.
        baseline: of an evaluation set, the file of the answers to compare with; without it, the `output` values of
            the source itself.
    """

    model_config = ConfigDict(extra="forbid")

    name: str
    description: str = ""
    purpose: Literal["train", "eval"]
    source: Source
    format: Format
    template: Template = "chat"
    column: str | None = None
    rows: int | None = Field(default=None, ge=1)
    baseline: Source | None = None
    licence: str
    citation: str | None = None
    notes: str | None = None

    _folder: Path = PrivateAttr(default=Path("."))

    @model_validator(mode="after")
    def _fits_its_purpose(self) -> DatasetCard:
        if self.purpose == "train" and self.baseline is not None:
            raise ValueError("baseline belongs to an evaluation card; remove it")
        if self.purpose == "eval" and (self.format != "alpaca" or self.column is not None):
            raise ValueError("an evaluation card has format: alpaca and no column")
        return self

    @property
    def folder(self) -> Path:
        """The folder that the card was read from; its `files` are relative to it."""
        return self._folder


def load_dataset_card(name: str) -> DatasetCard:
    """The dataset card called `name`, or in the YAML file `name`.

    Raises:
        InputError: no such card (with the nearest names), not YAML, an unknown or missing key.
    """
    path = find_card("data", name)
    card = validated(DatasetCard, read_yaml(path), path)
    card._folder = path.resolve().parent
    return card


def check_purpose(card: DatasetCard, purpose: Literal["train", "eval"]) -> None:
    """Refuse a card that is made for the other purpose.

    Raises:
        InputError: with what the card is for.
    """
    if card.purpose != purpose:
        use = "trained on" if card.purpose == "train" else "answered"
        wanted = "a training set" if purpose == "train" else "an evaluation set"
        raise InputError(f"card {card.name}: its rows are to be {use} (purpose: {card.purpose}); name {wanted} instead")
