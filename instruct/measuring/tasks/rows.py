"""The rows of a few-shot task, read by `datasets`: fields, and a label by its number among the task's choices."""

from __future__ import annotations

import csv
import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from instruct.base.errors import InputError, one_line
from instruct.base.options import Options, Texts
from instruct.base.output import say
from instruct.data.sources import check_names, read_file, read_texts


class RowOptions(Options):
    """What rows are made of, beyond what `datasets` reads."""

    label: str = "label"
    """The column with the label: its number from 0 among the choices, or one of `values`."""
    values: list[int] | dict[str, int] | None = None
    """The number of the choice that a value stands for: a list for values from 0, or a mapping."""
    columns: dict[str, str] = {}
    """More columns, made of others: `text: "{title} {description}"`, `A: "{choices[0]}"`."""
    label_first: bool = False
    """Each line of text is a label, a space and the text."""
    label_files: dict[str, Texts] = {}
    """By split, files with the label of each line of text."""
    file_column: str | None = None
    """A column with what matched the `*` in the name of a row's CSV file, such as `zip://*_dev.csv::ARCHIVE`."""
    each_label: dict[str, tuple[int, int]] = {}
    """By split, of each label only the rows from the first number (counted from 0) to before the second."""


class LocalRows(RowOptions):
    """The same rows as files."""

    dataset_path: str
    """`csv`, `json`, `parquet` or `text`."""
    dataset_kwargs: dict[str, Any]
    """Of `datasets.load_dataset`: `data_files` by split, `encoding` and others."""


class TaskRowReader:
    """Reads the splits of a task.

    Args:
        folder: where files are; None: the current folder.
        choices: what a label may be called, in order.
    """

    def __init__(
        self, task: str, options: RowOptions, source: Mapping[str, Any], folder: str | None, choices: Sequence[str]
    ) -> None:
        self._task, self._options, self._folder = task, options, folder
        self._path, self._name = source["dataset_path"], source.get("dataset_name")
        self._arguments = dict(source.get("dataset_kwargs") or {})
        numbers = {str(place): place for place in range(len(choices))}
        self._numbers = numbers | {choice.strip(" ."): place for place, choice in enumerate(choices)}
        if isinstance(values := options.values, list):
            self._numbers |= {str(value): number for value, number in enumerate(values)}
        elif values is not None:
            self._numbers = dict(values)

    def rows(self, split: str, text: str) -> list[dict[str, Any]]:
        """The rows of a split; those without a text are left out, counted and named.

        Args:
            text: the column with the text.

        Raises:
            InputError: a split, a file, a column or a label that is missing or unknown.
        """
        options = self._options
        kept: list[dict[str, Any]] = []
        blank: list[str] = []
        seen: Counter[int] = Counter()
        first, last = options.each_label.get(split, (0, None))
        for place, row in self._read(split):
            try:
                row |= {name: template.format_map(row) for name, template in options.columns.items()}
                if not str(row.get(text, "x")).strip():
                    blank.append(place)
                    continue
                row["label"] = label = self._number(str(row[options.label]).strip(), place)
            except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
                known = ", ".join(one_line(name, 40) for name in row)
                raise InputError(
                    f"{place}: has no {one_line(error, 60)} (columns: {known}); correct the row, or the metadata "
                    f"of the task {self._task}"
                ) from None
            if first <= seen[label] < (last or math.inf):
                kept.append(row)
            seen[label] += 1
        if blank:
            shown = ", ".join(blank[:5]) + (", …" if len(blank) > 5 else "")
            say(f"note: task {self._task}: {split}: blank rows left out: {len(blank)} ({shown})")
        if not kept:
            raise InputError(f"task {self._task}: the split {split!r} has no rows; correct the task's files")
        return kept

    def _number(self, label: str, place: str) -> int:
        if label not in self._numbers:
            known = one_line(", ".join(self._numbers), 200)
            raise InputError(
                f"{place}: the label {one_line(label, 40)!r} is not in the task {self._task} ({known}); correct the "
                "row, or values in metadata"
            )
        return self._numbers[label]

    def _read(self, split: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """The rows of a split, each with its place."""
        try:
            yield from self._raw(split)
        except InputError:
            raise
        except Exception as error:  # the hub's client and the readers raise their own
            reason = error.__cause__ or error
            shown = one_line(f"{type(reason).__name__}: {reason}", 200)
            raise InputError(
                f"task {self._task}: its rows cannot be read ({shown}); correct its dataset_kwargs, or set "
                "evaluation.tasks.folder to the folder with its files"
            ) from None

    def _raw(self, split: str) -> Iterator[tuple[str, dict[str, Any]]]:
        files = self._arguments.get("data_files")
        if files is None:
            yield from self._loaded(split, self._arguments)
            return
        if split not in files:
            raise InputError(f"task {self._task}: the split {split!r} is missing; add it to data_files")
        files = [self._here(file) for file in ([files[split]] if isinstance(files[split], str) else files[split])]
        if self._path == "text":
            yield from self._lines(files, [self._here(file) for file in self._options.label_files.get(split, ())])
        elif self._options.file_column:
            for file in files:
                yield from self._of_each_file(file, self._options.file_column)
        else:
            self._check_names(files)
            arguments = self._arguments | {"data_files": {split: files}}
            if names := arguments.get("column_names"):  # without a header there are no types, either
                from datasets import Features, Value

                arguments["features"] = Features({name: Value("string") for name in names})
            yield from self._loaded(split, arguments)

    def _lines(self, files: list[str], label_files: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
        """The lines of texts; `datasets` does not read the encoding of compressed ones."""
        encoding = self._arguments.get("encoding", "utf-8")
        lines, labels = (
            [line for file in paths for line in read_texts(Path(file), encoding=encoding, section="dataset_kwargs")]
            for paths in (files, label_files)
        )
        if label_files and len(labels) != len(lines):
            raise InputError(
                f"{files[0]}: has {len(lines)} lines, {label_files[0]} has {len(labels)}; each text needs one label"
            )
        for line, label in itertools.zip_longest(lines, labels):
            row = {"text": str(line.fields["text"]).strip()}
            if label:
                row["label"] = str(label.fields["text"])
            elif self._options.label_first and row["text"]:
                row["label"], space, row["text"] = row["text"].partition(" ")
                if not space:
                    raise InputError(f"{line.place}: is not a label, a space and a text; correct the line")
            yield line.place, row

    def _of_each_file(self, pattern: str, column: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """The rows of the CSV files that match; `datasets` keeps no names of files, and reads no archive offline."""
        import fsspec

        before, _, after = pattern.partition("::")[0].rpartition("/")[2].partition("*")
        for opened in fsspec.open_files(pattern, "rt", encoding=self._arguments.get("encoding", "utf-8"), newline=""):
            name = opened.path.rpartition("/")[2]
            with opened as file:
                table = csv.DictReader(file, self._arguments.get("column_names"), strict=True)
                check_names(table.fieldnames or [], f"{name}, header")
                for number, row in enumerate(table, start=1):
                    yield f"{name}, row {number}", row | {column: name[len(before) : len(name) - len(after)]}

    def _check_names(self, files: list[str]) -> None:
        """Refuse columns and keys that `datasets` renames or of which it takes the last."""
        import fsspec

        encoding = self._arguments.get("encoding", "utf-8")
        for pattern in files if self._path == "csv" and "column_names" not in self._arguments else ():
            for opened in fsspec.open_files(pattern, "rt", encoding=encoding, newline="", compression="infer"):
                delimiter = self._arguments.get("sep") or self._arguments.get("delimiter") or ","
                with opened as file:
                    check_names(next(csv.reader(file, delimiter=delimiter), []), f"{opened.path}, header")
        for file in files if self._path == "json" and "field" not in self._arguments else ():
            if Path(file).is_file() and Path(file).suffix in (".json", ".jsonl", ".gz"):
                for _ in read_file(Path(file), encoding=encoding, option="dataset_kwargs.encoding"):
                    pass

    def _loaded(self, split: str, arguments: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
        from datasets import disable_progress_bars, load_dataset

        disable_progress_bars()
        rows = load_dataset(self._path, self._name, split=split, **arguments)
        return ((f"{split}, row {number}", row) for number, row in enumerate(rows, start=1))

    def _here(self, file: str) -> str:
        """A file in the folder; `zip://*.csv::FILE` names files in an archive."""
        inside, separator, path = file.rpartition("::")
        return file if "://" in path else f"{inside}{separator}{Path(self._folder or '', path).expanduser()}"
