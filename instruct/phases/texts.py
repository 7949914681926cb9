"""`instruct evaluate --texts`: texts that no run made, measured against human ones as continuations of no prefix."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from instruct.base.errors import InputError, counted, one_line
from instruct.base.files import sha256_of, write_atomically
from instruct.base.models import ModelOptions, model_path
from instruct.base.output import say
from instruct.data.formats import text_field, with_cluster, word_field
from instruct.data.sources import RawRow, is_text_file, read_file, read_texts
from instruct.engines.local import load_tokenizer
from instruct.generation.continuations import Continuation, as_json
from instruct.measuring.sampled import (
    OF_CONTINUATIONS,
    continued_systems,
    default_model,
    lacking_of_continuations,
    measure_continuations,
    measure_entropy,
)
from instruct.measuring.texts.diversity import tokens
from instruct.measuring.texts.options import TextMetricOptions
from instruct.run.directory import RunDirectory, whole_run
from instruct.run.lock import only_process, outputs_of

# The step of a run of files of texts; its warnings are the report's.
STEP = "texts"
_NAMES = ("text", "output", "continuation")
# Fewer texts, or fewer words in all, say nothing.
LEAST_TEXTS, LEAST_WORDS = 2, 100


def evaluate_texts(
    human: str, candidates: Sequence[str], folder: str, options: TextMetricOptions, cluster_column: str | None = None
) -> RunDirectory:
    """Measure files of texts against a file of human ones, in a run of their own; what is done is not done again.

    Args:
        cluster_column: of the human texts, in which those that depend on each other have the same value.

    Raises:
        InputError: texts that cannot be read, that are not about the same ids, or that name another reference; a folder
            with texts of other systems; a metric is named that needs more texts.
    """
    references = {id: with_cluster(row, cluster_column) for id, row in _texts(Path(human).expanduser()).items()}
    files = {Path(path).name.split(".")[0]: _texts(Path(path).expanduser()) for path in candidates}
    if len(files) < len(candidates):
        raise InputError("`candidate`: two files have the same name, which is their system's; rename one of them")
    rows = {name: _paired(references, texts) for name, texts in files.items()}
    with whole_run(folder, {"systems": {}, "comparisons": []}) as run:
        run.continuations.mkdir(exist_ok=True)
        if others := sorted({*continued_systems(run)} - {*rows}):
            raise InputError(
                f"{run.continuations}: has texts of {', '.join(others)}, too, which this call doesn't name; name them "
                "as `candidate`, too, or give another `output`"
            )
        for name, own in rows.items():
            with only_process(run, outputs_of(name)):
                write_atomically(run.continuations / f"{name}.json", as_json(own))
    reader = options.reference_model or default_model()
    options = options.model_copy(update={"reference_model": reader})
    run = RunDirectory(folder)
    made_from = {path: sha256_of(Path(path).expanduser()) for path in (human, *candidates)}
    with run.step(STEP, {"files": made_from, "reader": reader.name}) as results:
        results["warnings"] = [*_doubts(references, files), *_first_tokens(reader)]
    lacking = lacking_of_continuations(run)
    wanted = [metric for metric in OF_CONTINUATIONS if metric in (options.metrics or OF_CONTINUATIONS)]
    if options.metrics is None or "entropy" in options.metrics:
        measure_entropy(options, run)
    for metric in wanted:
        if metric in lacking and options.metrics:
            raise InputError(f"evaluation.texts.metrics: {metric} needs {lacking[metric]}")
        if metric in lacking:
            say(f"note: no {metric}: it needs {lacking[metric]}")
    measure_continuations(options, run, [metric for metric in wanted if metric not in lacking])
    return run


def _first_tokens(reader: ModelOptions) -> Iterable[str]:
    """That a model does not predict the first token of a text."""
    tokenizer = load_tokenizer(f"model {reader.name}", model_path(reader.name), reader.revision)
    if tokenizer.bos_token_id is None or tokenizer("a").input_ids[:1] != [tokenizer.bos_token_id]:
        yield f"{reader.name} reads texts without a beginning token: perplexity leaves out the first token of each"


def _texts(path: Path) -> dict[str, RawRow]:
    """The rows of a file by their id, or by their number where none has one."""
    rows = list(read_texts(path) if is_text_file(path) else read_file(path))
    named = [row.fields.get("id") for row in rows]
    if None in named and any(id is not None for id in named):
        raise InputError(f"{rows[named.index(None)].place}: id: is missing; give every row one, or none")
    texts: dict[str, RawRow] = {}
    for number, (row, id) in enumerate(zip(rows, named, strict=True), start=1):
        first = texts.setdefault(str(number if id is None else id), row)
        if first is not row:
            raise InputError(f"{row.place}: id: {one_line(str(id), 60)!r} is already in row {first.row}; remove one")
        _text(row)
    return texts


def _text(row: RawRow) -> str:
    name = next((name for name in _NAMES if name in row.fields), None)
    if name is None:
        names = ", ".join(_NAMES)
        raise InputError(f"{row.place}: no column {names} (columns: {row.columns}); rename the text's to text")
    return text_field(row, name)


def _paired(human: Mapping[str, RawRow], texts: Mapping[str, RawRow]) -> list[Continuation]:
    """A candidate's texts with the human ones of the same ids.

    Raises:
        InputError: an id that one side lacks, or a row with another reference or prefix than the human text's.
    """
    origins = [next(iter(side.values())).origin for side in (human, texts)]
    for side, other, place in ((human, texts, origins[1]), (texts, human, origins[0])):
        if missing := [id for id in side if id not in other]:
            raise InputError(
                f"{place}: {counted(len(missing), 'text')} of the other file missing, first id "
                f"{one_line(missing[0], 60)!r}; give texts of the same ids, or rows in the same order without ids"
            )
    rows = []
    for id, reference in human.items():
        row, known = texts[id], _text(reference)
        for field, expected in (("reference", known), ("prefix", reference.fields.get("prefix"))):
            if field in row.fields and row.fields[field] != expected:
                raise InputError(
                    f"{row.place}: {field}: is not that of id {one_line(id, 60)!r} in {origins[0]}; compare texts with "
                    "the human ones that they were written beside"
                )
        prefix = text_field(reference, "prefix", optional=True)
        cluster = word_field(reference, "cluster")
        rows.append(Continuation(id, prefix, _text(row), known, 0, 0, None, "stop", cluster))
    return rows


def _doubts(human: Mapping[str, RawRow], files: Mapping[str, Mapping[str, RawRow]]) -> Iterable[str]:
    """Why figures of these texts mean little or nothing."""
    if len(human) < LEAST_TEXTS:
        yield f"{counted(len(human), 'text')}: too few texts for intervals; do not generalize"
    references = [_text(row) for row in human.values()]
    for name, texts in {"the human file": human, **files}.items():
        own = [_text(row) for row in texts.values()]
        words = sum(len(tokens(text)) for text in own)
        if words < LEAST_WORDS:
            yield f"{name} has {words} words and punctuation marks in all: its figures say nothing"
        if len(own) > 1 and len(set(own)) == 1:
            yield f"all texts of {name} are the same: its diversity and MAUVE are those of one text"
        elif texts is not human and own == references:
            yield f"the texts of {name} are the human ones: MAUVE and ROUGE are 1 by construction"
        elif (repeated := len(own) - len(set(own))) > 0.1 * len(own):
            yield f"{repeated:,} of {len(own):,} texts of {name} repeat another, so they are not independent"
