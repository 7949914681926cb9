"""Task cards: the YAML files in `data/tasks/`, each a classification task for a language model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from instruct.base.cards import find_card, list_cards, nearest, read_yaml, validated
from instruct.base.errors import InputError
from instruct.base.options import Options, Texts

Rule = Literal["openicl", "sum"]
Metric = Literal["accuracy", "macro_f1"]
RowFormat = Literal["table", "label_text", "lines", "csv"]

# In a template: {text}, {label}, or another field of a row.
PLACEHOLDER = re.compile(r"\{(\w+)\}")


class SplitOptions(Options):
    """Where the rows of a split are: a `split` of the hub's data set, or `files`."""

    split: str | None = None
    """The split's name on the hub."""
    files: Texts | None = None
    """Paths relative to `evaluation.tasks.folder`; `ARCHIVE.zip!test/*.csv` names files inside an archive."""
    label_files: Texts | None = None
    """The labels of format `lines`, line by line."""
    each_label: tuple[int, int] | None = None
    """Of each label, only the rows from the first number (counted from 0) to before the second."""

    @model_validator(mode="after")
    def _one_place(self) -> SplitOptions:
        if (self.split is None) == (self.files is None):
            raise ValueError("give exactly one of split (a name on the hub) and files (a list)")
        if self.each_label and not 0 <= self.each_label[0] < self.each_label[1]:
            raise ValueError("each_label takes two numbers, the first smaller")
        return self


def _named_split(value: Any) -> Any:
    return {"split": value} if isinstance(value, str) else value


def _listed_files(value: Any) -> Any:
    return {"files": value} if isinstance(value, list) else value


Split = Annotated[SplitOptions, BeforeValidator(_named_split), BeforeValidator(_listed_files)]


class TaskSource(Options):
    """Where a task's rows are, and what its labels look like there."""

    hub: str | None = None
    """A data set's id on the hub."""
    subset: str | None = None
    """The subset of the hub's data set."""
    revision: str = "main"
    """The revision of the hub's data set."""
    splits: dict[str, Split]
    """Split by name; `train` (or the one that `demonstrations_from` names) and `test` are used."""
    format: RowFormat = "table"
    """Of files: `table` (JSON, JSON lines, CSV with a header, Parquet), `label_text` (a line is a label, a space and
    the text), `lines` (texts and labels in separate files) or `csv` (without a header: see `header`)."""
    header: list[str] | None = None
    """The names of the columns of format `csv`."""
    encoding: str = "utf-8"
    """Of files other than tables."""
    fields: dict[str, str] = {}
    """Field to column, where the names differ: `A: choices.0` is the first item of the column `choices`; `file` is what
    matched the `*` in a file's name. In `{title} {description}`, columns are joined."""
    label: str = "label"
    """The column with the label."""
    values: list[str] | dict[str, str] | None = None
    """The label that a value stands for: a list for the numbers from 0, or a mapping (default: the card's `labels`)."""

    @model_validator(mode="after")
    def _fits(self) -> TaskSource:
        for name, split in self.splits.items():
            if (split.split is None) != (self.hub is None):
                raise ValueError(f"splits.{name}: a data set of the hub has splits by name, files have lists")
            if (self.format == "lines") != (split.label_files is not None):
                raise ValueError(f"splits.{name}: label_files and format: lines require each other")
            if split.label_files is not None and len(split.label_files) != len(split.files or []):
                raise ValueError(f"splits.{name}: label_files needs one file for each of files")
        if (self.format == "csv") != (self.header is not None):
            raise ValueError("header and format: csv require each other")
        if self.header and len({*self.header, "file"}) <= len(self.header):
            raise ValueError("header: a column is given twice or called file; rename it")
        return self


class Wording(Options):
    """How a row becomes a prompt; a variant replaces what it sets."""

    template: str
    """A demonstration, or the text to be labeled: `{label}` and fields of a row."""
    verbalizers: dict[str, str] = {}
    """What stands in place of a label (default: its name)."""
    hint: str = ""
    """What comes before the demonstrations; a field in it is shown with spaces for underscores."""
    separator: str = "\n"
    """Between demonstrations, and before the text."""


class Variant(Options):
    """Another wording of the same task."""

    template: str | None = None
    """See the card's."""
    verbalizers: dict[str, str] | None = None
    """See the card's."""
    hint: str | None = None
    """See the card's."""
    separator: str | None = None
    """See the card's."""


class TaskCard(Wording):
    """A task card."""

    name: str = Field(min_length=1)
    """The task's name in results."""
    description: str = ""
    """One line for people."""
    labels: list[str] = Field(min_length=2)
    """The labels' names, in order: of equal scores the first wins."""
    source: TaskSource
    """Where the rows are."""
    local: TaskSource | None = None
    """The same rows as files in `evaluation.tasks.folder`, used if that is set."""
    text: str = "text"
    """The field by which similar rows are found."""
    shots: int = Field(default=8, ge=0)
    """The number of demonstrations."""
    demonstrations: Literal["retrieved", "fixed"] = "retrieved"
    """The most similar rows of the split, most similar first; or its first rows."""
    demonstrations_from: str = "train"
    """The split of the demonstrations."""
    share: float = Field(default=1.0, gt=0, le=1)
    """Only this share of that split, from its beginning."""
    group: str | None = None
    """Fixed demonstrations come from rows with the same value in this field."""
    metric: Metric = "accuracy"
    """`macro_f1` is reported in addition to the accuracy."""
    variants: dict[str, Variant] = {}
    """Other wordings, by name."""
    licence: str
    """Of the data."""
    citation: str | None = None
    """Where the task comes from."""
    notes: str | None = None
    """For people who read the card."""

    @model_validator(mode="after")
    def _is_consistent(self) -> TaskCard:
        if not re.fullmatch(r"[\w.-]+", self.name) or self.name.startswith("."):
            raise ValueError("name: is part of file names; use letters, digits, '-', '_' and '.'")
        if len(set(self.labels)) < len(self.labels):
            raise ValueError("labels: a name is given twice; remove one")
        for place, source in (("source", self.source), ("local", self.local)):
            named = (
                (source.values.values() if isinstance(source.values, dict) else source.values or []) if source else []
            )
            for label in named:
                _known(label, self.labels, f"{place}.values")
            if source:
                for split in ("test", self.demonstrations_from):
                    if split not in source.splits:
                        raise ValueError(f"{place}.splits: the split {split!r} is missing; add it")
        if self.group == "label" or (self.text == "label" and self.demonstrations == "retrieved"):
            raise ValueError(f"{'group' if self.group == 'label' else 'text'}: must be a field other than the label")
        for name in ("", *self.variants):
            wording = self.worded(name or None)
            place = f"variants.{name}." if name else ""
            if PLACEHOLDER.findall(wording.template).count("label") != 1:
                raise ValueError(f"{place}template: must contain {{label}} once")
            if "label" in PLACEHOLDER.findall(wording.hint):
                raise ValueError(f"{place}hint: must not contain {{label}}")
            for label in wording.verbalizers:
                _known(label, self.labels, f"{place}verbalizers")
            spoken = [wording.verbalizers.get(label, label) for label in self.labels]
            if len(set(spoken)) < len(spoken) or not all(spoken):
                raise ValueError(f"{place}verbalizers: each label needs a text of its own")
        return self

    def worded(self, variant: str | None) -> Wording:
        """The wording of a variant; None: the card's own.

        Raises:
            InputError: no such variant.
        """
        own = {name: getattr(self, name) for name in Wording.model_fields}
        if variant is None:
            return Wording(**own)
        if variant not in self.variants:
            raise InputError(
                f"task {self.name}: has no variant {variant!r}{nearest(variant, self.variants)}; leave it out or add it"
            )
        return Wording(**{**own, **self.variants[variant].model_dump(exclude_none=True)})


def _known(label: str, labels: list[str], place: str) -> None:
    if label not in labels:
        raise ValueError(f"{place}: {label!r} is not among the labels ({', '.join(labels)})")


def is_task_file(name: str) -> bool:
    """Whether a task is named by its YAML file."""
    return name.endswith((".yaml", ".yml"))


def divided(names: Sequence[str]) -> dict[str, list[str]]:
    """Tasks by the option that takes them: `cards`, and `lm_eval` for names that no card has and for its YAML files."""
    known = {card.name for card in list_cards("data/tasks")}
    found: dict[str, list[str]] = {"cards": [], "lm_eval": []}
    for name in names:
        path = Path(name)
        if is_task_file(name):
            ours = not path.is_file() or not re.search(rb"^task:", path.read_bytes(), re.MULTILINE)
        else:
            ours = name in known
        found["cards" if ours else "lm_eval"].append(name)
    return found


def load_task_card(name: str) -> TaskCard:
    """The task card called `name`, or in the YAML file `name`.

    Raises:
        InputError: an unknown card (with the nearest names), invalid YAML, an unknown or missing key.
    """
    path = find_card("data/tasks", name)
    return validated(TaskCard, read_yaml(path), path)
